//! Ends that claim what comes next.

use super::*;

fn done() -> HandlerOutcome {
    HandlerOutcome::Completed(b"out".to_vec())
}

/// The reply to an end that got the next execution of partition 0.
fn next(command: &Command) -> Value {
    ended_and("completed", claimed(command, 0, ""))
}

fn nothing(_: &Command) -> Value {
    ended_and("completed", ok(&["empty"]))
}

#[test]
fn an_end_claims_the_next_in_one_call() {
    let mut bench = Bench::new(1, 1);
    let mut lease = bench.start(0, "");
    for _ in 0..20 {
        bench.end(lease, done());
        let batch = bench.answer("end_and_claim", next);
        assert_eq!((batch.len(), bench.sent.len()), (1, 0), "one call for each task");
        lease = lease_of(&batch[0]);
        assert!(bench.started(lease));
        assert_eq!(bench.worker.permits_used(), 1);
    }
    assert_eq!(bench.outcomes(), [AttemptOutcome::Ok; 20]);
}

#[test]
fn a_failure_claims_the_next_too() {
    let mut bench = Bench::new(1, 1);
    for (status, at, outcome) in [
        ("retry_scheduled", "1700000099000", AttemptOutcome::Retry),
        ("terminal_failed", "", AttemptOutcome::Error),
    ] {
        let lease = bench.start(0, "");
        bench.end(lease, HandlerOutcome::Panicked("it broke".to_string()));
        let batch = bench.answer("end_and_claim", |_| ok(&[status, at, "empty"]));
        assert_eq!(argument(&batch[0], 4), "fail");
        assert_eq!(bench.outcomes().last(), Some(&outcome));
    }
}

#[test]
fn an_end_without_a_reply_is_repeated_and_its_claim_is_run_once() {
    let mut bench = Bench::new(1, 1);
    let lease = bench.start(0, "");
    bench.end(lease, done());
    let first = bench.lose("end_and_claim");
    bench.pass(100);
    let again = bench.answer("end_and_claim", next);
    assert_eq!(first, again, "the very same call");
    let claims = |fact: &Observation| matches!(fact, Observation::Claimed { repeated: true, .. });
    assert!(bench.observed(claims));
    let starts = bench.effects.iter().filter(|effect| matches!(effect, Effect::Start { .. }));
    assert_eq!(starts.count(), 2);
    assert_eq!(bench.outcomes(), [AttemptOutcome::Ok]);
}

#[test]
fn an_end_without_a_reply_is_repeated_while_the_lease_of_its_claim_may_stand() {
    let mut bench = Bench::new(1, 1);
    let lease = bench.start(0, "");
    bench.pass(11_000);
    bench.end(lease, done());
    let first = bench.lose("end_and_claim");
    assert_eq!(bench.worker.permits_used(), 1);
    let mut last_ms = 0;
    while bench.now_ms < 40_000 {
        bench.pass(100);
        if bench.is_sent("end_and_claim") {
            assert_eq!(bench.lose("end_and_claim"), first);
            last_ms = bench.now_ms;
        }
    }
    assert!((21_000..=23_000).contains(&last_ms), "the last one at {last_ms}");
    assert_eq!(bench.outcomes(), [AttemptOutcome::Timeout]);
}

#[test]
fn an_end_that_was_applied_without_a_claim_is_found_and_its_target_asked_again() {
    let mut bench = Bench::new(1, 2);
    let lease = bench.start(0, "");
    bench.answer_all("claim_many", |_| ok(&["empty"]));
    assert!(!bench.is_sent("claim_many"), "its target is not queued");
    bench.end(lease, done());
    let first = bench.lose("end_and_claim");
    bench.pass(100);
    let attempt = argument(&first[0], 3);
    let applied = ["execution_not_active", "success", "1", "terminal", &attempt];
    bench.answer("end_and_claim", |_| refused(&applied));
    assert!(bench.observed(|fact| matches!(fact, Observation::ReportFound(_))));
    assert_eq!(bench.outcomes(), [AttemptOutcome::Ok]);
    assert!(bench.is_sent("claim_many"));
}

