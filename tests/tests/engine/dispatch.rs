//! Dispatch: a completion resolves the edges of its execution, and those of every child it skips.

use selvedge_core::call::flow::{GroupPolicy, OnSatisfied};
use selvedge_core::command::Answer;
use selvedge_core::completion::Completion;
use selvedge_core::engine::{EngineConfig, Filter, Input, Observation, ScannerName};
use selvedge_core::error::ServerError;
use selvedge_core::state::TerminalOutcome;
use selvedge_core::value::Value;
use selvedge_tests::harness::{EPOCH_MS, Harness, silence};

use crate::fixtures::{ClientCalls, core, execution, lane, only};
use crate::flow_builder::{Flows, Graph, edge, flow, member, of_flow, stage};

/// An engine that only dispatches: every scanner has had its first run.
pub(crate) fn dispatcher(harness: &mut Harness) -> usize {
    dispatcher_with(harness, only(&[]))
}

pub(crate) fn dispatcher_with(harness: &mut Harness, config: EngineConfig) -> usize {
    let engine = harness.start(config);
    harness.run_for(0);
    harness.trace.clear();
    engine
}

/// A message on the push channel that a member ended like this, true or not.
pub(crate) fn pushed(number: usize, outcome: TerminalOutcome) -> Input {
    let execution_id = member(number);
    Input::Completed(Completion { execution_id, flow_id: flow(0), outcome })
}

/// A flow in which each member needs the one before it.
pub(crate) fn chain(length: usize) -> Graph {
    (1..length).fold(Graph::new().roots([0]), |graph, n| graph.all_of(n, [n - 1]))
}

fn handed_over(harness: &Harness) -> usize {
    let count = |fact: &Observation| matches!(fact, Observation::HandedOver { .. });
    harness.facts.iter().filter(|(_, fact)| count(fact)).count()
}

#[test]
fn a_completion_releases_its_children_at_once() {
    let mut harness = Harness::new();
    harness.submit(&Graph::new().roots([1]).all_of(2, [1]).all_of(3, [1, 2]));
    dispatcher(&mut harness);
    harness.push = true;
    harness.complete(1);
    harness.run_for(0);
    assert_eq!(harness.trace, ["engine-1 resolve_outgoing E1 -> done 0 2 0 0 1 E2"]);
    assert_eq!((harness.state(2), harness.state(3)), ("waiting".into(), "waiting_children".into()));
}

#[test]
fn d1_a_missing_or_empty_outcome_never_skips_a_child() {
    let mut harness = Harness::new();
    harness.submit(&Graph::new().roots([1, 2, 3]).all_of(11, [1]).all_of(12, [2]).all_of(13, [3]));
    for upstream in [1, 2, 3] {
        harness.fail(upstream);
    }
    harness.replay(1);
    harness.run(&format!("HDEL {} terminal_outcome", core(&execution(2))));
    harness.run(&format!("DEL {}", core(&execution(3))));
    let engine = dispatcher(&mut harness);
    for upstream in [1, 2, 3] {
        harness.tell(engine, pushed(upstream, TerminalOutcome::Failed));
    }
    assert_eq!(
        harness.trace,
        [
            "engine-1 resolve_outgoing E1 -> 0 execution_not_terminal",
            "engine-1 resolve_outgoing E2 -> 0 execution_not_terminal",
            "engine-1 resolve_outgoing E3 -> 0 execution_not_found",
        ]
    );
    for child in [11, 12] {
        assert_eq!(harness.state(child), "waiting_children", "{child}");
    }
}

#[test]
fn d2_an_edge_that_is_applied_after_the_end_of_its_upstream_does_not_wait() {
    let mut harness = Harness::new();
    harness.submit(&Graph::new().roots([1, 2]));
    dispatcher(&mut harness);
    harness.push = true;
    let apply = stage(&mut harness, 1, 2);
    harness.complete(1);
    harness.run_for(0);
    harness.fcall(&apply);
    assert_eq!(harness.state(2), "waiting_children");
    harness.run_for(0);
    assert_eq!(harness.state(2), "waiting");
    assert_eq!(
        harness.trace,
        [
            "engine-1 resolve_outgoing E1 -> done 0 0 1 0 0",
            "engine-1 resolve_outgoing E1 -> done 0 1 0 0 1 E2",
        ]
    );
}

