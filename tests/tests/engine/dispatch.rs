//! Dispatch: a completion resolves the edges of its execution, and those of every child it skips.

use selvedge_core::call::flow::{GroupPolicy, OnSatisfied};
use selvedge_core::completion::Completion;
use selvedge_core::engine::{Answer, EngineConfig, Filter, Input, Observation, ScannerName};
use selvedge_core::error::ServerError;
use selvedge_core::state::TerminalOutcome;
use selvedge_core::value::Value;
use selvedge_tests::rig::{EPOCH_MS, Rig, silence};

use crate::flows::{Flows, Graph, edge, flow, member, of_flow, stage};
use crate::kit::{World, core, execution, lane, only};

/// An engine that only dispatches: every scanner has had its first run.
fn dispatcher(rig: &mut Rig) -> usize {
    dispatcher_with(rig, only(&[]))
}

fn dispatcher_with(rig: &mut Rig, config: EngineConfig) -> usize {
    let engine = rig.start(config);
    rig.run_for(0);
    rig.trace.clear();
    engine
}

/// A message on the push channel, true or not.
fn told(number: usize) -> Input {
    Input::Completed(Completion {
        execution_id: member(number),
        flow_id: flow(0),
        outcome: TerminalOutcome::Failed,
    })
}

fn chain(length: usize) -> Graph {
    (1..length).fold(Graph::new().roots([0]), |graph, n| graph.all_of(n, [n - 1]))
}

fn handed_over(rig: &Rig) -> usize {
    let count = |fact: &Observation| matches!(fact, Observation::HandedOver { .. });
    rig.facts.iter().filter(|(_, fact)| count(fact)).count()
}

#[test]
fn a_completion_releases_its_children_at_once() {
    let mut rig = Rig::new();
    rig.submit(&Graph::new().roots([1]).all_of(2, [1]).all_of(3, [1, 2]));
    dispatcher(&mut rig);
    rig.push = true;
    rig.complete(1);
    rig.run_for(0);
    assert_eq!(rig.trace, ["engine-1 resolve_outgoing E1 -> done 0 2 0 0 1 E2"]);
    assert_eq!((rig.state(2), rig.state(3)), ("waiting".into(), "waiting_children".into()));
}

#[test]
fn d1_a_missing_or_empty_outcome_never_skips_a_child() {
    let mut rig = Rig::new();
    rig.submit(&Graph::new().roots([1, 2, 3]).all_of(11, [1]).all_of(12, [2]).all_of(13, [3]));
    for upstream in [1, 2, 3] {
        rig.fail(upstream);
    }
    rig.replay(1);
    rig.run(&format!("HDEL {} terminal_outcome", core(&execution(2))));
    rig.run(&format!("DEL {}", core(&execution(3))));
    let engine = dispatcher(&mut rig);
    for upstream in [1, 2, 3] {
        rig.tell(engine, told(upstream));
    }
    assert_eq!(
        rig.trace,
        [
            "engine-1 resolve_outgoing E1 -> 0 execution_not_terminal",
            "engine-1 resolve_outgoing E2 -> 0 execution_not_terminal",
            "engine-1 resolve_outgoing E3 -> 0 execution_not_found",
        ]
    );
    for child in [11, 12, 13] {
        assert_eq!(rig.state(child), "waiting_children", "{child}");
    }
}

#[test]
fn d2_an_edge_that_is_applied_after_the_end_of_its_upstream_does_not_wait() {
    let mut rig = Rig::new();
    rig.submit(&Graph::new().roots([1, 2]));
    dispatcher(&mut rig);
    rig.push = true;
    let apply = stage(&mut rig, 1, 2);
    rig.complete(1);
    rig.run_for(0);
    rig.fcall(&apply);
    assert_eq!(rig.state(2), "waiting_children");
    rig.run_for(0);
    assert_eq!(rig.state(2), "waiting");
    assert_eq!(
        rig.trace,
        [
            "engine-1 resolve_outgoing E1 -> done 0 0 1 0 0",
            "engine-1 resolve_outgoing E1 -> done 0 1 0 0 1 E2",
        ]
    );
}