#[test]
fn the_target_of_an_end_whose_claim_has_lapsed_is_asked_again() {
    let mut bench = Bench::new(1, 2);
    let lease = bench.start(0, "");
    bench.answer_all("claim_many", |_| ok(&["empty"]));
    bench.end(lease, done());
    bench.lose("end_and_claim");
    bench.pass(100);
    assert!(!bench.is_sent("claim_many"));
    bench.answer("end_and_claim", |_| ended_and("completed", ok(&["lapsed"])));
    assert_eq!(bench.outcomes(), [AttemptOutcome::Ok]);
    assert!(bench.is_sent("claim_many"));
}

#[test]
fn an_end_by_others_is_not_taken_for_that_of_a_report_without_a_reply() {
    for (by, outcome) in
        [("cancelled", AttemptOutcome::Cancelled), ("expired", AttemptOutcome::Timeout)]
    {
        let mut bench = Bench::new(1, 1);
        let lease = bench.start(0, "");
        bench.end(lease, done());
        let first = bench.lose("end_and_claim");
        bench.pass(100);
        let attempt = argument(&first[0], 3);
        let ended = ["execution_not_active", by, "1", "terminal", &attempt];
        bench.answer("end_and_claim", |_| refused(&ended));
        assert!(!bench.observed(|fact| matches!(fact, Observation::ReportFound(_))));
        assert_eq!(bench.outcomes(), [outcome]);
    }
}

#[test]
fn an_end_that_is_refused_claims_nothing() {
    let mut bench = Bench::new(1, 1);
    let lease = bench.start(0, "");
    bench.end(lease, done());
    bench.answer("end_and_claim", |_| refused(&["stale_lease"]));
    assert_eq!(bench.outcomes(), [AttemptOutcome::Timeout]);
    assert_eq!(bench.worker.permits_used(), 1, "of the claim on the queued target");
    assert!(bench.is_sent("claim_many"));
}

#[test]
fn an_end_that_was_surely_not_applied_goes_on_without_a_claim() {
    for perhaps_before in [false, true] {
        let mut bench = Bench::new(1, 1);
        let lease = bench.start(0, "");
        bench.end(lease, done());
        if perhaps_before {
            bench.lose("end_and_claim");
            bench.pass(100);
        }
        let (ticket, _) = bench.take("end_and_claim");
        let busy = Answer::NotApplied(ServerError::from_reply("LOADING the dataset"));
        bench.feed(Input::Settled { ticket, answers: vec![busy] });
        bench.pass(200);
        assert_eq!(bench.is_sent("complete_execution"), !perhaps_before);
        assert_eq!(bench.is_sent("end_and_claim"), perhaps_before, "it may have claimed");
    }
}

#[test]
fn an_end_claims_nothing_if_the_permit_is_not_free_for_it() {
    let plain = |prepare: &dyn Fn(&mut Bench)| {
        let mut bench = Bench::new(2, 2);
        let lease = bench.start(0, "");
        bench.answer_all("claim_many", |_| ok(&["empty"]));
        prepare(&mut bench);
        bench.end(lease, done());
        assert_ne!(bench.is_sent("complete_execution"), bench.is_sent("end_and_claim"));
        bench.is_sent("complete_execution")
    };
    assert!(!plain(&|_| {}));
    assert!(plain(&|bench| bench.feed(Input::Drain)));
    assert!(plain(&|bench| bench.feed(Input::Capacity(0))));
    assert!(!plain(&|bench| bench.feed(Input::Capacity(1))), "its own permit");
    // An execution that was claimed slowly waits for the permit.
    assert!(plain(&|bench| {
        bench.ready(1);
        let (ticket, batch) = bench.take("claim_many");
        bench.pass(400);
        bench.feed(Input::Capacity(1));
        let late = vec![Answer::Applied(claimed(&batch[0], 1, ""))];
        bench.feed(Input::Settled { ticket, answers: late });
    }));
    // Its partition does not answer.
    assert!(plain(&|bench| {
        bench.ready(0);
        bench.take("claim_many");
        bench.pass(400);
    }));
    // Its partition backs off.
    assert!(plain(&|bench| {
        bench.ready(0);
        let (ticket, _) = bench.take("claim_many");
        let busy = Answer::NotApplied(ServerError::from_reply("LOADING the dataset"));
        bench.feed(Input::Settled { ticket, answers: vec![busy] });
    }));
    // An admitted execution of another partition waits for the permit.
    assert!(plain(&|bench| {
        bench.ready(1);
        bench.feed(Input::Capacity(1));
        let id = execution(1);
        bench.answer("claim_many", |_| ok(&["needs_admission", &id, "", ""]));
        assert!(bench.observed(|fact| matches!(fact, Observation::Admitted(_))));
    }));
}