#[test]
fn d3_a_group_whose_child_was_replayed_is_decided_again() {
    let mut harness = Harness::new();
    let policy = GroupPolicy::AnyOf(OnSatisfied::LetRun);
    harness.submit(&Graph::new().roots([1, 2]).some_of(0, [1, 2], policy));
    dispatcher(&mut harness);
    harness.push = true;
    harness.fail(1);
    harness.fail(2);
    harness.run_for(0);
    assert_eq!(harness.state(0), "skipped");
    harness.replay(0);
    harness.replay(1);
    harness.complete(1);
    harness.run_for(0);
    assert_eq!(harness.state(0), "waiting", "{:#?}", harness.trace);
}

#[test]
fn d4_a_skip_carries_the_servers_clock() {
    let mut harness = Harness::new();
    harness.submit(&Graph::new().roots([1]).all_of(2, [1]));
    dispatcher(&mut harness);
    harness.push = true;
    harness.run_for(1_234);
    harness.fail(1);
    harness.run_for(0);
    let now = (EPOCH_MS + 1_234).to_string();
    assert_eq!(harness.field(&core(&execution(2)), "completed_at"), now);
    let score = harness.call(&["ZSCORE", &lane("terminal"), &execution(2)]);
    assert_eq!(score, Value::Bulk(now.into_bytes()));
}

#[test]
fn d13_an_active_child_that_is_skipped_leaves_nothing_behind() {
    let mut harness = Harness::new();
    harness.submit(&Graph::new().roots([1, 2]));
    dispatcher(&mut harness);
    harness.push = true;
    harness.claim(&execution(2), 60_000);
    let apply = stage(&mut harness, 1, 2);
    harness.fcall(&apply);
    harness.fail(1);
    harness.run_for(0);
    assert_eq!(harness.state(2), "skipped");
    let child = execution(2);
    for index in [lane("active"), "ff:idx:{fp:0}:lease_expiry".into()] {
        assert_eq!(harness.call(&["ZSCORE", &index, &child]), Value::Nil, "{index}");
    }
    let held = harness.call(&["SISMEMBER", "ff:idx:{fp:0}:worker:wi:leases", &child]);
    assert_eq!(held, Value::Int(0));
    let lease = harness.call(&["EXISTS", &format!("ff:exec:{{fp:0}}:{child}:lease:current")]);
    assert_eq!(lease, Value::Int(0));
}

#[test]
fn d5_after_a_gap_in_the_push_channel_the_engine_catches_up_at_once() {
    let mut harness = Harness::new();
    harness.submit(&Graph::new().roots([1]).all_of(2, [1]));
    let engine = dispatcher(&mut harness);
    harness.complete(1);
    harness.run_for(1_000);
    assert_eq!(harness.state(2), "waiting_children", "the push was lost");
    harness.tell(engine, Input::PushGap);
    assert_eq!(harness.state(2), "waiting");
}

#[test]
fn d6_an_end_that_is_not_published_is_found_within_an_interval() {
    let mut harness = Harness::new();
    harness.submit(&Graph::new().roots([1]).all_of(2, [1]));
    dispatcher_with(&mut harness, only(&[ScannerName::DependencyReconciler]));
    harness.complete(1);
    harness.run_for(17_000);
    assert_eq!(harness.state(2), "waiting");
}

#[test]
fn d7_a_burst_is_bounded_and_what_does_not_fit_is_not_lost() {
    let mut harness = Harness::new();
    let children = 200..300;
    let graph = Graph::new().roots(0..100);
    harness
        .submit(&children.clone().fold(graph, |graph, child| graph.all_of(child, [child - 200])));
    let mut config = only(&[ScannerName::DependencyReconciler]);
    config.dispatch_queue = 10;
    config.dispatch_concurrency = 2;
    dispatcher_with(&mut harness, config);
    harness.push = true;
    for upstream in 0..100 {
        harness.complete(upstream);
    }
    harness.run_for(0);
    assert_eq!(harness.traced(&["resolve_outgoing"]), 10);
    assert_eq!(handed_over(&harness), 90);
    harness.run_for(1_000);
    for child in children {
        assert_eq!(harness.state(child), "waiting", "{child}");
    }
}

