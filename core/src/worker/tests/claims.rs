use super::*;
use crate::id::Namespace;
use crate::work_filter::WorkFilter;

#[test]
fn a_claim_without_a_reply_is_repeated_with_its_lease_id_while_the_lease_may_stand() {
    let mut bench = Bench::new(1, 1);
    bench.ready(0);
    let first = bench.lose("claim_many");
    assert!(!bench.is_sent("claim_many"), "after a pause");
    bench.pass(100);
    let again = bench.lose("claim_many");
    assert_eq!(first, again, "the very same call");
    let mut repeats = 0;
    for _ in 0..200 {
        bench.pass(100);
        if bench.is_sent("claim_many") {
            let (lease, now) = (lease_of(&bench.lose("claim_many")[0]), bench.now_ms);
            assert_eq!(lease == lease_of(&first[0]), now < 12_000, "at {now}");
            repeats += 1;
        }
    }
    assert!(repeats > 6, "{repeats}");
    assert!(bench.observed(|fact| matches!(fact, Observation::ClaimGivenUp(_))));
}

#[test]
fn what_a_repeated_claim_gets_is_run_and_renewed_at_once() {
    let mut bench = Bench::new(1, 1);
    bench.ready(0);
    bench.lose("claim_many");
    bench.pass(5_000);
    while bench.is_sent("claim_many") && bench.now_ms < 5_000 {
        bench.lose("claim_many");
    }
    let batch = bench.answer("claim_many", |command| claimed(command, 0, ""));
    assert!(bench.started(lease_of(&batch[0])));
    bench.pass(1);
    assert!(bench.is_sent("renew_lease"), "the lease may be as old as the first try");
}

#[test]
fn a_partition_that_fails_or_is_silent_delays_no_other() {
    let mut bench = Bench::new(3, 2);
    bench.ready(0);
    let (ticket, batch) = bench.take("claim_many");
    let busy = Answer::NotApplied(ServerError::from_reply("LOADING the dataset"));
    bench.feed(Input::Settled { ticket, answers: vec![busy; batch.len()] });
    bench.ready(0);
    assert!(!bench.is_sent("claim_many"), "it is left alone for a while");
    bench.ready(1);
    let silent = bench.take("claim_many").1;
    bench.ready(2);
    bench.answer("claim_many", |command| claimed(command, 2, ""));
    assert_eq!(bench.worker.permits_used(), 2);
    bench.pass(400);
    assert_eq!(silent[0].slot, Partition::flow(1).slot());
    assert!(bench.observed(|fact| matches!(fact, Observation::ClaimSlow(_))));
    let again = bench.answer("claim_many", |_| ok(&["empty"]));
    assert_eq!(again[0].slot, Partition::flow(0).slot(), "with the permit of the silent one");
}

#[test]
fn what_a_slow_claim_gets_waits_for_a_permit_and_is_put_back_if_none_is_free() {
    for becomes_free in [true, false] {
        let mut bench = Bench::new(2, 1);
        bench.ready(0);
        let (ticket, batch) = bench.take("claim_many");
        bench.pass(400);
        let other = bench.start(1, "");
        let late = vec![Answer::Applied(claimed(&batch[0], 0, ""))];
        bench.feed(Input::Settled { ticket, answers: late });
        let lease = lease_of(&batch[0]);
        assert!(!bench.started(lease), "one handler at a time");
        if becomes_free {
            bench.end(other, HandlerOutcome::Completed(vec![]));
            bench.answer("complete_execution", |_| ok(&["completed"]));
            assert!(bench.started(lease));
        } else {
            bench.pass(4_000);
            bench.answer(
                "TIME",
                |command| {
                    if is(command, "TIME") { time() } else { ok(&["1700000012000"]) }
                },
            );
            assert!(bench.is_sent("delay_execution"));
            assert!(!bench.started(lease));
        }
    }
}

#[test]
fn without_capacity_nothing_is_claimed() {
    let mut bench = Bench::new(2, 1);
    bench.feed(Input::Capacity(0));
    bench.ready(0);
    bench.pass(1_000);
    assert!(!bench.is_sent("claim_many"));
    assert!(bench.observed(|fact| matches!(fact, Observation::AtCapacity)));
    bench.feed(Input::Capacity(1));
    assert!(bench.is_sent("claim_many"));
}

