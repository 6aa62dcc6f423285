use super::super::{CancelReason, HandlerReply, HandlerRequest, HandlerRequestError, Suspension};
use super::*;
use crate::call::suspension::SuspensionReason;

fn cancelled(bench: &Bench, lease: LeaseId) -> Option<CancelReason> {
    bench.effects.iter().find_map(|effect| match effect {
        Effect::Cancel { lease: of, reason } if *of == lease => Some(*reason),
        Effect::Cancel { .. }
        | Effect::Send { .. }
        | Effect::Start { .. }
        | Effect::Abort { .. }
        | Effect::Answer { .. }
        | Effect::Observe(_) => None,
    })
}

#[test]
fn leases_are_renewed_and_their_handlers_told_when_they_are_lost() {
    let mut bench = Bench::new(2, 2);
    let leases = [bench.start(0, ""), bench.start(1, "")];
    bench.pass(4_000);
    for _ in 0..2 {
        bench.answer("renew_lease", |command| match argument(command, 0) == execution(0) {
            true => ok(&["1700000016000"]),
            false => refused(&["execution_not_active", "cancelled", "1"]),
        });
    }
    assert_eq!(cancelled(&bench, leases[0]), None);
    assert_eq!(cancelled(&bench, leases[1]), Some(CancelReason::LeaseLost));
    bench.end(leases[1], HandlerOutcome::Completed(vec![]));
    assert!(!bench.is_sent("complete_execution"), "its outcome is discarded");
    assert_eq!(bench.outcomes(), [AttemptOutcome::Cancelled]);
}

#[test]
fn a_renewal_without_a_reply_is_repeated_until_the_lease_is_over() {
    let mut bench = Bench::new(1, 1);
    let lease = bench.start(0, "");
    bench.pass(11_999);
    let renewals = bench.sent.iter().filter(|(_, batch)| is(&batch[0], "renew_lease")).count();
    assert!((4..=6).contains(&renewals), "{renewals}");
    assert_eq!(cancelled(&bench, lease), None);
    bench.pass(1);
    assert_eq!(cancelled(&bench, lease), Some(CancelReason::LeaseExpired));
}

#[test]
fn a_lease_counts_from_when_its_claim_was_sent() {
    let mut bench = Bench::new(1, 1);
    bench.ready(0);
    let (ticket, batch) = bench.take("claim_many");
    let lease = lease_of(&batch[0]);
    bench.pass(1_000);
    let late = vec![Answer::Applied(claimed(&batch[0], 0, ""))];
    bench.feed(Input::Settled { ticket, answers: late });
    assert!(bench.started(lease));
    bench.pass(10_999);
    assert_eq!(cancelled(&bench, lease), None);
    bench.pass(1);
    assert_eq!(cancelled(&bench, lease), Some(CancelReason::LeaseExpired));
}

#[test]
fn an_answer_that_came_in_time_saves_a_lease_after_a_pause_of_the_process() {
    let mut bench = Bench::new(1, 1);
    let lease = bench.start(0, "");
    bench.pass(4_000);
    let (ticket, _) = bench.take("renew_lease");
    // The process stops here, and goes on after the first lease would have ended.
    bench.now_ms = 13_000;
    let answers = vec![Answer::Applied(ok(&["1700000016000"]))];
    bench.feed(Input::Settled { ticket, answers });
    assert_eq!(cancelled(&bench, lease), None);
    bench.now_ms = 17_000;
    bench.end(lease, HandlerOutcome::Completed(vec![]));
    assert!(!bench.is_sent("complete_execution"), "by now it is over");
}

#[test]
fn a_completion_is_repeated_after_silence_and_found_under_its_lease() {
    let mut bench = Bench::new(1, 1);
    let lease = bench.start(0, POLICY);
    bench.end(lease, HandlerOutcome::Completed(b"out".to_vec()));
    let first = bench.lose("end_and_claim");
    bench.pass(100);
    let attempt = argument(&first[0], 3);
    let applied = ["execution_not_active", "success", "1", "terminal", &attempt];
    let again = bench.answer("end_and_claim", |_| refused(&applied));
    assert_eq!(first, again);
    assert_eq!(bench.outcomes(), [AttemptOutcome::Ok]);
    bench.answer("release_admission", |_| ok(&["released"]));
    assert!(bench.observed(|fact| matches!(fact, Observation::QuotaReleased(_))));
}

#[test]
fn the_slot_of_a_failure_found_after_silence_is_kept_until_the_record_was_read() {
    let mut bench = Bench::new(1, 1);
    let lease = bench.start(0, POLICY);
    bench.end(lease, HandlerOutcome::Panicked("it broke".to_string()));
    let first = bench.lose("end_and_claim");
    bench.pass(100);
    let attempt = argument(&first[0], 3);
    let retried = ["execution_not_active", "none", "1", "runnable", &attempt];
    bench.answer("end_and_claim", |_| refused(&retried));
    assert!(bench.observed(|fact| matches!(fact, Observation::ReportFound(_))));
    assert!(!bench.is_sent("release_admission"), "the retry may have the same slot");
    assert!(bench.is_sent("HMGET"));
}