#[test]
fn d7_the_same_completion_pushed_often_is_dispatched_twice_at_most() {
    let mut harness = Harness::new();
    harness.submit(&Graph::new().roots([1]).all_of(2, [1]));
    dispatcher(&mut harness);
    harness.push = true;
    harness.complete(1);
    // The first is being dispatched; all that come meanwhile are one more look together.
    for _ in 0..50 {
        let message = format!(
            r#"{{"execution_id":"{}","flow_id":"{}","outcome":"success"}}"#,
            execution(1),
            flow(0)
        );
        harness.call(&["PUBLISH", "ff:dag:completions", &message]);
    }
    harness.run_for(0);
    assert_eq!(harness.traced(&["resolve_outgoing E1"]), 2, "{:#?}", harness.trace);
}

#[test]
fn d10_what_a_drained_engine_leaves_is_done_by_another() {
    let mut harness = Harness::new();
    let graph = Graph::new().roots([0]);
    harness.submit(&(1..=250).fold(graph, |graph, n| graph.all_of(n, [0])));
    let engine = dispatcher(&mut harness);
    harness.push = true;
    harness.complete(0);
    harness.tell(engine, Input::Drain);
    assert!(harness.engine(engine).is_some_and(selvedge_core::engine::Engine::is_drained));
    assert_eq!(harness.traced(&["resolve_outgoing"]), 1, "only what was in flight");
    harness.start(only(&[ScannerName::DependencyReconciler]));
    harness.run_for(0);
    for n in 1..=250 {
        assert_eq!(harness.state(n), "waiting", "{n}");
    }
}

#[test]
fn d11_a_child_of_another_partition_costs_one_call_and_no_error() {
    let mut harness = Harness::new();
    harness.submit(&Graph::new().roots([1]).all_of(2, [1]));
    let stray = "{fp:9}:00000000-0000-4000-8000-000000000009";
    let key = of_flow(0, &format!("edge:{}", edge(1, 2)));
    harness.run(&format!("HSET {key} downstream_execution_id {stray}"));
    dispatcher_with(&mut harness, only(&[ScannerName::DependencyReconciler]));
    harness.push = true;
    harness.complete(1);
    harness.run_for(0);
    assert_eq!(harness.trace, ["engine-1 resolve_outgoing E1 -> done 0 0 1 0 0"]);
    assert_eq!(handed_over(&harness), 0);
}

#[test]
fn t3_a_filtered_engine_dispatches_no_excluded_completions() {
    let mut harness = Harness::new();
    harness.submit(&Graph::new().owned_by("alpha").roots([1]).all_of(2, [1]));
    harness.submit(&Graph::new().numbered(1).owned_by("beta").roots([11]).all_of(12, [11]));
    let filter = Filter::by_namespace("alpha");
    let engine = dispatcher_with(&mut harness, only(&[]).with_filter(filter));
    harness.push = true;
    harness.complete(1);
    harness.complete(11);
    harness.run_for(0);
    assert_eq!(harness.trace, ["engine-1 resolve_outgoing E1 -> done 0 1 0 0 1 E2"]);
    assert_eq!(harness.state(12), "waiting_children");
    harness.tell(engine, Input::PushGap);
    assert_eq!(harness.state(12), "waiting_children");
}

#[test]
fn t3_a_completion_whose_filter_cannot_be_read_is_handed_over() {
    let mut harness = Harness::new();
    harness.submit(&Graph::new().owned_by("alpha").roots([1]).all_of(2, [1]));
    let filter = Filter::by_namespace("alpha");
    dispatcher_with(&mut harness, only(&[]).with_filter(filter));
    harness.push = true;
    let mut once = true;
    harness.rule = Some(Box::new(move |command| {
        let asked = command.argv.last().is_some_and(|word| word == b"namespace");
        (asked && std::mem::take(&mut once)).then(silence)
    }));
    harness.complete(1);
    harness.run_for(0);
    assert_eq!((harness.state(2), handed_over(&harness)), ("waiting_children".into(), 1));
    harness.run_for(600);
    assert_eq!(harness.state(2), "waiting");
}