#[test]
fn a_target_with_much_work_gets_more_claims_in_one_call() {
    let mut bench = Bench::new(1, 8);
    bench.ready(0);
    let mut sizes = Vec::new();
    while sizes.len() < 3 {
        let batch = bench.answer("claim_many", |command| claimed(command, 0, ""));
        assert_eq!(batch.len(), 1);
        sizes.push(leases_of(&batch[0]).len());
    }
    assert_eq!(sizes, [1, 2, 4]);
    let last = bench.take("claim_many").1;
    assert_eq!(leases_of(&last[0]).len(), 1, "as many as permits are left");
}

#[test]
fn a_target_that_gives_less_than_was_wanted_is_asked_once_more() {
    let mut bench = Bench::new(1, 8);
    bench.ready(0);
    bench.answer("claim_many", |command| claimed(command, 0, ""));
    bench.answer("claim_many", |command| claimed_some(command, 0, "", 1));
    // What stopped the search may be a candidate that needs admission.
    let id = execution(0);
    bench.answer("claim_many", |_| ok(&["needs_admission", &id, "", QUOTA]));
    assert!(bench.is_sent("HMGET"));
    bench.answer("claim_many", |_| ok(&["none_claimable", ""]));
    assert!(!bench.is_sent("claim_many"));
    assert_eq!(bench.worker.permits_used(), 2);
}

#[test]
fn pushes_of_strangers_are_ignored() {
    let mut bench = Bench::new(1, 1);
    bench.ready(7);
    bench.feed(Input::Ready("other".parse().unwrap(), Partition::flow(0)));
    assert!(bench.sent.is_empty());
}

#[test]
fn a_gap_during_a_survey_leads_to_another_survey() {
    let mut bench = Bench::new(2, 4);
    bench.feed(Input::PushGap);
    bench.answer("ZCARD", |_| Value::Int(0));
    bench.feed(Input::PushGap);
    bench.answer("ZCARD", |_| Value::Int(0));
    assert!(!bench.is_sent("claim_many"));
    for _ in 0..2 {
        bench.answer("ZCARD", |_| Value::Int(1));
    }
    assert!(bench.is_sent("claim_many"), "what was counted before the second gap may be old");
    bench.answer_all("claim_many", |_| ok(&["empty"]));
    assert!(!bench.is_sent("ZCARD"), "one gap, one survey");
}

#[test]
fn a_drain_repeats_claims_without_a_reply_at_once_and_puts_back_what_they_got() {
    let mut bench = Bench::new(1, 1);
    bench.ready(0);
    bench.lose("claim_many");
    bench.feed(Input::Drain);
    bench.pass(0);
    assert!(!bench.worker.is_drained());
    let claim = bench.answer("claim_many", |command| claimed(command, 0, ""));
    assert!(!bench.started(lease_of(&claim[0])));
    bench.answer("TIME", |_| time());
    bench.answer("delay_execution", |_| ok(&["1700000000123"]));
    assert!(bench.worker.is_drained());
}

/// The execution with this number, in partition 0.
fn numbered(number: u32) -> String {
    format!("{{fp:0}}:33333333-3333-4333-8333-{number:012}")
}

#[test]
fn a_claim_names_the_namespace_and_kinds_of_the_worker() {
    let mut config = WorkerConfig::new(WorkerId::new("w"), WorkerInstanceId::new("w-1"));
    let kinds = ["b", "a"].map(ToString::to_string).into();
    config.filter = WorkFilter::new(Some(Namespace::new("tenant")), Some(kinds)).unwrap();
    let mut worker = Worker::new(config, [3; 32], LocalTime(0));
    worker.handle(LocalTime(0), Input::Wake);
    let sent = core::iter::from_fn(|| worker.next_effect()).find_map(|effect| match effect {
        Effect::Send { mut batch, .. } => batch.pop()?.argv.pop(),
        Effect::Start { .. }
        | Effect::Cancel { .. }
        | Effect::Abort { .. }
        | Effect::Answer { .. }
        | Effect::Observe(_) => None,
    });
    assert_eq!(sent, Some(b"\ntenant\ta\ntenant\tb\n".to_vec()));
}