#[test]
fn a_report_on_which_the_store_fails_is_given_up_and_frees_its_permit() {
    let mut bench = Bench::new(1, 1);
    let lease = bench.start(0, "");
    bench.end(lease, HandlerOutcome::Completed(vec![]));
    for _ in 0..5 {
        assert!(!bench.outcomes().contains(&AttemptOutcome::Error));
        bench.answer("end_and_claim", |_| Value::Error("ERR it raised".to_string()));
        bench.pass(1_000);
    }
    assert!(!bench.is_sent("end_and_claim"));
    assert_eq!(bench.outcomes(), [AttemptOutcome::Error]);
    assert!(bench.observed(|fact| matches!(fact, Observation::ReportGivenUp { .. })));
    bench.start(0, "");
}

#[test]
fn a_panic_fails_the_attempt_and_gives_its_slot_back() {
    let mut bench = Bench::new(1, 1);
    let lease = bench.start(0, POLICY);
    bench.end(lease, HandlerOutcome::Panicked("it broke".to_string()));
    let failed = |_: &Command| ended_and("terminal_failed", ok(&["empty"]));
    let report = bench.answer("end_and_claim", failed);
    assert_eq!(argument(&report[0], 6), "panic");
    bench.lose("release_admission");
    bench.pass(100);
    bench.answer("release_admission", |_| ok(&["released"]));
    assert!(bench.observed(|fact| matches!(fact, Observation::QuotaReleased(_))));
}

#[test]
fn a_suspension_is_not_taken_for_a_lost_lease() {
    let mut bench = Bench::new(1, 1);
    let lease = bench.start(0, POLICY);
    bench.pass(4_000);
    let (renewal, _) = bench.take("renew_lease");
    let request = HandlerRequest::Suspend(Suspension {
        waitpoint: None,
        condition_json: "{}".to_string(),
        reason: SuspensionReason::WaitingForSignal,
        timeout: None,
    });
    bench.feed(Input::HandlerRequested { lease, id: 5, request });
    let refusal = Answer::Applied(refused(&["execution_not_active", "", "1", "suspended"]));
    bench.feed(Input::Settled { ticket: renewal, answers: vec![refusal] });
    assert_eq!(cancelled(&bench, lease), None);
    bench.lose("suspend_execution");
    bench.pass(100);
    let id = "750e8400-e29b-41d4-a716-446655440000";
    let token = format!("k1:{}", "0".repeat(40));
    bench.answer("suspend_execution", |_| ok(&[id, id, "wpk", &token, "0"]));
    let told = |effect: &Effect| {
        matches!(
            effect,
            Effect::Answer { id: 5, answer: Ok(HandlerReply::Suspended(waitpoints)) }
                if waitpoints.len() == 1
        )
    };
    assert!(bench.effects.iter().any(told), "{:?}", bench.effects);
    assert!(bench.is_sent("HMGET"), "its slot may not be needed");
    bench.end(lease, HandlerOutcome::Suspended);
    assert!(bench.outcomes().is_empty());
    let late = HandlerRequest::Progress { percent: 1, message: String::new() };
    bench.feed(Input::HandlerRequested { lease, id: 6, request: late });
    let lost = |effect: &Effect| {
        matches!(effect, Effect::Answer { id: 6, answer: Err(HandlerRequestError::LeaseLost) })
    };
    assert!(bench.effects.iter().any(lost));
}

#[test]
fn a_drain_waits_then_stops_then_drops_and_puts_back() {
    let mut bench = Bench::new(2, 2);
    let (quick, stuck) = (bench.start(0, ""), bench.start(1, ""));
    bench.feed(Input::Drain);
    bench.ready(0);
    assert!(!bench.is_sent("claim_many"), "nothing more is claimed");
    bench.end(quick, HandlerOutcome::Completed(vec![]));
    bench.answer("complete_execution", |_| ok(&["completed"]));
    for _ in 0..19 {
        bench.pass(1_000);
        while bench.is_sent("renew_lease") {
            bench.answer("renew_lease", |_| ok(&["1700000016000"]));
        }
    }
    assert_eq!(cancelled(&bench, stuck), None);
    bench.pass(1_000);
    assert_eq!(cancelled(&bench, stuck), Some(CancelReason::Draining));
    bench.pass(2_000);
    let dropped = |effect: &Effect| matches!(effect, Effect::Abort { lease } if *lease == stuck);
    assert!(bench.effects.iter().any(dropped));
    bench.answer("TIME", |_| time());
    assert!(!bench.worker.is_drained());
    bench.answer("delay_execution", |_| ok(&["1700000000123"]));
    assert!(bench.worker.is_drained());
    assert_eq!(bench.worker.deadline(), None);
}

#[test]
fn a_drain_ends_even_if_the_store_is_gone() {
    let mut bench = Bench::new(2, 2);
    bench.start(0, "");
    bench.feed(Input::Drain);
    bench.pass(60_000);
    assert!(bench.worker.is_drained());
}
