//! The dependency reconciler: children whose upstream ended without being dispatched.

use selvedge_core::call::flow::{Application, GroupPolicy, OnSatisfied};
use selvedge_core::command::Answer;
use selvedge_core::engine::{Filter, Input, Observation, ScannerName};
use selvedge_core::error::ServerError;
use selvedge_core::value::Value;
use selvedge_tests::harness::{Harness, silence};

use crate::fixtures::{ClientCalls, core, execution, lane, only};
use crate::flow_builder::{Flows, Graph, edge, stage};

const NAME: ScannerName = ScannerName::DependencyReconciler;
const LET_RUN: GroupPolicy = GroupPolicy::AnyOf(OnSatisfied::LetRun);

/// The set of a child's open edges.
fn unresolved(child: usize) -> String {
    format!("ff:exec:{{fp:0}}:{}:deps:unresolved", execution(child))
}

/// Child 2 waits for member 1, which has ended and was not dispatched.
pub(crate) fn unheard() -> Harness {
    let mut harness = Harness::new();
    harness.submit(&Graph::new().roots([1]).all_of(2, [1]));
    harness.complete(1);
    quiet(&mut harness);
    harness
}

/// Removes what other scanners would find, so that the trace is about this one.
pub(crate) fn quiet(harness: &mut Harness) {
    for index in ["all_executions", "flow_index", "lane:default:terminal"] {
        harness.run(&format!("DEL ff:idx:{{fp:0}}:{index}"));
    }
}

#[test]
fn an_unheard_end_is_heard() {
    let mut harness = unheard();
    harness.start(only(&[NAME]));
    harness.run_for(0);
    assert_eq!(harness.trace, ["engine-1 resolve_outgoing E1 -> done 0 1 0 0 1 E2"]);
    assert_eq!(harness.state(2), "waiting");
    assert_eq!(harness.counts(NAME).processed, 1);
}

/// An edge may be applied to a child that is suspended by then. It is not in the index of blocked
/// executions, so the index reconciler has to find it.
#[test]
fn an_unheard_end_is_heard_by_a_suspended_child() {
    let mut harness = unheard();
    harness.run(&format!(
        "HSET {} lifecycle_phase suspended eligibility_state not_applicable public_state suspended",
        core(&execution(2))
    ));
    harness.run(&format!("DEL {}", lane("blocked:dependencies")));
    harness.run(&format!("ZADD {} 9999999999999 {}", lane("suspended"), execution(2)));
    harness.run(&format!("SADD ff:idx:{{fp:0}}:all_executions {}", execution(2)));
    harness.start(only(&[NAME, ScannerName::IndexReconciler]));
    harness.run_for(0);
    assert_eq!(harness.state(2), "suspended", "it goes on waiting for its signal");
    assert_eq!(harness.call(&["EXISTS", &unresolved(2)]), Value::Int(0), "{:?}", harness.trace);
    assert_eq!(harness.counts(ScannerName::IndexReconciler).processed, 1);
}

#[test]
fn n1_children_that_wait_never_hide_the_one_that_need_not() {
    // More than a page, and more than all pages of one scan.
    for waiting in [60, 2_100] {
        let mut harness = Harness::new();
        let graph = Graph::new().roots([1]);
        let graph = (100..100 + waiting).fold(graph, |graph, n| graph.all_of(n, [1]));
        harness.submit(&graph);
        harness.run_for(1_000);
        harness.submit(&Graph::new().numbered(1).roots([10]).all_of(11, [10]));
        harness.complete(10);
        harness.start(only(&[NAME]));
        harness.run_for(17_000);
        assert_eq!(harness.state(11), "waiting", "behind {waiting}");
        assert_eq!(harness.counts(NAME).processed, 1);
    }
}

#[test]
fn more_children_than_one_go_releases_do_not_wait_for_the_next_interval() {
    let mut harness = Harness::new();
    let graph = Graph::new().nameless().roots([1]);
    harness.submit(&(10_000..14_500).fold(graph, |graph, n| graph.all_of(n, [1])));
    harness.complete(1);
    quiet(&mut harness);
    harness.start(only(&[NAME]));
    harness.run_for(400);
    assert_eq!(harness.counts(NAME).processed, 4_500);
}