#[test]
fn d3_a_group_whose_child_was_replayed_is_judged_afresh() {
    let mut rig = Rig::new();
    let policy = GroupPolicy::AnyOf(OnSatisfied::LetRun);
    rig.submit(&Graph::new().roots([1, 2]).some_of(0, [1, 2], policy));
    dispatcher(&mut rig);
    rig.push = true;
    rig.fail(1);
    rig.fail(2);
    rig.run_for(0);
    assert_eq!(rig.state(0), "skipped");
    rig.replay(0);
    rig.replay(1);
    rig.complete(1);
    rig.run_for(0);
    assert_eq!(rig.state(0), "waiting", "{:#?}", rig.trace);
}

#[test]
fn d4_a_skip_carries_the_servers_clock() {
    let mut rig = Rig::new();
    rig.submit(&Graph::new().roots([1]).all_of(2, [1]));
    dispatcher(&mut rig);
    rig.push = true;
    rig.run_for(1_234);
    rig.fail(1);
    rig.run_for(0);
    let now = (EPOCH_MS + 1_234).to_string();
    assert_eq!(rig.field(&core(&execution(2)), "completed_at"), now);
    let score = rig.call(&["ZSCORE", &lane("terminal"), &execution(2)]);
    assert_eq!(score, Value::Bulk(now.into_bytes()));
}

#[test]
fn d13_an_active_child_that_is_skipped_leaves_nothing_behind() {
    let mut rig = Rig::new();
    rig.submit(&Graph::new().roots([1, 2]));
    dispatcher(&mut rig);
    rig.push = true;
    rig.claim(&execution(2), 60_000);
    let apply = stage(&mut rig, 1, 2);
    rig.fcall(&apply);
    rig.fail(1);
    rig.run_for(0);
    assert_eq!(rig.state(2), "skipped");
    let child = execution(2);
    for index in [lane("active"), "ff:idx:{fp:0}:lease_expiry".into()] {
        assert_eq!(rig.call(&["ZSCORE", &index, &child]), Value::Nil, "{index}");
    }
    let held = rig.call(&["SISMEMBER", "ff:idx:{fp:0}:worker:wi:leases", &child]);
    assert_eq!(held, Value::Int(0));
    let lease = rig.call(&["EXISTS", &format!("ff:exec:{{fp:0}}:{child}:lease:current")]);
    assert_eq!(lease, Value::Int(0));
}

#[test]
fn d5_after_a_gap_in_the_push_channel_the_engine_catches_up_at_once() {
    let mut rig = Rig::new();
    rig.submit(&Graph::new().roots([1]).all_of(2, [1]));
    let engine = dispatcher(&mut rig);
    rig.complete(1);
    rig.run_for(1_000);
    assert_eq!(rig.state(2), "waiting_children", "the push was lost");
    rig.tell(engine, Input::PushGap);
    assert_eq!(rig.state(2), "waiting");
}

#[test]
fn d6_an_end_that_nobody_publishes_is_found_within_an_interval() {
    let mut rig = Rig::new();
    rig.submit(&Graph::new().roots([1]).all_of(2, [1]));
    dispatcher_with(&mut rig, only(&[ScannerName::DependencyReconciler]));
    rig.complete(1);
    rig.run_for(17_000);
    assert_eq!(rig.state(2), "waiting");
}

