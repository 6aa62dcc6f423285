//! Sibling cancellation: a decided group cancels its other upstreams, and its entry is drained when
//! all of them have ended.

use std::collections::BTreeSet;

use selvedge_core::call::flow::{GroupPolicy, OnSatisfied};
use selvedge_core::command::Answer;
use selvedge_core::engine::{CancelDisposition, Filter, Observation, ReconcileAction, ScannerName};
use selvedge_core::error::ServerError;
use selvedge_tests::harness::{Harness, silence};

use crate::fixtures::{ClientCalls, core, execution, only};
use crate::flow_builder::{ANY_OF, CANCEL_GROUPS, Flows, Graph, flow, group_key};

const DISPATCHER: ScannerName = ScannerName::EdgeCancelDispatcher;
const RECONCILER: ScannerName = ScannerName::EdgeCancelReconciler;
const DRAIN: &[u8] = b"ff_drain_sibling_cancel_group_checked";
const CANCEL: &[u8] = b"ff_cancel_execution";

/// Child 0 needs one of upstreams 1 to `upstreams`. The first has succeeded, and an engine that is
/// gone has decided the group: the others are to be cancelled.
fn cancelling(upstreams: usize) -> Harness {
    let mut harness = Harness::new();
    harness.submit(&Graph::new().roots(1..=upstreams).some_of(0, 1..=upstreams, ANY_OF));
    fire(&mut harness, |harness| harness.complete(1));
    harness
}

/// Has an engine dispatch a completion and crash before it does anything else.
fn fire(harness: &mut Harness, end: impl FnOnce(&mut Harness)) {
    let engine = harness.start(only(&[]));
    harness.run_for(0);
    harness.push = true;
    end(harness);
    harness.run_for(0);
    harness.kill(engine);
    harness.push = false;
    harness.trace.clear();
    harness.facts.clear();
    assert_eq!(harness.size(CANCEL_GROUPS), 1, "the group has fired");
}

/// The lines of the trace about sibling cancels.
fn sibling_lines(harness: &Harness) -> Vec<&str> {
    let about = |line: &&String| line.contains("cancel_");
    harness.trace.iter().filter(about).map(String::as_str).collect()
}

fn cancelled(harness: &Harness, disposition: CancelDisposition) -> usize {
    let wanted = Observation::SiblingCancelled(disposition);
    harness.facts.iter().filter(|(_, fact)| *fact == wanted).count()
}

fn reconciled(harness: &Harness, action: ReconcileAction) -> usize {
    let wanted = Observation::SiblingReconciled(action);
    harness.facts.iter().filter(|(_, fact)| *fact == wanted).count()
}

/// Answers every call of `function` instead of the server.
fn answering(function: &'static [u8], answer: fn() -> Answer) -> selvedge_tests::harness::Rule {
    Box::new(move |command| (command.argv[1] == function).then(answer))
}

fn loading() -> Answer {
    Answer::NotApplied(ServerError::from_reply("LOADING come back later"))
}

#[test]
fn the_siblings_are_cancelled_and_the_note_is_drained() {
    let mut harness = cancelling(3);
    harness.start(only(&[DISPATCHER]));
    harness.run_for(0);
    assert_eq!(
        sibling_lines(&harness),
        [
            "engine-2 reconcile_sibling_cancel_group F0 -> no_op siblings_running",
            "engine-2 drain_sibling_cancel_group_checked F0 -> siblings_running E2 E3",
            "engine-2 cancel_execution E2 -> cancelled runnable",
            "engine-2 cancel_execution E3 -> cancelled runnable",
            "engine-2 drain_sibling_cancel_group_checked F0 -> drained",
        ]
    );
    for sibling in [2, 3] {
        let record = core(&execution(sibling));
        assert_eq!(harness.field(&record, "cancellation_reason"), "sibling_quorum_satisfied");
    }
    assert_eq!((harness.state(0), harness.size(CANCEL_GROUPS)), ("waiting".into(), 0));
    let counts = harness.counts(DISPATCHER);
    assert_eq!((counts.processed, counts.errors()), (1, 0));
    assert_eq!(cancelled(&harness, CancelDisposition::Cancelled), 2);
}