#[test]
fn a_gap_is_caught_up_with_behind_more_children_than_one_go_looks_at() {
    let mut harness = Harness::new();
    // They have to wait, and a scan that ran out of pages stopped among them.
    let graph = Graph::new().nameless().roots([1]);
    harness.submit(&(10_000..14_100).fold(graph, |graph, n| graph.all_of(n, [1])));
    harness.run_for(1);
    harness.submit(&Graph::new().numbered(1).roots([2]).all_of(3, [2]));
    let engine = harness.start(only(&[]));
    harness.run_for(0);
    harness.complete(2);
    for _ in 0..2 {
        harness.run_for(1_000);
        assert_eq!(harness.state(3), "waiting_children", "the push was lost");
    }
    harness.tell(engine, Input::PushGap);
    harness.run_for(500);
    assert_eq!(harness.state(3), "waiting");
    let before = harness.commands;
    harness.run_for(2_000);
    assert!(harness.commands - before < 100, "once through, and then it rests");
}

#[test]
fn a_gap_that_ends_while_the_server_still_loads_is_caught_up_with() {
    let mut harness = Harness::new();
    harness.submit(&Graph::new().roots([1]).all_of(2, [1]));
    let engine = harness.start(only(&[]));
    harness.run_for(0);
    harness.complete(1);
    let loading = || Answer::NotApplied(ServerError::from_reply("LOADING come back later"));
    harness.rule = Some(Box::new(move |_| Some(loading())));
    harness.tell(engine, Input::PushGap);
    harness.run_for(100);
    harness.rule = None;
    harness.run_for(1_000);
    assert_eq!(harness.state(2), "waiting");
}

#[test]
fn n2_an_edge_behind_many_others_is_seen() {
    let mut harness = Harness::new();
    harness.submit(&Graph::new().roots(1..=250).some_of(0, 1..=250, LET_RUN));
    harness.complete(250);
    harness.start(only(&[NAME]));
    harness.run_for(0);
    assert_eq!(harness.state(0), "waiting");
}

#[test]
fn n2_an_empty_page_is_not_the_end_of_a_set() {
    let mut harness = unheard();
    let key = unresolved(2);
    harness.rule = Some(Box::new(move |command| {
        let word = |at: usize| command.argv.get(at).map(Vec::as_slice).unwrap_or_default();
        if word(0) != b"SSCAN" || word(1) != key.as_bytes() {
            return None;
        }
        let text = |text: &str| Value::Bulk(text.into());
        let (cursor, page) = match word(2) {
            b"0" => ("7", Vec::new()),
            _ => ("0", vec![text(&edge(1, 2).to_string())]),
        };
        Some(Answer::Applied(Value::Array(vec![text(cursor), Value::Array(page)])))
    }));
    harness.start(only(&[NAME]));
    harness.run_for(0);
    assert_eq!(harness.trace, ["engine-1 resolve_outgoing E1 -> done 0 1 0 0 1 E2"]);
}

#[test]
fn n3_a_child_that_waits_for_nothing_is_released() {
    let mut harness = Harness::new();
    harness.create(&execution(1), "{}");
    harness.name(execution(1), "E1");
    let record = core(&execution(1));
    harness.run(&format!(
        "HSET {record} eligibility_state blocked_by_dependencies blocking_reason \
         waiting_for_children public_state waiting_children"
    ));
    harness.run(&format!("ZREM {} {}", lane("eligible"), execution(1)));
    harness.run(&format!("ZADD {} 1 {}", lane("blocked:dependencies"), execution(1)));
    harness.start(only(&[NAME]));
    harness.run_for(0);
    assert_eq!(harness.traced(&["promote_blocked_to_eligible E1 -> "]), 1, "{:#?}", harness.trace);
    assert_eq!(harness.state(1), "waiting");
}