#[test]
fn a_permit_stays_with_its_target_for_a_while_if_others_wait() {
    for others_wait in [false, true] {
        let mut bench = Bench::new(2, 1);
        let mut lease = bench.start(0, "");
        if others_wait {
            bench.ready(1);
        }
        let mut claims = 0;
        while bench.now_ms < 2_000 {
            bench.pass(50);
            bench.end(lease, done());
            if !bench.is_sent("end_and_claim") {
                break;
            }
            lease = lease_of(&bench.answer("end_and_claim", next)[0]);
            claims += 1;
        }
        assert_eq!(claims, if others_wait { 9 } else { 40 });
        if others_wait {
            bench.answer("complete_execution", |_| ok(&["completed"]));
            let claims = bench.take("claim_many").1;
            assert_eq!(claims[0].slot, Partition::flow(1).slot(), "now it is its turn");
        }
    }
}

#[test]
fn a_target_that_an_end_finds_empty_is_not_asked_again_unless_it_became_ready() {
    for became_ready in [false, true] {
        let mut bench = Bench::new(1, 1);
        let lease = bench.start(0, "");
        bench.end(lease, done());
        if became_ready {
            bench.ready(0);
        }
        bench.answer("end_and_claim", nothing);
        assert_eq!(bench.is_sent("claim_many"), became_ready);
    }
}

#[test]
fn a_candidate_that_an_end_finds_is_admitted() {
    let mut bench = Bench::new(1, 1);
    let lease = bench.start(0, "");
    bench.end(lease, done());
    let id = execution(0);
    let candidate = |_: &Command| ok(&["completed", "", "needs_admission", &id, "", QUOTA]);
    bench.answer("end_and_claim", candidate);
    assert!(bench.is_sent("HMGET"), "its quota is read");
    let behind = bench.answer("claim_many", |_| ok(&["empty"]));
    assert_eq!(argument(&behind[0], 6), id, "it does not delay others");
}

#[test]
fn ends_do_not_search_candidates_that_are_for_others() {
    let mut bench = Bench::new(1, 2);
    let leases = [bench.start(0, ""), bench.start(0, "")];
    bench.end(leases[0], done());
    let passed = execution(0);
    bench.answer("end_and_claim", |_| ended_and("completed", ok(&["none_claimable", &passed])));
    let claims = bench.answer("claim_many", |_| ok(&["none_claimable", ""]));
    assert_eq!(argument(&claims[0], 6), passed, "what comes after them is asked for");
    bench.end(leases[1], done());
    bench.answer("complete_execution", |_| ok(&["completed"]));
    let third = bench.start(0, "");
    bench.end(third, done());
    assert!(bench.is_sent("end_and_claim"), "after a push");
}

#[test]
fn what_an_end_claims_during_a_drain_is_put_back() {
    let mut bench = Bench::new(1, 1);
    let lease = bench.start(0, "");
    bench.end(lease, done());
    bench.feed(Input::Drain);
    let batch = bench.answer("end_and_claim", next);
    assert!(!bench.started(lease_of(&batch[0])));
    bench.answer("TIME", |_| time());
    bench.answer("delay_execution", |_| ok(&["1700000000123"]));
    assert!(bench.worker.is_drained());
}