#[test]
fn d7_a_burst_is_bounded_and_what_does_not_fit_is_not_lost() {
    let mut rig = Rig::new();
    let children = 200..300;
    let graph = Graph::new().roots(0..100);
    rig.submit(&children.clone().fold(graph, |graph, child| graph.all_of(child, [child - 200])));
    let mut config = only(&[ScannerName::DependencyReconciler]);
    config.dispatch_queue = 10;
    config.dispatch_concurrency = 2;
    dispatcher_with(&mut rig, config);
    rig.push = true;
    for upstream in 0..100 {
        rig.complete(upstream);
    }
    rig.run_for(0);
    assert_eq!(rig.traced(&["resolve_outgoing"]), 10);
    assert_eq!(handed_over(&rig), 90);
    rig.run_for(1_000);
    for child in children {
        assert_eq!(rig.state(child), "waiting", "{child}");
    }
}

#[test]
fn d7_the_same_completion_told_often_is_dispatched_once_and_once_again() {
    let mut rig = Rig::new();
    rig.submit(&Graph::new().roots([1]).all_of(2, [1]));
    dispatcher(&mut rig);
    rig.push = true;
    rig.complete(1);
    // The first is being worked on; whatever comes meanwhile is one more look together.
    for _ in 0..50 {
        let message = format!(
            r#"{{"execution_id":"{}","flow_id":"{}","outcome":"success"}}"#,
            execution(1),
            flow(0)
        );
        rig.call(&["PUBLISH", "ff:dag:completions", &message]);
    }
    rig.run_for(0);
    assert_eq!(rig.traced(&["resolve_outgoing E1"]), 2, "{:#?}", rig.trace);
}

/// Members 1 and 2 need member 0; members 3 to 6 need those two, two each.
fn tree() -> Graph {
    (1..7).fold(Graph::new().roots([0]), |graph, n| graph.all_of(n, [(n - 1) / 2]))
}

#[test]
fn a_cascade_goes_breadth_first() {
    let mut rig = Rig::new();
    rig.submit(&tree());
    let engine = dispatcher(&mut rig);
    rig.fail(0);
    rig.tell(engine, told(0));
    let level = |line: &String| match line.split(' ').nth(2) {
        Some("E0") => 0,
        Some("E1" | "E2") => 1,
        _ => 2,
    };
    let levels: Vec<i32> = rig.trace.iter().map(level).collect();
    assert_eq!(levels, [0, 1, 1, 2, 2, 2, 2], "{:#?}", rig.trace);
    for n in 1..7 {
        assert_eq!(rig.state(n), "skipped", "{n}");
    }
}

#[test]
fn d9_a_skipped_subtree_is_not_walked_twice_over() {
    let mut rig = Rig::new();
    rig.submit(&tree());
    dispatcher(&mut rig);
    rig.push = true;
    rig.fail(0);
    rig.run_for(0);
    for n in 0..7 {
        assert_eq!(rig.state(n), if n == 0 { "failed" } else { "skipped" }, "{n}");
        let looks = rig.traced(&[&format!("resolve_outgoing E{n} ")]);
        assert_eq!(looks, 1, "E{n}: {:#?}", rig.trace);
    }
}

#[test]
fn a_cascade_goes_fifty_levels_down_and_the_reconciler_goes_on() {
    let mut rig = Rig::new();
    rig.submit(&chain(120));
    let engine = dispatcher_with(&mut rig, only(&[ScannerName::DependencyReconciler]));
    rig.fail(0);
    rig.tell(engine, told(0));
    assert_eq!(rig.traced(&["resolve_outgoing E50 "]), 1);
    assert_eq!(rig.traced(&["resolve_outgoing E51 "]), 0);
    assert_eq!((rig.state(51), rig.state(52)), ("skipped".into(), "waiting_children".into()));
    let deep = Observation::DepthReached { execution: member(51) };
    assert!(rig.facts.contains(&(engine, deep)));
    rig.run_for(1_500);
    assert_eq!(rig.state(119), "skipped");
}