#[test]
fn an_impossible_quorum_cancels_for_its_own_reason() {
    let mut harness = Harness::new();
    let policy = GroupPolicy::Quorum { k: 3, on_satisfied: OnSatisfied::CancelRemaining };
    harness.submit(&Graph::new().roots(1..=4).some_of(0, 1..=4, policy));
    fire(&mut harness, |harness| {
        harness.fail(1);
        harness.fail(2);
    });
    harness.start(only(&[DISPATCHER]));
    harness.run_for(0);
    assert_eq!(harness.state(0), "skipped");
    for sibling in [3, 4] {
        let record = core(&execution(sibling));
        assert_eq!(harness.field(&record, "cancellation_reason"), "sibling_quorum_impossible");
    }
}

#[test]
fn e1_a_sibling_that_ends_at_the_same_instant_stops_no_other() {
    let mut harness = cancelling(4);
    let record = core(&execution(2));
    let mut once = true;
    harness.before_command = Some(Box::new(move |host, command| {
        if command.argv[1] == CANCEL && std::mem::take(&mut once) {
            host.call(&[
                "HSET",
                &record,
                "lifecycle_phase",
                "terminal",
                "terminal_outcome",
                "success",
            ]);
        }
    }));
    harness.start(only(&[DISPATCHER]));
    harness.run_for(0);
    assert_eq!(cancelled(&harness, CancelDisposition::Cancelled), 2, "{:#?}", harness.trace);
    assert_eq!(cancelled(&harness, CancelDisposition::AlreadyTerminal), 1);
    assert_eq!(
        (harness.state(3), harness.state(4), harness.size(CANCEL_GROUPS)),
        ("cancelled".into(), "cancelled".into(), 0)
    );
}

#[test]
fn e1_a_sibling_that_is_gone_stops_no_other() {
    let mut harness = cancelling(4);
    harness.run(&format!("DEL {}", core(&execution(2))));
    harness.start(only(&[DISPATCHER]));
    harness.run_for(0);
    assert_eq!(
        (harness.state(3), harness.state(4), harness.size(CANCEL_GROUPS)),
        ("cancelled".into(), "cancelled".into(), 0)
    );
}

#[test]
fn e2_h2_siblings_beyond_any_batch_are_all_cancelled() {
    let mut harness = cancelling(1_030);
    harness.start(only(&[DISPATCHER, RECONCILER]));
    harness.run_for(0);
    for sibling in 2..=1_030 {
        assert_eq!(harness.state(sibling), "cancelled", "{sibling}");
    }
    assert_eq!(harness.traced(&["cancel_execution", "-> cancelled"]), 1_029);
    assert_eq!(harness.size(CANCEL_GROUPS), 0);
}

#[test]
fn e3_a_sibling_that_cannot_be_cancelled_holds_back_only_the_note() {
    let mut harness = cancelling(1_250);
    // More broken ones at the head than one round cancels.
    let ids: BTreeSet<Vec<u8>> = (2..=1_120).map(|n| execution(n).into_bytes()).collect();
    harness.rule = Some(Box::new(move |command| {
        let broken = command.argv.iter().any(|word| ids.contains(word));
        let wrong = Answer::Applied(selvedge_core::value::Value::Error("WRONGTYPE no".into()));
        (command.argv[1] == CANCEL && broken).then_some(wrong)
    }));
    harness.start(only(&[DISPATCHER]));
    harness.run_for(0);
    for sibling in 1_121..=1_250 {
        assert_eq!(harness.state(sibling), "cancelled", "{sibling}");
    }
    assert_eq!(harness.size(CANCEL_GROUPS), 1, "the note stays");
    harness.run_for(30_000);
    let counts = harness.counts(DISPATCHER);
    assert!(counts.skipped > 10 && counts.failed < 12, "it is left alone: {counts:?}");
    harness.rule = None;
    harness.run_for(15_000);
    assert_eq!((harness.state(2), harness.size(CANCEL_GROUPS)), ("cancelled".into(), 0));
}

