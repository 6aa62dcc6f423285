//! The net under dispatch: children whose upstream ended while nobody heard.

use selvedge_core::call::flow::{Application, GroupPolicy, OnSatisfied};
use selvedge_core::engine::{Answer, EngineConfig, Filter, Input, Observation, ScannerName};
use selvedge_core::error::ServerError;
use selvedge_core::value::Value;
use selvedge_tests::rig::{Rig, silence};

use crate::flows::{Flows, Graph, edge, stage};
use crate::kit::{World, core, execution, lane, only};

const NAME: ScannerName = ScannerName::DependencyReconciler;
const LET_RUN: GroupPolicy = GroupPolicy::AnyOf(OnSatisfied::LetRun);

/// The set of a child's open edges.
fn unresolved(child: usize) -> String {
    format!("ff:exec:{{fp:0}}:{}:deps:unresolved", execution(child))
}

/// Child 2 waits for member 1, which has ended unheard.
fn unheard() -> Rig {
    let mut rig = Rig::new();
    rig.submit(&Graph::new().roots([1]).all_of(2, [1]));
    rig.complete(1);
    quiet(&mut rig);
    rig
}

/// Takes away what other scanners would look at, so that the trace is about this one.
fn quiet(rig: &mut Rig) {
    for index in ["all_executions", "flow_index", "lane:default:terminal"] {
        rig.run(&format!("DEL ff:idx:{{fp:0}}:{index}"));
    }
}

#[test]
fn an_unheard_end_is_heard() {
    let mut rig = unheard();
    rig.start(only(&[NAME]));
    rig.run_for(0);
    assert_eq!(rig.trace, ["engine-1 resolve_outgoing E1 -> done 0 1 0 0 1 E2"]);
    assert_eq!(rig.state(2), "waiting");
    assert_eq!(rig.tally(NAME).processed, 1);
}

/// An edge may be applied to a child that is suspended by then. It does not stand among the blocked,
/// and who looks at everybody finds it.
#[test]
fn an_unheard_end_is_heard_by_a_suspended_child() {
    let mut rig = unheard();
    rig.run(&format!(
        "HSET {} lifecycle_phase suspended eligibility_state not_applicable public_state suspended",
        core(&execution(2))
    ));
    rig.run(&format!("DEL {}", lane("blocked:dependencies")));
    rig.run(&format!("ZADD {} 9999999999999 {}", lane("suspended"), execution(2)));
    rig.run(&format!("SADD ff:idx:{{fp:0}}:all_executions {}", execution(2)));
    rig.start(only(&[NAME, ScannerName::IndexReconciler]));
    rig.run_for(0);
    assert_eq!(rig.state(2), "suspended", "it goes on waiting for its signal");
    assert_eq!(rig.call(&["EXISTS", &unresolved(2)]), Value::Int(0), "{:?}", rig.trace);
    assert_eq!(rig.tally(ScannerName::IndexReconciler).processed, 1);
}

#[test]
fn n1_children_that_wait_never_hide_the_one_that_need_not() {
    // More than a page, and more than all pages of one go.
    for waiting in [60, 2_100] {
        let mut rig = Rig::new();
        let graph = Graph::new().roots([1]);
        let graph = (100..100 + waiting).fold(graph, |graph, n| graph.all_of(n, [1]));
        rig.submit(&graph);
        rig.run_for(1_000);
        rig.submit(&Graph::new().numbered(1).roots([10]).all_of(11, [10]));
        rig.complete(10);
        rig.start(only(&[NAME]));
        rig.run_for(17_000);
        assert_eq!(rig.state(11), "waiting", "behind {waiting}");
        assert_eq!(rig.tally(NAME).processed, 1);
    }
}