#[test]
fn d10_what_an_engine_leaves_behind_when_it_stops_is_done_by_another() {
    let mut rig = Rig::new();
    let graph = Graph::new().roots([0]);
    rig.submit(&(1..=250).fold(graph, |graph, n| graph.all_of(n, [0])));
    let engine = dispatcher(&mut rig);
    rig.push = true;
    rig.complete(0);
    rig.tell(engine, Input::Drain);
    assert!(rig.engine(engine).is_some_and(selvedge_core::engine::Engine::is_drained));
    assert_eq!(rig.traced(&["resolve_outgoing"]), 1, "only what was in flight");
    rig.start(only(&[ScannerName::DependencyReconciler]));
    rig.run_for(0);
    for n in 1..=250 {
        assert_eq!(rig.state(n), "waiting", "{n}");
    }
}

#[test]
fn d11_a_child_of_another_partition_costs_one_call_and_no_error() {
    let mut rig = Rig::new();
    rig.submit(&Graph::new().roots([1]).all_of(2, [1]));
    let stray = "{fp:9}:00000000-0000-4000-8000-000000000009";
    let key = of_flow(0, &format!("edge:{}", edge(1, 2)));
    rig.run(&format!("HSET {key} downstream_execution_id {stray}"));
    dispatcher_with(&mut rig, only(&[ScannerName::DependencyReconciler]));
    rig.push = true;
    rig.complete(1);
    rig.run_for(0);
    assert_eq!(rig.trace, ["engine-1 resolve_outgoing E1 -> done 0 0 1 0 0"]);
    assert_eq!(handed_over(&rig), 0);
}

#[test]
fn t3_a_filtered_engine_leaves_other_tenants_completions_alone() {
    let mut rig = Rig::new();
    rig.submit(&Graph::new().owned_by("alpha").roots([1]).all_of(2, [1]));
    rig.submit(&Graph::new().numbered(1).owned_by("beta").roots([11]).all_of(12, [11]));
    let filter = Filter { namespace: Some("alpha".into()), instance_tag: None };
    let engine = dispatcher_with(&mut rig, EngineConfig { filter, ..only(&[]) });
    rig.push = true;
    rig.complete(1);
    rig.complete(11);
    rig.run_for(0);
    assert_eq!(rig.trace, ["engine-1 resolve_outgoing E1 -> done 0 1 0 0 1 E2"]);
    assert_eq!(rig.state(12), "waiting_children");
    rig.tell(engine, Input::PushGap);
    assert_eq!(rig.state(12), "waiting_children");
}

#[test]
fn t3_a_filter_that_cannot_be_asked_forgets_nobody() {
    let mut rig = Rig::new();
    rig.submit(&Graph::new().owned_by("alpha").roots([1]).all_of(2, [1]));
    let filter = Filter { namespace: Some("alpha".into()), instance_tag: None };
    dispatcher_with(&mut rig, EngineConfig { filter, ..only(&[]) });
    rig.push = true;
    let mut once = true;
    rig.rule = Some(Box::new(move |command| {
        let asked = command.argv.last().is_some_and(|word| word == b"namespace");
        (asked && std::mem::take(&mut once)).then(silence)
    }));
    rig.complete(1);
    rig.run_for(0);
    assert_eq!((rig.state(2), handed_over(&rig)), ("waiting_children".into(), 1));
    rig.run_for(600);
    assert_eq!(rig.state(2), "waiting");
}

#[test]
fn a_call_that_was_not_or_perhaps_applied_is_handed_over() {
    let refused = || Answer::NotApplied(ServerError::from_reply("LOADING come back later"));
    for (answer, reason) in [
        (refused as fn() -> Answer, "the store cannot be reached"),
        (silence as fn() -> Answer, "the store did not answer"),
    ] {
        let mut rig = Rig::new();
        rig.submit(&Graph::new().roots([1]).all_of(2, [1]));
        let engine = dispatcher(&mut rig);
        rig.push = true;
        let mut once = true;
        rig.rule = Some(Box::new(move |command| {
            let resolves = command.argv.get(1).is_some_and(|word| word == b"ff_resolve_outgoing");
            (resolves && std::mem::take(&mut once)).then(answer)
        }));
        rig.complete(1);
        rig.run_for(0);
        let fact = Observation::HandedOver { execution: member(1), reason };
        assert!(rig.facts.contains(&(engine, fact)), "{reason}");
        assert_eq!(rig.state(2), "waiting_children");
        rig.run_for(600);
        assert_eq!(rig.state(2), "waiting", "{reason}");
    }
}