#[test]
fn e5_h3_more_groups_than_a_batch_are_all_served_in_one_scan() {
    let mut harness = cancelling(2);
    for n in 0..120 {
        harness.run(&format!("SADD {CANCEL_GROUPS} garbage-{n}"));
        let stale = format!("{}|{}", flow(1), execution(5_000 + n));
        harness.run(&format!("SADD {CANCEL_GROUPS} {stale}"));
    }
    let shouted = format!("{}|{}", flow(1).to_string().to_uppercase(), execution(6_000));
    harness.run(&format!("SADD {CANCEL_GROUPS} {shouted}"));
    harness.run(&format!(
        "SADD {CANCEL_GROUPS} {}|{{fp:7}}:00000000-0000-4000-8000-000000000001",
        flow(1)
    ));
    harness.start(only(&[DISPATCHER]));
    harness.run_for(0);
    assert_eq!((harness.state(2), harness.size(CANCEL_GROUPS)), ("cancelled".into(), 0));
    let entry = format!("{CANCEL_GROUPS} garbage-7");
    let reason = harness.field("ff:aside:{fp:0}", &entry);
    assert_eq!(reason, "not a flow and a downstream execution", "kept for the operator");
    assert_ne!(harness.field("ff:aside:{fp:0}", &format!("{CANCEL_GROUPS} {shouted}")), "");
}

#[test]
fn e6_another_tenants_siblings_are_left_alone() {
    let mut harness = cancelling(3);
    let filter = Filter::by_namespace("other");
    harness.start(only(&[DISPATCHER, RECONCILER]).with_filter(filter));
    harness.run_for(30_000);
    assert_eq!(harness.traced(&["cancel_execution"]), 0);
    assert_eq!((harness.state(2), harness.size(CANCEL_GROUPS)), ("waiting".into(), 1));
}

#[test]
fn a_call_that_was_not_or_perhaps_applied_is_repeated() {
    for function in [CANCEL, DRAIN] {
        for answer in [loading as fn() -> Answer, silence] {
            let mut harness = cancelling(3);
            harness.rule = Some(answering(function, answer));
            harness.start(only(&[DISPATCHER]));
            harness.run_for(0);
            assert_eq!((harness.state(2), harness.size(CANCEL_GROUPS)), ("waiting".into(), 1));
            let counts = harness.counts(DISPATCHER);
            assert_eq!((counts.deferred, counts.errors()), (1, 1));
            harness.rule = None;
            harness.run_for(3_000);
            assert_eq!((harness.state(2), harness.size(CANCEL_GROUPS)), ("cancelled".into(), 0));
            assert_eq!(harness.traced(&["cancel_execution", "-> cancelled"]), 2);
        }
    }
}

#[test]
fn a_lost_reply_leads_to_no_second_cancellation() {
    for function in [CANCEL, DRAIN] {
        let mut harness = cancelling(4);
        let mut losses = 3;
        harness.reply_lost = Some(Box::new(move |command| {
            let lost = command.argv[1] == function && losses > 0;
            losses -= usize::from(lost);
            lost
        }));
        harness.start(only(&[DISPATCHER, RECONCILER]));
        harness.run_for(15_000);
        assert_eq!(
            harness.traced(&["cancel_execution", "-> cancelled"]),
            3,
            "{:#?}",
            harness.trace
        );
        assert_eq!(harness.traced(&["cancel_execution"]), 3);
        assert_eq!(harness.size(CANCEL_GROUPS), 0);
    }
}

#[test]
fn two_engines_at_once_cancel_every_sibling_once() {
    let mut harness = cancelling(40);
    harness.start(only(&[DISPATCHER, RECONCILER]));
    harness.start(only(&[DISPATCHER, RECONCILER]));
    harness.run_for(15_000);
    for sibling in 2..=40 {
        let line = format!("cancel_execution E{sibling} -> cancelled");
        assert_eq!(harness.traced(&[&line]), 1, "{sibling}");
    }
    assert_eq!(harness.traced(&["-> drained"]) + harness.traced(&["-> completed_drain"]), 1);
    assert_eq!(harness.size(CANCEL_GROUPS), 0);
}

