use super::*;

const BUDGET: &str = "650e8400-e29b-41d4-a716-446655440000";

/// A candidate of partition 0 needs admission.
fn needs_admission(budgets: &str, quota: &str) -> Bench {
    let mut bench = Bench::new(1, 1);
    bench.ready(0);
    let id = execution(0);
    bench.answer("claim_many", |_| ok(&["needs_admission", &id, budgets, quota]));
    bench
}

fn hash(fields: &[&str]) -> Value {
    Value::Array(fields.iter().map(|field| bulk(field)).collect())
}

/// Answers the reads of an admission with these limits of the budget, and a cap of two.
fn read(bench: &mut Bench, used: &str) {
    while bench.is_sent("HGETALL") || bench.is_sent("HMGET") {
        let name = if bench.is_sent("HGETALL") { "HGETALL" } else { "HMGET" };
        bench.answer(name, |command| {
            let key = String::from_utf8_lossy(command.argv.get(1).map_or(b"", Vec::as_slice));
            match () {
                () if is(command, "TIME") => time(),
                () if is(command, "HMGET") => hash(&["0", "60", "2", "0"]),
                () if key.ends_with("limits") => hash(&["hard:tokens", "10"]),
                () => hash(&["tokens", used]),
            }
        });
    }
}

#[test]
fn an_exhausted_budget_holds_the_execution_back_before_a_slot_is_taken() {
    let mut bench = needs_admission(BUDGET, QUOTA);
    read(&mut bench, "10");
    assert!(!bench.is_sent("check_admission_and_record"));
    bench.answer("TIME", |_| time());
    let block = bench.answer("block_execution_for_admission", |_| ok(&["blocked"]));
    assert_eq!(argument(&block[0], 1), "waiting_for_budget");
    assert_eq!(argument(&block[0], 3), "1700000000123");
    assert!(bench.is_sent("claim_many"), "there may be others");
}

#[test]
fn a_slot_of_the_quota_is_taken_and_the_execution_claimed() {
    let mut bench = needs_admission(BUDGET, QUOTA);
    read(&mut bench, "9");
    bench.lose("check_admission_and_record");
    bench.pass(100);
    bench.answer("check_admission_and_record", |_| Value::Array(vec![bulk("ALREADY_ADMITTED")]));
    while bench.is_sent("claim_many") {
        let (ticket, batch) = bench.take("claim_many");
        let reply = |command: &Command| {
            let admitted = argument(command, 7) == execution(0);
            Answer::Applied(if admitted { claimed(command, 0, POLICY) } else { ok(&["empty"]) })
        };
        bench.feed(Input::Settled { ticket, answers: batch.iter().map(reply).collect() });
    }
    assert!(bench.effects.iter().any(|effect| matches!(effect, Effect::Start { .. })));
}

#[test]
fn the_slot_of_an_admitted_execution_that_nobody_runs_is_given_back() {
    for (phase, kept) in [("terminal", false), ("active", true)] {
        let mut bench = needs_admission("", QUOTA);
        read(&mut bench, "0");
        bench.answer("check_admission_and_record", |_| Value::Array(vec![bulk("ADMITTED")]));
        while bench.is_sent("claim_many") {
            bench.answer("claim_many", |command| {
                if is(command, "HMGET") { hash(&[phase, ""]) } else { ok(&["empty"]) }
            });
        }
        assert_eq!(bench.is_sent("release_admission"), !kept, "{phase}");
    }
}

#[test]
fn an_admitted_execution_is_claimed_once() {
    let mut bench = Bench::new(1, 3);
    let lease = bench.start(0, "");
    bench.answer_all("claim_many", |_| ok(&["empty"]));
    bench.ready(0);
    let id = execution(0);
    bench.answer("claim_many", |_| ok(&["needs_admission", &id, "", QUOTA]));
    bench.answer_all("claim_many", |_| ok(&["none_claimable", ""]));
    read(&mut bench, "0");
    bench.answer("check_admission_and_record", |_| Value::Array(vec![bulk("ADMITTED")]));
    bench.ready(0);
    bench.end(lease, HandlerOutcome::Completed(vec![]));
    let plain = bench.is_sent("complete_execution");
    let name = if plain { "complete_execution" } else { "end_and_claim" };
    bench.answer(name, |_| match plain {
        true => ok(&["completed"]),
        false => ok(&["completed", "", "needs_admission", &id, "", QUOTA]),
    });
    let (ticket, batch) = bench.take("claim_many");
    assert_eq!(argument(&batch[0], 7), id);
    while bench.is_sent("claim_many") {
        let again = bench.answer("claim_many", |command| match argument(command, 6).as_str() {
            "0" => ok(&["needs_admission", &id, "", QUOTA]),
            _ => ok(&["none_claimable", ""]),
        });
        assert_ne!(argument(&again[0], 7), id, "it is being claimed");
    }
    assert!(!bench.is_sent("HMGET"), "it was admitted");
    let answers = vec![Answer::Applied(claimed(&batch[0], 0, POLICY))];
    bench.feed(Input::Settled { ticket, answers });
    bench.answer_all("claim_many", |_| ok(&["empty"]));
    assert_eq!(bench.worker.permits_used(), 1);
}

#[test]
fn an_admission_holds_no_permit() {
    let mut bench = Bench::new(2, 1);
    bench.ready(0);
    let id = execution(0);
    bench.answer("claim_many", |_| ok(&["needs_admission", &id, "", QUOTA]));
    assert!(bench.is_sent("HMGET"), "it is being admitted");
    while bench.is_sent("claim_many") {
        bench.answer("claim_many", |_| ok(&["none_claimable", ""]));
    }
    bench.start(1, "");
}

#[test]
fn an_admission_that_cannot_succeed_is_not_repeated_and_given_up_when_its_time_is_over() {
    let mut bench = needs_admission("", QUOTA);
    bench.answer("HMGET", |_| Value::Error("WRONGTYPE Operation against a key".into()));
    bench.answer_all("claim_many", |_| ok(&["none_claimable", ""]));
    bench.pass(14_000);
    assert!(!bench.is_sent("HMGET"), "an error that does not pass");
    bench.pass(2_000);
    assert!(bench.is_sent("claim_many"), "the candidate is looked at again");
}

#[test]
fn a_release_that_cannot_succeed_is_not_repeated() {
    let reads = |error: &'static str| {
        let mut bench = needs_admission("", QUOTA);
        read(&mut bench, "0");
        bench.answer("check_admission_and_record", |_| Value::Array(vec![bulk("ADMITTED")]));
        while bench.is_sent("claim_many") {
            bench.answer("claim_many", |command| {
                if is(command, "HMGET") { Value::Error(error.into()) } else { ok(&["empty"]) }
            });
        }
        bench.pass(1_000);
        let given_up = |fact: &Observation| matches!(fact, Observation::QuotaNotReleased { .. });
        (bench.is_sent("HMGET"), bench.observed(given_up))
    };
    assert_eq!(reads("LOADING the dataset"), (true, false));
    assert_eq!(reads("WRONGTYPE Operation against a key"), (false, true));
}