#[test]
fn n4_a_replayed_child_is_not_skipped_again_by_the_old_end_of_its_upstream() {
    let mut harness = Harness::new();
    harness.submit(&Graph::new().roots([1]).all_of(2, [1]));
    harness.fail(1);
    harness.start(only(&[NAME]));
    harness.run_for(0);
    assert_eq!(harness.state(2), "skipped");
    harness.replay(2);
    harness.run_for(60_000);
    assert_eq!(harness.state(2), "waiting_children");
    harness.replay(1);
    harness.complete(1);
    harness.run_for(20_000);
    assert_eq!(harness.state(2), "waiting");
}

#[test]
fn n5_what_cannot_be_read_is_not_nothing() {
    let loading = || Answer::NotApplied(ServerError::from_reply("LOADING come back later"));
    for answer in [loading as fn() -> Answer, silence] {
        let mut harness = unheard();
        let mut once = true;
        harness.rule = Some(Box::new(move |command| {
            (command.argv[0] == b"SSCAN" && std::mem::take(&mut once)).then(answer)
        }));
        harness.start(only(&[NAME]));
        harness.run_for(0);
        assert_eq!(harness.trace, [""; 0], "neither released nor resolved");
        let counts = harness.counts(NAME);
        assert_eq!((counts.deferred, counts.errors()), (1, 1));
        harness.run_for(17_000);
        assert_eq!(harness.state(2), "waiting");
    }
}

#[test]
fn n6_an_edge_that_decides_nothing_is_counted_all_the_same() {
    let mut harness = Harness::new();
    let policy = GroupPolicy::Quorum { k: 2, on_satisfied: OnSatisfied::LetRun };
    harness.submit(&Graph::new().roots(1..=4).some_of(0, 1..=4, policy));
    harness.complete(1);
    harness.start(only(&[NAME]));
    harness.run_for(0);
    assert_eq!(harness.counts(NAME).processed, 1);
    assert_eq!(harness.state(0), "waiting_children");
    harness.complete(2);
    harness.complete(3);
    harness.run_for(17_000);
    let counts = harness.counts(NAME);
    assert_eq!((counts.processed, counts.errors()), (3, 0));
    assert_eq!(harness.state(0), "waiting");
}

#[test]
fn n7_a_whole_chain_is_skipped_in_one_scan() {
    let mut harness = Harness::new();
    let graph = Graph::new().roots([0]);
    harness.submit(&(1..20).fold(graph, |graph, n| graph.all_of(n, [n - 1])));
    harness.fail(0);
    harness.start(only(&[NAME]));
    harness.run_for(0);
    assert_eq!(harness.state(19), "skipped");
    assert_eq!(harness.traced(&["resolve_outgoing"]), 20, "{:#?}", harness.trace);
}

#[test]
fn one_broken_edge_does_not_hide_the_others() {
    let mut harness = Harness::new();
    harness.submit(&Graph::new().roots(1..=3).some_of(0, 1..=3, LET_RUN));
    harness.complete(3);
    for broken in [1, 2] {
        let key = format!("ff:exec:{{fp:0}}:{}:dep:{}", execution(0), edge(broken, 0));
        harness.run(&format!("DEL {key}"));
        harness.run(&format!("SET {key} text"));
    }
    harness.start(only(&[NAME]));
    harness.run_for(0);
    assert_eq!(harness.state(0), "waiting");
}

#[test]
fn a_child_that_fails_repeatedly_is_backed_off() {
    let mut harness = unheard();
    harness.submit(&Graph::new().numbered(1).roots([11]).all_of(12, [11]));
    harness.run(&format!("DEL {}", unresolved(12)));
    harness.run(&format!("SET {} text", unresolved(12)));
    harness.start(only(&[NAME]));
    harness.run_for(120_000);
    assert_eq!(harness.state(2), "waiting", "the other is not held back");
    let backed_off = |fact: &Observation| matches!(fact, Observation::ItemBackedOff { .. });
    assert_eq!(harness.facts.iter().filter(|(_, fact)| backed_off(fact)).count(), 1);
    let counts = harness.counts(NAME);
    assert_eq!(counts.failed, 3);
    assert!(counts.skipped >= 4, "{counts:?}");
}