#[test]
fn a_call_that_was_not_or_perhaps_applied_is_handed_over() {
    let refused = || Answer::NotApplied(ServerError::from_reply("LOADING come back later"));
    for (answer, reason) in [
        (refused as fn() -> Answer, "the store cannot be reached"),
        (silence as fn() -> Answer, "the store did not answer"),
    ] {
        let mut harness = Harness::new();
        harness.submit(&Graph::new().roots([1]).all_of(2, [1]));
        let engine = dispatcher(&mut harness);
        harness.push = true;
        let mut once = true;
        harness.rule = Some(Box::new(move |command| {
            let resolves = command.argv.get(1).is_some_and(|word| word == b"ff_resolve_outgoing");
            (resolves && std::mem::take(&mut once)).then(answer)
        }));
        harness.complete(1);
        harness.run_for(0);
        let fact = Observation::HandedOver { execution: member(1), reason };
        assert!(harness.facts.contains(&(engine, fact)), "{reason}");
        assert_eq!(harness.state(2), "waiting_children");
        harness.run_for(600);
        assert_eq!(harness.state(2), "waiting", "{reason}");
    }
}

#[test]
fn a_refused_call_is_handed_over() {
    let mut harness = Harness::new();
    harness.submit(&Graph::new().roots([1]).all_of(2, [1]));
    let engine = dispatcher(&mut harness);
    harness.push = true;
    let mut once = true;
    harness.rule = Some(Box::new(move |command| {
        let refusal = vec![Value::Int(0), Value::Bulk(b"invalid_input".to_vec())];
        let resolves = command.argv.get(1).is_some_and(|word| word == b"ff_resolve_outgoing");
        (resolves && std::mem::take(&mut once)).then_some(Answer::Applied(Value::Array(refusal)))
    }));
    harness.complete(1);
    harness.run_for(0);
    let reason = "the edges cannot be resolved";
    let fact = Observation::HandedOver { execution: member(1), reason };
    assert!(harness.facts.contains(&(engine, fact)));
    harness.run_for(600);
    assert_eq!(harness.trace, ["engine-1 resolve_outgoing E1 -> done 0 1 0 0 1 E2"]);
    assert_eq!(harness.state(2), "waiting", "the net has it");
}

#[test]
fn two_engines_skip_a_child_once() {
    let mut harness = Harness::new();
    harness.submit(&chain(4));
    dispatcher(&mut harness);
    dispatcher(&mut harness);
    harness.push = true;
    harness.fail(0);
    harness.run_for(0);
    for n in 1..4 {
        let line = format!("resolve_outgoing E{} -> done 0 1 0 1 E{n} 0", n - 1);
        assert_eq!(harness.traced(&[&line]), 1, "E{n} is skipped once: {:#?}", harness.trace);
        assert_eq!(harness.state(n), "skipped");
    }
}

#[test]
fn lanes_of_the_registry_are_scanned() {
    let mut harness = Harness::new();
    harness.submit(&Graph::new().roots([1]).all_of(2, [1]));
    // As if the child had been created in a lane that is not configured.
    let child = execution(2);
    harness.run(&format!("HSET {} lane_id side", core(&child)));
    harness.run(&format!("ZREM ff:idx:{{fp:0}}:lane:default:blocked:dependencies {child}"));
    harness.run(&format!("ZADD ff:idx:{{fp:0}}:lane:side:blocked:dependencies 1 {child}"));
    let engine = dispatcher(&mut harness);
    harness.complete(1);
    harness.tell(engine, Input::PushGap);
    assert_eq!(harness.state(2), "waiting_children", "the lane is unknown");
    harness.tell(engine, Input::Lanes(vec!["side".parse().unwrap()]));
    harness.tell(engine, Input::PushGap);
    assert_eq!(harness.state(2), "waiting");
}

/// Round trips and commands for the dispatch of so many outgoing edges.
pub(crate) fn fan_out(edges: usize) -> (usize, usize) {
    let mut harness = Harness::new();
    let graph = Graph::new().roots([0]);
    harness.submit(&(1..=edges).fold(graph, |graph, n| graph.all_of(n, [0])));
    harness.start(only(&[]));
    harness.run_for(0);
    harness.push = true;
    harness.complete(0);
    let before = (harness.batches, harness.commands);
    harness.run_for(0);
    for n in 1..=edges {
        assert_eq!(harness.state(n), "waiting", "{n}");
    }
    (harness.batches - before.0, harness.commands - before.1)
}

#[test]
fn d8_a_fan_out_of_1_000_takes_at_most_30_round_trips() {
    let (trips, commands) = fan_out(1_000);
    assert!(trips <= 30, "{trips} round trips, {commands} commands");
}
