//! Sibling cancels: a decided group owes its other upstreams their cancel, and the note of that
//! debt goes when it is paid.

use std::collections::BTreeSet;

use selvedge_core::call::flow::{GroupPolicy, OnSatisfied};
use selvedge_core::engine::{
    Answer, Disposition, EngineConfig, Filter, Input, Observation, ReconcileAction, ScannerName,
};
use selvedge_core::error::ServerError;
use selvedge_tests::rig::{Rig, silence};

use crate::flows::{ANY_OF, Flows, Graph, OWING, flow, group_key};
use crate::kit::{World, core, execution, only};

const DISPATCHER: ScannerName = ScannerName::EdgeCancelDispatcher;
const RECONCILER: ScannerName = ScannerName::EdgeCancelReconciler;
const DRAIN: &[u8] = b"ff_drain_sibling_cancel_group_checked";
const CANCEL: &[u8] = b"ff_cancel_execution";

/// Child 0 needs one of upstreams 1 to `upstreams`. The first has succeeded, and an engine that is
/// gone has fired the group: the others are owed their cancel.
fn owing(upstreams: usize) -> Rig {
    let mut rig = Rig::new();
    rig.submit(&Graph::new().roots(1..=upstreams).some_of(0, 1..=upstreams, ANY_OF));
    fire(&mut rig, |rig| rig.complete(1));
    rig
}

/// Lets an engine hear of an end, and die before it does anything else.
fn fire(rig: &mut Rig, end: impl FnOnce(&mut Rig)) {
    let engine = rig.start(only(&[]));
    rig.run_for(0);
    rig.push = true;
    end(rig);
    rig.run_for(0);
    rig.kill(engine);
    rig.push = false;
    rig.trace.clear();
    rig.facts.clear();
    assert_eq!(rig.size(OWING), 1, "the group has fired");
}

/// The lines of the trace about sibling cancels.
fn sibling_lines(rig: &Rig) -> Vec<&str> {
    let about = |line: &&String| line.contains("cancel_");
    rig.trace.iter().filter(about).map(String::as_str).collect()
}

fn cancelled(rig: &Rig, disposition: Disposition) -> usize {
    let wanted = Observation::SiblingCancelled(disposition);
    rig.facts.iter().filter(|(_, fact)| *fact == wanted).count()
}

fn reconciled(rig: &Rig, action: ReconcileAction) -> usize {
    let wanted = Observation::SiblingReconciled(action);
    rig.facts.iter().filter(|(_, fact)| *fact == wanted).count()
}

/// Answers every call of `function` in the server's place.
fn answering(function: &'static [u8], answer: fn() -> Answer) -> selvedge_tests::rig::Rule {
    Box::new(move |command| (command.argv[1] == function).then(answer))
}

fn loading() -> Answer {
    Answer::NotApplied(ServerError::from_reply("LOADING come back later"))
}

#[test]
fn the_siblings_are_cancelled_and_the_note_is_drained() {
    let mut rig = owing(3);
    rig.start(only(&[DISPATCHER]));
    rig.run_for(0);
    assert_eq!(
        sibling_lines(&rig),
        [
            "engine-2 reconcile_sibling_cancel_group F0 -> no_op siblings_running",
            "engine-2 drain_sibling_cancel_group_checked F0 -> unpaid E2 E3",
            "engine-2 cancel_execution E2 -> cancelled runnable",
            "engine-2 cancel_execution E3 -> cancelled runnable",
            "engine-2 drain_sibling_cancel_group_checked F0 -> drained",
        ]
    );
    for sibling in [2, 3] {
        let record = core(&execution(sibling));
        assert_eq!(rig.field(&record, "cancellation_reason"), "sibling_quorum_satisfied");
    }
    assert_eq!((rig.state(0), rig.size(OWING)), ("waiting".into(), 0));
    let tally = rig.tally(DISPATCHER);
    assert_eq!((tally.processed, tally.errors()), (1, 0));
    assert_eq!(cancelled(&rig, Disposition::Cancelled), 2);
}

#[test]
fn an_impossible_quorum_cancels_for_its_own_reason() {
    let mut rig = Rig::new();
    let policy = GroupPolicy::Quorum { k: 3, on_satisfied: OnSatisfied::CancelRemaining };
    rig.submit(&Graph::new().roots(1..=4).some_of(0, 1..=4, policy));
    rig.fail(1);
    fire(&mut rig, |rig| {
        rig.fail(2);
        rig.tell(0, Input::PushGap);
    });
    rig.start(only(&[DISPATCHER]));
    rig.run_for(0);
    assert_eq!(rig.state(0), "skipped");
    for sibling in [3, 4] {
        let record = core(&execution(sibling));
        assert_eq!(rig.field(&record, "cancellation_reason"), "sibling_quorum_impossible");
    }
}