#[test]
fn a_refused_call_is_handed_over() {
    let mut rig = Rig::new();
    rig.submit(&Graph::new().roots([1]).all_of(2, [1]));
    let engine = dispatcher(&mut rig);
    rig.push = true;
    let mut once = true;
    rig.rule = Some(Box::new(move |command| {
        let refusal = vec![Value::Int(0), Value::Bulk(b"invalid_input".to_vec())];
        let resolves = command.argv.get(1).is_some_and(|word| word == b"ff_resolve_outgoing");
        (resolves && std::mem::take(&mut once)).then_some(Answer::Applied(Value::Array(refusal)))
    }));
    rig.complete(1);
    rig.run_for(0);
    let reason = "the edges cannot be resolved";
    let fact = Observation::HandedOver { execution: member(1), reason };
    assert!(rig.facts.contains(&(engine, fact)));
    rig.run_for(600);
    assert_eq!(rig.trace, ["engine-1 resolve_outgoing E1 -> done 0 1 0 0 1 E2"]);
    assert_eq!(rig.state(2), "waiting", "the net has it");
}

#[test]
fn two_engines_hear_the_same_completion() {
    let mut rig = Rig::new();
    rig.submit(&chain(4));
    dispatcher(&mut rig);
    dispatcher(&mut rig);
    rig.push = true;
    rig.fail(0);
    rig.run_for(0);
    for n in 1..4 {
        let line = format!("resolve_outgoing E{} -> done 0 1 0 1 E{n} 0", n - 1);
        assert_eq!(rig.traced(&[&line]), 1, "E{n} is skipped once: {:#?}", rig.trace);
        assert_eq!(rig.state(n), "skipped");
    }
}

#[test]
fn lanes_told_from_the_registry_are_scanned() {
    let mut rig = Rig::new();
    rig.submit(&Graph::new().roots([1]).all_of(2, [1]));
    // As if the child had been made in a lane that nobody configured.
    let child = execution(2);
    rig.run(&format!("HSET {} lane_id side", core(&child)));
    rig.run(&format!("ZREM ff:idx:{{fp:0}}:lane:default:blocked:dependencies {child}"));
    rig.run(&format!("ZADD ff:idx:{{fp:0}}:lane:side:blocked:dependencies 1 {child}"));
    let engine = dispatcher(&mut rig);
    rig.complete(1);
    rig.tell(engine, Input::PushGap);
    assert_eq!(rig.state(2), "waiting_children", "nobody told it of the lane");
    rig.tell(engine, Input::Lanes(vec!["side".parse().unwrap()]));
    rig.tell(engine, Input::PushGap);
    assert_eq!(rig.state(2), "waiting");
}

/// Round trips and commands for the dispatch of so many outgoing edges.
pub(crate) fn fan_out(edges: usize) -> (usize, usize) {
    let mut rig = Rig::new();
    let graph = Graph::new().roots([0]);
    rig.submit(&(1..=edges).fold(graph, |graph, n| graph.all_of(n, [0])));
    rig.start(only(&[]));
    rig.run_for(0);
    rig.push = true;
    rig.complete(0);
    let before = (rig.batches, rig.commands);
    rig.run_for(0);
    for n in 1..=edges {
        assert_eq!(rig.state(n), "waiting", "{n}");
    }
    (rig.batches - before.0, rig.commands - before.1)
}

#[test]
fn d8_a_fan_out_of_1_000_takes_at_most_30_round_trips() {
    let (trips, commands) = fan_out(1_000);
    assert!(trips <= 30, "{trips} round trips, {commands} commands");
}