#[test]
fn behind_a_thousand_candidates_of_others_the_next_one_is_claimed() {
    let mut bench = Bench::new(1, 1);
    bench.ready(0);
    for page in 0..16 {
        // Whatever becomes ready for others meanwhile does not lead back to the first one.
        bench.ready(0);
        let next = numbered(64 * (page + 1));
        let claim = bench.answer("claim_many", |_| ok(&["none_claimable", &next]));
        let after = if page == 0 { String::new() } else { numbered(64 * page) };
        assert_eq!(argument(&claim[0], 6), after);
    }
    let batch = bench.answer("claim_many", |command| claimed(command, 0, ""));
    assert_eq!(argument(&batch[0], 6), numbered(1_024));
    assert!(bench.started(lease_of(&batch[0])));
}

#[test]
fn a_pass_that_finds_nothing_is_followed_by_a_rest_and_no_other_without_a_push() {
    let mut bench = Bench::new(2, 1);
    bench.ready(0);
    for page in 0..10 {
        let next = if page < 9 { numbered(page) } else { String::new() };
        bench.answer("claim_many", |_| ok(&["none_claimable", &next]));
    }
    assert!(!bench.is_sent("claim_many"), "nothing becomes ready");
    bench.pass(60_000);
    assert!(!bench.is_sent("claim_many"), "without a push or a poll there is nothing to do");
    bench.ready(0);
    for page in 0..10 {
        let next = if page < 9 { numbered(page) } else { String::new() };
        bench.answer("claim_many", |_| ok(&["none_claimable", &next]));
        bench.ready(0);
    }
    assert!(!bench.is_sent("claim_many"), "it rests");
    bench.ready(1);
    let other = bench.answer("claim_many", |_| ok(&["empty"]));
    assert_eq!(other[0].slot, Partition::flow(1).slot(), "other targets do not");
    bench.pass(80);
    let again = bench.answer("claim_many", |_| ok(&["empty"]));
    assert_eq!(argument(&again[0], 6), "", "from the first candidate on");
}

#[test]
fn the_next_claim_starts_after_what_a_claim_has_passed_over() {
    let mut bench = Bench::new(1, 3);
    bench.ready(0);
    let passed = numbered(5);
    bench.answer("claim_many", |command| {
        let Value::Array(mut reply) = claimed(command, 0, "") else { unreachable!() };
        reply.push(Value::Array(["passed", &passed, "other", "7"].map(bulk).to_vec()));
        Value::Array(reply)
    });
    let claim = bench.answer("claim_many", |_| ok(&["none_claimable", ""]));
    assert_eq!(argument(&claim[0], 6), passed);
    assert!(!bench.is_sent("claim_many"));
    bench.ready(0);
    assert_eq!(argument(&bench.take("claim_many").1[0], 6), "", "a new pass");
}

#[test]
fn a_kind_that_waits_for_long_is_looked_up_in_the_registry_once_a_minute() {
    for (kinds, unhandled) in [(Some("new"), false), (Some("old"), true), (None, false)] {
        let mut bench = Bench::with(1, 1, |config| {
            let kinds = ["old".to_string()].into();
            config.filter = WorkFilter::new(Some(Namespace::new("t")), Some(kinds)).unwrap();
        });
        let passes_over = |bench: &mut Bench, waited_ms: &str| {
            bench.ready(0);
            bench.answer("claim_many", |_| ok(&["none_claimable", "", "new", waited_ms]));
        };
        passes_over(&mut bench, "29999");
        assert!(!bench.is_sent("SMEMBERS"), "it may be claimed soon");
        passes_over(&mut bench, "30000");
        let index = |command: &Command| match command.argv[1].as_slice() {
            b"ff:idx:t:workers" => Value::Array(vec![bulk("w-2"), bulk("gone")]),
            _ => Value::Array(Vec::new()),
        };
        bench.answer_all("SMEMBERS", index);
        bench.answer_all("HMGET", |command| match command.argv[1].as_slice() {
            b"ff:worker:t:w-2:caps" => {
                Value::Array(vec![bulk("default"), kinds.map_or(Value::Nil, bulk)])
            }
            _ => Value::Array(vec![Value::Nil, Value::Nil]),
        });
        let found = |fact: &Observation| matches!(fact, Observation::KindUnhandled { kind, .. } if kind == "new");
        assert_eq!(bench.observed(found), unhandled, "{kinds:?}");
        passes_over(&mut bench, "50000");
        assert!(!bench.is_sent("SMEMBERS"), "once is enough");
        bench.pass(60_000);
        passes_over(&mut bench, "90000");
        assert!(bench.is_sent("SMEMBERS"));
    }
}