#[test]
fn more_children_than_one_go_releases_do_not_wait_for_the_next_interval() {
    let mut rig = Rig::new();
    let graph = Graph::new().nameless().roots([1]);
    rig.submit(&(10_000..14_500).fold(graph, |graph, n| graph.all_of(n, [1])));
    rig.complete(1);
    quiet(&mut rig);
    rig.start(only(&[NAME]));
    rig.run_for(400);
    assert_eq!(rig.tally(NAME).processed, 4_500);
}

#[test]
fn a_gap_is_caught_up_with_behind_more_children_than_one_go_looks_at() {
    let mut rig = Rig::new();
    // They wait rightly, and a scan that had its share stands in the midst of them.
    let graph = Graph::new().nameless().roots([1]);
    rig.submit(&(10_000..14_100).fold(graph, |graph, n| graph.all_of(n, [1])));
    rig.run_for(1);
    rig.submit(&Graph::new().numbered(1).roots([2]).all_of(3, [2]));
    let engine = rig.start(only(&[]));
    rig.run_for(0);
    rig.complete(2);
    for _ in 0..2 {
        rig.run_for(1_000);
        assert_eq!(rig.state(3), "waiting_children", "the push was lost");
    }
    rig.tell(engine, Input::PushGap);
    rig.run_for(500);
    assert_eq!(rig.state(3), "waiting");
    let before = rig.commands;
    rig.run_for(2_000);
    assert!(rig.commands - before < 100, "once through, and then it rests");
}

#[test]
fn a_gap_that_ends_while_the_server_still_loads_is_caught_up_with() {
    let mut rig = Rig::new();
    rig.submit(&Graph::new().roots([1]).all_of(2, [1]));
    let engine = rig.start(only(&[]));
    rig.run_for(0);
    rig.complete(1);
    let loading = || Answer::NotApplied(ServerError::from_reply("LOADING come back later"));
    rig.rule = Some(Box::new(move |_| Some(loading())));
    rig.tell(engine, Input::PushGap);
    rig.run_for(100);
    rig.rule = None;
    rig.run_for(1_000);
    assert_eq!(rig.state(2), "waiting");
}

#[test]
fn n2_an_edge_behind_many_others_is_seen() {
    let mut rig = Rig::new();
    rig.submit(&Graph::new().roots(1..=250).some_of(0, 1..=250, LET_RUN));
    rig.complete(250);
    rig.start(only(&[NAME]));
    rig.run_for(0);
    assert_eq!(rig.state(0), "waiting");
}