#[test]
fn e1_a_sibling_that_ends_at_the_same_instant_stops_nobody() {
    let mut rig = owing(4);
    let record = core(&execution(2));
    let mut once = true;
    rig.meddler = Some(Box::new(move |host, command| {
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
    rig.start(only(&[DISPATCHER]));
    rig.run_for(0);
    assert_eq!(cancelled(&rig, Disposition::Cancelled), 2, "{:#?}", rig.trace);
    assert_eq!(cancelled(&rig, Disposition::AlreadyTerminal), 1);
    assert_eq!(
        (rig.state(3), rig.state(4), rig.size(OWING)),
        ("cancelled".into(), "cancelled".into(), 0)
    );
}

#[test]
fn e1_a_sibling_that_is_gone_stops_nobody() {
    let mut rig = owing(4);
    rig.run(&format!("DEL {}", core(&execution(2))));
    rig.start(only(&[DISPATCHER]));
    rig.run_for(0);
    assert_eq!(
        (rig.state(3), rig.state(4), rig.size(OWING)),
        ("cancelled".into(), "cancelled".into(), 0)
    );
}

#[test]
fn e2_h2_siblings_beyond_any_batch_are_all_cancelled() {
    let mut rig = owing(1_030);
    rig.start(only(&[DISPATCHER, RECONCILER]));
    rig.run_for(0);
    for sibling in 2..=1_030 {
        assert_eq!(rig.state(sibling), "cancelled", "{sibling}");
    }
    assert_eq!(rig.traced(&["cancel_execution", "-> cancelled"]), 1_029);
    assert_eq!(rig.size(OWING), 0);
}

#[test]
fn e3_a_sibling_that_cannot_be_cancelled_holds_back_only_the_note() {
    let mut rig = owing(1_250);
    // More broken ones than any step asks for, at the head.
    let ids: BTreeSet<Vec<u8>> = (2..=1_120).map(|n| execution(n).into_bytes()).collect();
    rig.rule = Some(Box::new(move |command| {
        let broken = command.argv.get(24).is_some_and(|word| ids.contains(word));
        let wrong = Answer::Applied(selvedge_core::value::Value::Error("WRONGTYPE no".into()));
        (command.argv[1] == CANCEL && broken).then_some(wrong)
    }));
    rig.start(only(&[DISPATCHER]));
    rig.run_for(0);
    for sibling in 1_121..=1_250 {
        assert_eq!(rig.state(sibling), "cancelled", "{sibling}");
    }
    assert_eq!(rig.size(OWING), 1, "the note stays");
    rig.run_for(30_000);
    let tally = rig.tally(DISPATCHER);
    assert!(tally.skipped > 10 && tally.failed < 12, "it is left alone: {tally:?}");
    rig.rule = None;
    rig.run_for(15_000);
    assert_eq!((rig.state(2), rig.size(OWING)), ("cancelled".into(), 0));
}

#[test]
fn e5_h3_more_groups_than_a_batch_are_all_served_in_one_scan() {
    let mut rig = owing(2);
    for n in 0..120 {
        rig.run(&format!("SADD {OWING} garbage-{n}"));
        let stale = format!("{}|{}", flow(1), execution(5_000 + n));
        rig.run(&format!("SADD {OWING} {stale}"));
    }
    let shouted = format!("{}|{}", flow(1).to_string().to_uppercase(), execution(6_000));
    rig.run(&format!("SADD {OWING} {shouted}"));
    rig.run(&format!("SADD {OWING} {}|{{fp:7}}:00000000-0000-4000-8000-000000000001", flow(1)));
    rig.start(only(&[DISPATCHER]));
    rig.run_for(0);
    assert_eq!((rig.state(2), rig.size(OWING)), ("cancelled".into(), 0));
    let entry = format!("{OWING} garbage-7");
    let reason = rig.field("ff:aside:{fp:0}", &entry);
    assert_eq!(reason, "not a flow and a downstream execution", "kept for the operator");
    assert_ne!(rig.field("ff:aside:{fp:0}", &format!("{OWING} {shouted}")), "");
}

#[test]
fn e6_another_tenants_siblings_are_left_alone() {
    let mut rig = owing(3);
    let filter = Filter { namespace: Some("other".into()), instance_tag: None };
    rig.start(EngineConfig { filter, ..only(&[DISPATCHER, RECONCILER]) });
    rig.run_for(30_000);
    assert_eq!(rig.traced(&["cancel_execution"]), 0);
    assert_eq!((rig.state(2), rig.size(OWING)), ("waiting".into(), 1));
}

#[test]
fn a_call_that_was_not_or_perhaps_applied_is_repeated() {
    for function in [CANCEL, DRAIN] {
        for answer in [loading as fn() -> Answer, silence] {
            let mut rig = owing(3);
            rig.rule = Some(answering(function, answer));
            rig.start(only(&[DISPATCHER]));
            rig.run_for(0);
            assert_eq!((rig.state(2), rig.size(OWING)), ("waiting".into(), 1));
            let tally = rig.tally(DISPATCHER);
            assert_eq!((tally.deferred, tally.errors()), (1, 1));
            rig.rule = None;
            rig.run_for(3_000);
            assert_eq!((rig.state(2), rig.size(OWING)), ("cancelled".into(), 0));
            assert_eq!(rig.traced(&["cancel_execution", "-> cancelled"]), 2);
        }
    }
}

#[test]
fn a_reply_that_is_lost_makes_nobody_cancel_twice() {
    for function in [CANCEL, DRAIN] {
        let mut rig = owing(4);
        let mut losses = 3;
        rig.reply_lost = Some(Box::new(move |command| {
            let lost = command.argv[1] == function && losses > 0;
            losses -= usize::from(lost);
            lost
        }));
        rig.start(only(&[DISPATCHER, RECONCILER]));
        rig.run_for(15_000);
        assert_eq!(rig.traced(&["cancel_execution", "-> cancelled"]), 3, "{:#?}", rig.trace);
        assert_eq!(rig.traced(&["cancel_execution"]), 3);
        assert_eq!(rig.size(OWING), 0);
    }
}

#[test]
fn two_engines_at_once_cancel_every_sibling_once() {
    let mut rig = owing(40);
    rig.start(only(&[DISPATCHER, RECONCILER]));
    rig.start(only(&[DISPATCHER, RECONCILER]));
    rig.run_for(15_000);
    for sibling in 2..=40 {
        let line = format!("cancel_execution E{sibling} -> cancelled");
        assert_eq!(rig.traced(&[&line]), 1, "{sibling}");
    }
    assert_eq!(rig.traced(&["-> drained"]) + rig.traced(&["-> completed_drain"]), 1);
    assert_eq!(rig.size(OWING), 0);
}

#[test]
fn a_replayed_child_needs_its_upstreams_again() {
    let mut rig = Rig::new();
    let policy = GroupPolicy::Quorum { k: 2, on_satisfied: OnSatisfied::CancelRemaining };
    rig.submit(&Graph::new().roots(1..=3).some_of(0, 1..=3, policy));
    rig.fail(1);
    fire(&mut rig, |rig| {
        rig.fail(2);
        rig.tell(0, Input::PushGap);
    });
    rig.replay(0);
    rig.start(only(&[DISPATCHER, RECONCILER]));
    rig.run_for(15_000);
    assert_eq!(rig.traced(&["cancel_execution"]), 0, "{:#?}", rig.trace);
    assert_eq!((rig.state(3), rig.size(OWING)), ("waiting".into(), 0));
}

#[test]
fn h1_the_reconciler_finishes_what_is_paid_and_leaves_what_is_not() {
    let mut rig = owing(3);
    rig.rule = Some(answering(DRAIN, loading));
    rig.start(only(&[RECONCILER]));
    rig.run_for(12_000);
    assert_eq!((rig.state(2), rig.size(OWING)), ("waiting".into(), 1), "siblings still run");
    assert!(reconciled(&rig, ReconcileAction::NoOp) >= 2);
    for sibling in [2, 3] {
        rig.run(&format!("HSET {} lifecycle_phase terminal", core(&execution(sibling))));
    }
    rig.run_for(12_000);
    assert_eq!(rig.size(OWING), 0);
    assert_eq!(rig.field(&group_key(0), "cancel_siblings_pending_flag"), "");
    assert_eq!(reconciled(&rig, ReconcileAction::CompletedDrain), 1);
    assert_eq!(rig.traced(&["cancel_execution"]), 0);
    assert_eq!(rig.tally(RECONCILER).processed, 1);
}

#[test]
fn the_reconciler_removes_notes_without_a_debt_and_poison() {
    let mut rig = owing(3);
    rig.run(&format!("HDEL {} cancel_siblings_pending_flag", group_key(0)));
    rig.run(&format!("SADD {OWING} {}|{}", flow(1), execution(9)));
    rig.run(&format!("SADD {OWING} garbage"));
    rig.rule = Some(answering(DRAIN, loading));
    rig.start(only(&[RECONCILER]));
    rig.run_for(0);
    assert_eq!(rig.size(OWING), 0);
    assert_eq!(reconciled(&rig, ReconcileAction::SremmedStale), 2);
    assert_eq!(rig.tally(RECONCILER).processed, 2);
    assert_eq!(rig.state(2), "waiting", "nobody was cancelled without a debt");
}

#[test]
fn the_reconciler_defers_what_is_not_answered_and_backs_off_what_fails() {
    let wrong =
        || Answer::Applied(selvedge_core::value::Value::Error("WRONGTYPE of that kind".into()));
    for (answer, fails) in [(loading as fn() -> Answer, false), (silence, false), (wrong, true)] {
        let mut rig = owing(3);
        rig.rule = Some(Box::new(move |command| {
            let ours = [DRAIN, b"ff_reconcile_sibling_cancel_group"];
            ours.contains(&command.argv[1].as_slice()).then(answer)
        }));
        rig.start(only(&[RECONCILER]));
        rig.run_for(95_000);
        let tally = rig.tally(RECONCILER);
        assert_eq!((tally.failed, tally.skipped > 3), if fails { (3, true) } else { (0, false) });
        assert_eq!(rig.size(OWING), 1);
    }
}