#[test]
fn a_replayed_child_needs_its_upstreams_again() {
    let mut harness = Harness::new();
    let policy = GroupPolicy::Quorum { k: 2, on_satisfied: OnSatisfied::CancelRemaining };
    harness.submit(&Graph::new().roots(1..=3).some_of(0, 1..=3, policy));
    fire(&mut harness, |harness| {
        harness.fail(1);
        harness.fail(2);
    });
    harness.replay(0);
    harness.start(only(&[DISPATCHER, RECONCILER]));
    harness.run_for(15_000);
    assert_eq!(harness.traced(&["cancel_execution"]), 0, "{:#?}", harness.trace);
    assert_eq!((harness.state(3), harness.size(CANCEL_GROUPS)), ("waiting".into(), 0));
}

#[test]
fn h1_the_reconciler_finishes_what_is_paid_and_leaves_what_is_not() {
    let mut harness = cancelling(3);
    harness.rule = Some(answering(DRAIN, loading));
    harness.start(only(&[RECONCILER]));
    harness.run_for(12_000);
    assert_eq!(
        (harness.state(2), harness.size(CANCEL_GROUPS)),
        ("waiting".into(), 1),
        "siblings still run"
    );
    assert!(reconciled(&harness, ReconcileAction::NoOp) >= 2);
    for sibling in [2, 3] {
        harness.run(&format!("HSET {} lifecycle_phase terminal", core(&execution(sibling))));
    }
    harness.run_for(12_000);
    assert_eq!(harness.size(CANCEL_GROUPS), 0);
    assert_eq!(harness.field(&group_key(0), "cancel_siblings_pending_flag"), "");
    assert_eq!(reconciled(&harness, ReconcileAction::CompletedDrain), 1);
    assert_eq!(harness.traced(&["cancel_execution"]), 0);
    assert_eq!(harness.counts(RECONCILER).processed, 1);
}

#[test]
fn the_reconciler_removes_entries_without_pending_cancels_and_unreadable_ones() {
    let mut harness = cancelling(3);
    harness.run(&format!("HDEL {} cancel_siblings_pending_flag", group_key(0)));
    harness.run(&format!("SADD {CANCEL_GROUPS} {}|{}", flow(1), execution(9)));
    harness.run(&format!("SADD {CANCEL_GROUPS} garbage"));
    harness.rule = Some(answering(DRAIN, loading));
    harness.start(only(&[RECONCILER]));
    harness.run_for(0);
    assert_eq!(harness.size(CANCEL_GROUPS), 0);
    assert_eq!(reconciled(&harness, ReconcileAction::SremmedStale), 2);
    assert_eq!(harness.counts(RECONCILER).processed, 2);
    assert_eq!(harness.state(2), "waiting", "none was cancelled without an entry");
}

#[test]
fn the_reconciler_defers_what_is_not_answered_and_backs_off_what_fails() {
    let wrong =
        || Answer::Applied(selvedge_core::value::Value::Error("WRONGTYPE of that kind".into()));
    for (answer, fails) in [(loading as fn() -> Answer, false), (silence, false), (wrong, true)] {
        let mut harness = cancelling(3);
        harness.rule = Some(Box::new(move |command| {
            let ours = [DRAIN, b"ff_reconcile_sibling_cancel_group"];
            ours.contains(&command.argv[1].as_slice()).then(answer)
        }));
        harness.start(only(&[RECONCILER]));
        harness.run_for(95_000);
        let counts = harness.counts(RECONCILER);
        assert_eq!((counts.failed, counts.skipped > 3), if fails { (3, true) } else { (0, false) });
        assert_eq!(harness.size(CANCEL_GROUPS), 1);
    }
}