#[test]
fn unreadable_entries_are_set_aside() {
    let mut harness = unheard();
    harness.run(&format!("ZADD {} 1 garbage", lane("blocked:dependencies")));
    harness.start(only(&[NAME]));
    harness.run_for(0);
    assert_eq!(harness.state(2), "waiting");
    assert_eq!(harness.counts(NAME).set_aside, 1);
    let entry = format!("{} garbage", lane("blocked:dependencies"));
    assert_eq!(harness.field("ff:aside:{fp:0}", &entry), "not an execution id");
}

#[test]
fn another_tenants_child_is_left_alone() {
    let mut harness = unheard();
    let filter = Filter::by_namespace("other");
    harness.start(only(&[NAME]).with_filter(filter));
    harness.run_for(20_000);
    assert_eq!(harness.trace, [""; 0]);
    assert_eq!(harness.state(2), "waiting_children");
}

#[test]
fn an_upstream_that_is_replayed_between_read_and_call_keeps_its_child_waiting() {
    let mut harness = Harness::new();
    harness.submit(&Graph::new().roots([1]).all_of(2, [1]));
    harness.fail(1);
    quiet(&mut harness);
    let record = core(&execution(1));
    harness.before_command = Some(Box::new(move |host, command| {
        if command.argv[1] == b"ff_resolve_outgoing" {
            host.call(&[
                "HSET",
                &record,
                "lifecycle_phase",
                "runnable",
                "terminal_outcome",
                "none",
            ]);
        }
    }));
    harness.start(only(&[NAME]));
    harness.run_for(0);
    assert_eq!(harness.trace, ["engine-1 resolve_outgoing E1 -> 0 execution_not_terminal"]);
    assert_eq!(harness.state(2), "waiting_children");
    let counts = harness.counts(NAME);
    assert_eq!((counts.nothing, counts.errors()), (1, 0));
}

#[test]
fn a_reply_that_is_lost_changes_nothing() {
    let mut harness = unheard();
    let mut once = true;
    harness.reply_lost = Some(Box::new(move |command| {
        command.argv[1] == b"ff_resolve_outgoing" && std::mem::take(&mut once)
    }));
    harness.start(only(&[NAME]));
    harness.run_for(20_000);
    assert_eq!(harness.trace, ["engine-1 resolve_outgoing E1 -> done 0 1 0 0 1 E2"]);
    assert_eq!(harness.state(2), "waiting");
    assert_eq!(harness.counts(NAME).deferred, 1);
}

#[test]
fn two_engines_at_once_release_a_child_once() {
    let mut harness = unheard();
    harness.start(only(&[NAME]));
    harness.start(only(&[NAME]));
    harness.run_for(0);
    assert_eq!(
        harness.trace,
        [
            "engine-1 resolve_outgoing E1 -> done 0 1 0 0 1 E2",
            "engine-2 resolve_outgoing E1 -> done 0 0 0 0 0",
        ]
    );
    assert_eq!(harness.state(2), "waiting");
}

#[test]
fn an_edge_whose_builder_died_before_it_was_applied_is_applied_in_its_place() {
    let mut harness = Harness::new();
    harness.submit(&Graph::new().roots([1, 2]).some_of(3, [1], LET_RUN));
    let apply = stage(&mut harness, 2, 3);
    harness.fail(1);
    harness.complete(2);
    quiet(&mut harness);
    harness.start(only(&[NAME]));
    harness.run_for(50_000);
    assert_eq!(harness.state(3), "waiting_children", "the builder may still be at it");
    harness.trace.clear();
    harness.run_for(40_000);
    harness.trace.retain(|line| !line.contains("promote_blocked"));
    assert_eq!(
        harness.trace,
        [
            "engine-1 apply_dependency_to_child F0 -> 2",
            "engine-1 resolve_outgoing E2 -> done 0 1 0 0 1 E3",
        ]
    );
    assert_eq!(harness.state(3), "waiting");
    assert_eq!(harness.fcall(&apply), Application::AlreadyApplied, "the builder was only late");
}