#[test]
fn n2_an_empty_page_is_not_the_end_of_a_set() {
    let mut rig = unheard();
    let key = unresolved(2);
    rig.rule = Some(Box::new(move |command| {
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
    rig.start(only(&[NAME]));
    rig.run_for(0);
    assert_eq!(rig.trace, ["engine-1 resolve_outgoing E1 -> done 0 1 0 0 1 E2"]);
}

#[test]
fn n3_a_child_that_waits_for_nothing_is_released() {
    let mut rig = Rig::new();
    rig.create(&execution(1), "{}");
    rig.name(execution(1), "E1");
    let record = core(&execution(1));
    rig.run(&format!(
        "HSET {record} eligibility_state blocked_by_dependencies blocking_reason \
         waiting_for_children public_state waiting_children"
    ));
    rig.run(&format!("ZREM {} {}", lane("eligible"), execution(1)));
    rig.run(&format!("ZADD {} 1 {}", lane("blocked:dependencies"), execution(1)));
    rig.start(only(&[NAME]));
    rig.run_for(0);
    assert_eq!(rig.traced(&["promote_blocked_to_eligible E1 -> "]), 1, "{:#?}", rig.trace);
    assert_eq!(rig.state(1), "waiting");
}

#[test]
fn n4_a_replayed_child_is_not_skipped_again_by_the_old_end_of_its_upstream() {
    let mut rig = Rig::new();
    rig.submit(&Graph::new().roots([1]).all_of(2, [1]));
    rig.fail(1);
    rig.start(only(&[NAME]));
    rig.run_for(0);
    assert_eq!(rig.state(2), "skipped");
    rig.replay(2);
    rig.run_for(60_000);
    assert_eq!(rig.state(2), "waiting_children");
    rig.replay(1);
    rig.complete(1);
    rig.run_for(20_000);
    assert_eq!(rig.state(2), "waiting");
}

#[test]
fn n5_what_cannot_be_read_is_not_nothing() {
    let loading = || Answer::NotApplied(ServerError::from_reply("LOADING come back later"));
    for answer in [loading as fn() -> Answer, silence] {
        let mut rig = unheard();
        let mut once = true;
        rig.rule = Some(Box::new(move |command| {
            (command.argv[0] == b"SSCAN" && std::mem::take(&mut once)).then(answer)
        }));
        rig.start(only(&[NAME]));
        rig.run_for(0);
        assert_eq!(rig.trace, [""; 0], "neither released nor resolved");
        let tally = rig.tally(NAME);
        assert_eq!((tally.deferred, tally.errors()), (1, 1));
        rig.run_for(17_000);
        assert_eq!(rig.state(2), "waiting");
    }
}

#[test]
fn n6_an_edge_that_decides_nothing_is_counted_all_the_same() {
    let mut rig = Rig::new();
    let policy = GroupPolicy::Quorum { k: 2, on_satisfied: OnSatisfied::LetRun };
    rig.submit(&Graph::new().roots(1..=4).some_of(0, 1..=4, policy));
    rig.complete(1);
    rig.start(only(&[NAME]));
    rig.run_for(0);
    assert_eq!(rig.tally(NAME).processed, 1);
    assert_eq!(rig.state(0), "waiting_children");
    rig.complete(2);
    rig.complete(3);
    rig.run_for(17_000);
    let tally = rig.tally(NAME);
    assert_eq!((tally.processed, tally.errors()), (3, 0));
    assert_eq!(rig.state(0), "waiting");
}

#[test]
fn n7_a_whole_chain_is_skipped_in_one_scan() {
    let mut rig = Rig::new();
    let graph = Graph::new().roots([0]);
    rig.submit(&(1..20).fold(graph, |graph, n| graph.all_of(n, [n - 1])));
    rig.fail(0);
    rig.start(only(&[NAME]));
    rig.run_for(0);
    assert_eq!(rig.state(19), "skipped");
    assert_eq!(rig.traced(&["resolve_outgoing"]), 20, "{:#?}", rig.trace);
}

#[test]
fn one_broken_edge_does_not_hide_the_others() {
    let mut rig = Rig::new();
    rig.submit(&Graph::new().roots(1..=3).some_of(0, 1..=3, LET_RUN));
    rig.complete(3);
    for broken in [1, 2] {
        let key = format!("ff:exec:{{fp:0}}:{}:dep:{}", execution(0), edge(broken, 0));
        rig.run(&format!("DEL {key}"));
        rig.run(&format!("SET {key} text"));
    }
    rig.start(only(&[NAME]));
    rig.run_for(0);
    assert_eq!(rig.state(0), "waiting");
}

#[test]
fn a_child_that_fails_again_and_again_is_left_alone_for_a_while() {
    let mut rig = unheard();
    rig.submit(&Graph::new().numbered(1).roots([11]).all_of(12, [11]));
    rig.run(&format!("DEL {}", unresolved(12)));
    rig.run(&format!("SET {} text", unresolved(12)));
    rig.start(only(&[NAME]));
    rig.run_for(120_000);
    assert_eq!(rig.state(2), "waiting", "the other is not held back");
    let backed_off = |fact: &Observation| matches!(fact, Observation::ItemBackedOff { .. });
    assert_eq!(rig.facts.iter().filter(|(_, fact)| backed_off(fact)).count(), 1);
    let tally = rig.tally(NAME);
    assert_eq!(tally.failed, 3);
    assert!(tally.skipped >= 4, "{tally:?}");
}

#[test]
fn poison_is_set_aside() {
    let mut rig = unheard();
    rig.run(&format!("ZADD {} 1 garbage", lane("blocked:dependencies")));
    rig.start(only(&[NAME]));
    rig.run_for(0);
    assert_eq!(rig.state(2), "waiting");
    assert_eq!(rig.tally(NAME).poisoned, 1);
    let entry = format!("{} garbage", lane("blocked:dependencies"));
    assert_eq!(rig.field("ff:aside:{fp:0}", &entry), "not an execution id");
}

#[test]
fn another_tenants_child_is_left_alone() {
    let mut rig = unheard();
    let filter = Filter { namespace: Some("other".into()), instance_tag: None };
    rig.start(EngineConfig { filter, ..only(&[NAME]) });
    rig.run_for(20_000);
    assert_eq!(rig.trace, [""; 0]);
    assert_eq!(rig.state(2), "waiting_children");
}

#[test]
fn an_upstream_that_is_replayed_between_read_and_call_keeps_its_child_waiting() {
    let mut rig = Rig::new();
    rig.submit(&Graph::new().roots([1]).all_of(2, [1]));
    rig.fail(1);
    quiet(&mut rig);
    let record = core(&execution(1));
    rig.meddler = Some(Box::new(move |host, command| {
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
    rig.start(only(&[NAME]));
    rig.run_for(0);
    assert_eq!(rig.trace, ["engine-1 resolve_outgoing E1 -> 0 execution_not_terminal"]);
    assert_eq!(rig.state(2), "waiting_children");
    let tally = rig.tally(NAME);
    assert_eq!((tally.nothing, tally.errors()), (1, 0));
}

#[test]
fn a_reply_that_is_lost_changes_nothing() {
    let mut rig = unheard();
    let mut once = true;
    rig.reply_lost = Some(Box::new(move |command| {
        command.argv[1] == b"ff_resolve_outgoing" && std::mem::take(&mut once)
    }));
    rig.start(only(&[NAME]));
    rig.run_for(20_000);
    assert_eq!(rig.trace, ["engine-1 resolve_outgoing E1 -> done 0 1 0 0 1 E2"]);
    assert_eq!(rig.state(2), "waiting");
    assert_eq!(rig.tally(NAME).deferred, 1);
}

#[test]
fn two_engines_at_once_release_a_child_once() {
    let mut rig = unheard();
    rig.start(only(&[NAME]));
    rig.start(only(&[NAME]));
    rig.run_for(0);
    assert_eq!(
        rig.trace,
        [
            "engine-1 resolve_outgoing E1 -> done 0 1 0 0 1 E2",
            "engine-2 resolve_outgoing E1 -> done 0 0 0 0 0",
        ]
    );
    assert_eq!(rig.state(2), "waiting");
}

#[test]
fn an_edge_whose_builder_died_before_it_was_applied_is_applied_in_its_place() {
    let mut rig = Rig::new();
    rig.submit(&Graph::new().roots([1, 2]).some_of(3, [1], LET_RUN));
    let apply = stage(&mut rig, 2, 3);
    rig.fail(1);
    rig.complete(2);
    quiet(&mut rig);
    rig.start(only(&[NAME]));
    rig.run_for(50_000);
    assert_eq!(rig.state(3), "waiting_children", "the builder may still be at it");
    rig.trace.clear();
    rig.run_for(40_000);
    rig.trace.retain(|line| !line.contains("promote_blocked"));
    assert_eq!(
        rig.trace,
        [
            "engine-1 apply_dependency_to_child F0 -> 2",
            "engine-1 resolve_outgoing E2 -> done 0 1 0 0 1 E3",
        ]
    );
    assert_eq!(rig.state(3), "waiting");
    assert_eq!(rig.fcall(&apply), Application::AlreadyApplied, "the builder was only late");
}
