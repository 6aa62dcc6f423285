//! Summaries of flows: exact, whatever the size of the flow, and finished flows leave the index.

use selvedge_core::call::flow::{CancelFlow, CancellationPolicy};
use selvedge_core::command::Answer;
use selvedge_core::engine::{Input, Observation, ScannerName};
use selvedge_core::error::ServerError;
use selvedge_core::reply::text_hash;
use selvedge_core::state::{FlowState, MemberCounts, PublicState};
use selvedge_tests::harness::{Harness, silence};

use crate::fixtures::{ClientCalls, core, execution, lane, only};
use crate::flow_builder::{Flows, Graph, HOME, flow, of_flow};
use crate::manual_engine::ManualEngine;

const NAME: ScannerName = ScannerName::FlowProjector;
const INDEX: &str = "ff:idx:{fp:0}:flow_index";

/// A large flow, written directly: `completed` members have completed, `more` are running.
fn by_hand(harness: &mut Harness, number: usize, completed: usize, more: usize) {
    harness.name(flow(number).to_string(), format!("F{number}"));
    harness
        .run(&format!("HSET {} public_flow_state open graph_revision 1", of_flow(number, "core")));
    harness.run(&format!("SADD {INDEX} {}", flow(number)));
    for n in 0..completed + more {
        let state = if n < completed { "completed" } else { "active" };
        let id = execution(number * 100_000 + n);
        harness.run(&format!("SADD {} {id}", of_flow(number, "members")));
        harness.run(&format!("HSET {} public_state {state}", core(&id)));
    }
}

/// The smallest multisets of states, in which each follows itself or a later one.
fn multisets(states: &[&'static str], size: usize) -> Vec<Vec<&'static str>> {
    let Some(smaller) = size.checked_sub(1) else { return vec![Vec::new()] };
    let from = |at: usize| {
        let rest = multisets(&states[at..], smaller).into_iter();
        rest.map(move |rest| [vec![states[at]], rest].concat())
    };
    (0..states.len()).flat_map(from).collect()
}

/// The two rules for the state of a flow agree, but for cancelled members: see `FlowState`.
#[test]
fn the_state_of_a_flow_in_core_is_the_one_in_its_summary_unless_members_were_cancelled() {
    let states: Vec<&str> = PublicState::ALL.iter().map(|state| state.as_str()).collect();
    let states = [states, vec!["added_later", ""]].concat();
    let mut harness = Harness::new();
    let (mut flows, mut differ) = (0, 0);
    for members in (1..=3).flat_map(|size| multisets(&states, size)) {
        for recorded in ["open", "cancelled", "completed"] {
            flows += 1;
            let core_key = of_flow(flows, "core");
            harness.run(&format!("HSET {core_key} public_flow_state {recorded}"));
            let mut counts = MemberCounts::default();
            for (at, state) in members.iter().enumerate() {
                let id = execution(flows * 10 + at);
                harness.run(&format!("SADD {} {id}", of_flow(flows, "members")));
                if !state.is_empty() {
                    harness.run(&format!("HSET {} public_state {state}", core(&id)));
                }
                counts.add(state);
            }
            let keys = [core_key, of_flow(flows, "members"), of_flow(flows, "summary")].join(" ");
            harness.run(&format!("FCALL ff_project_flow 4 {keys} {INDEX} {}", flow(flows)));
            let word: FlowState =
                summary(&mut harness, flows, "public_flow_state").parse().unwrap();
            let found = harness.run(&format!("HGETALL {}", of_flow(flows, "summary")));
            let counted = MemberCounts::of_summary(&text_hash(found)).unwrap();
            let ours = counts.state(recorded);
            assert_eq!(counted.state(recorded), ours, "{members:?}, by its summary");
            let has = |state: &str| members.contains(&state);
            let ended = members
                .iter()
                .all(|state| state.is_empty() || state.parse().is_ok_and(PublicState::is_end));
            let expected = if recorded == "cancelled" {
                // The summary of a cancelled flow says so when all members have ended.
                FlowState::Cancelled
            } else if ended && has("cancelled") && !has("failed") && !has("expired") {
                assert_eq!(word, FlowState::Failed);
                differ += 1;
                if has("completed") { FlowState::Completed } else { FlowState::Cancelled }
            } else {
                word
            };
            assert_eq!(ours, expected, "{members:?} in a flow that is {recorded}: {word}");
            assert!(recorded != "cancelled" || !ended || word == FlowState::Cancelled);
        }
    }
    assert!(flows > 1_500 && differ > 20, "{differ} of {flows}");
}

fn summary(harness: &mut Harness, number: usize, field: &str) -> String {
    harness.field(&of_flow(number, "summary"), field)
}

#[test]
fn j2_a_flow_of_10_000_members_gets_an_exact_summary_and_leaves_the_index() {
    let mut harness = Harness::new();
    by_hand(&mut harness, 1, 9_999, 1);
    harness.start(only(&[NAME]));
    harness.run_for(0);
    assert_eq!(summary(&mut harness, 1, "members_completed"), "9999");
    assert_eq!(summary(&mut harness, 1, "public_flow_state"), "running");
    assert_eq!(harness.size(INDEX), 1);
    harness.run(&format!("HSET {} public_state completed", core(&execution(109_999))));
    harness.run_for(17_000);
    for field in ["total_members", "sampled_members", "members_completed"] {
        assert_eq!(summary(&mut harness, 1, field), "10000", "{field}");
    }
    assert_eq!(summary(&mut harness, 1, "public_flow_state"), "completed");
    assert_eq!(harness.size(INDEX), 0);
    let before = harness.traced(&["project_flow"]);
    println!("{before} calls for 10,000 members, twice");
    assert!(before <= 60, "{before}");
    harness.run_for(60_000);
    assert_eq!(harness.traced(&["project_flow"]), before, "it is not scanned any more");
}

#[test]
fn j1_one_running_member_among_200_is_seen_every_time() {
    let mut harness = Harness::new();
    by_hand(&mut harness, 1, 199, 1);
    harness.start(only(&[NAME]));
    for _ in 0..20 {
        harness.run_for(15_000);
        assert_eq!(summary(&mut harness, 1, "public_flow_state"), "running");
        assert_eq!(summary(&mut harness, 1, "members_completed"), "199");
        assert_eq!(summary(&mut harness, 1, "members_active"), "1");
    }
}

#[test]
fn j3_purged_members_count_as_gone_and_hold_nothing_back() {
    let mut harness = Harness::new();
    by_hand(&mut harness, 1, 5, 0);
    harness.run(&format!("DEL {}", core(&execution(100_003))));
    harness.start(only(&[NAME]));
    harness.run_for(0);
    assert_eq!(harness.trace, ["engine-1 project_flow F1 -> finished completed 5"]);
    assert_eq!(summary(&mut harness, 1, "members_gone"), "1");
    assert_eq!(harness.size(INDEX), 0);
}

#[test]
fn k6_a_flow_is_deleted_after_its_last_member_despite_crashes() {
    let mut harness = Harness::new();
    harness.submit(&Graph::new().roots([1, 2]));
    harness.complete(1);
    harness.fail(2);
    for id in [execution(1), execution(2)] {
        harness.run(&format!("HSET {} completed_at 500", core(&id)));
        harness.run(&format!("ZADD {} 500 {id}", lane("terminal")));
    }
    let trimmer = harness.start(only(&[ScannerName::RetentionTrimmer]));
    harness.run_for(0);
    assert_eq!(harness.traced(&["purge_executions", "-> purged"]), 1);
    harness.kill(trimmer);
    harness.trace.clear();
    assert_eq!(harness.size(INDEX), 1, "it is noted");
    // The second one dies between two steps of the purge.
    let projector = harness.start(only(&[NAME]));
    harness.rule = Some(Box::new(|command| (command.argv[1] == b"ff_purge_flow").then(silence)));
    harness.run_for(0);
    assert_eq!(
        harness.traced(&["project_flow F0 -> deserted failed 2"]),
        1,
        "{:#?}",
        harness.trace
    );
    harness.kill(projector);
    harness.rule = None;
    harness.start(only(&[NAME]));
    harness.run_for(0);
    assert_eq!(
        (harness.size(INDEX), harness.size(&of_flow(0, "members"))),
        (0, 0),
        "{:#?}",
        harness.trace
    );
    assert_eq!(harness.field(&of_flow(0, "core"), "flow_id"), "");
}

#[test]
fn j4_a_member_that_comes_between_two_steps_keeps_the_flow_in_the_index() {
    let mut harness = Harness::new();
    by_hand(&mut harness, 1, 1_200, 0);
    let (members, record) = (of_flow(1, "members"), of_flow(1, "core"));
    let (id, mut calls) = (execution(999_999), 0);
    harness.before_command = Some(Box::new(move |host, command| {
        calls += usize::from(command.argv[1] == b"ff_project_flow");
        if calls == 2 {
            host.call(&["SADD", &members, &id]);
            host.call(&["HSET", &core(&id), "public_state", "waiting"]);
            host.call(&["HSET", &record, "graph_revision", "2"]);
        }
    }));
    harness.start(only(&[NAME]));
    harness.run_for(0);
    assert_eq!(summary(&mut harness, 1, "total_members"), "1201");
    assert_eq!(summary(&mut harness, 1, "public_flow_state"), "open");
    assert_eq!(harness.size(INDEX), 1);
}

#[test]
fn j5_a_cancelled_flow_is_called_cancelled_and_an_empty_one_is_open() {
    let mut harness = Harness::new();
    harness.submit(&Graph::new().roots([1]));
    harness.complete(1);
    harness.fcall(&CancelFlow {
        partition: HOME,
        flow_id: flow(0),
        reason: "changed my mind".into(),
        policy: CancellationPolicy::FlowOnly,
        grace_ms: None,
    });
    by_hand(&mut harness, 1, 0, 0);
    harness.start(only(&[NAME]));
    harness.run_for(0);
    assert_eq!(summary(&mut harness, 0, "public_flow_state"), "cancelled");
    assert_eq!(summary(&mut harness, 1, "public_flow_state"), "open");
}

#[test]
fn j6_the_counts_are_of_all_members() {
    let mut harness = Harness::new();
    harness.submit(&Graph::new().roots(1..=100).all_of(0, [1]));
    harness.complete(1);
    harness.fail(2);
    harness.start(only(&[NAME]));
    harness.run_for(0);
    let counts = ["total_members", "members_completed", "members_failed", "members_waiting"]
        .map(|field| summary(&mut harness, 0, field));
    assert_eq!(counts, ["101", "1", "1", "98"]);
}

#[test]
fn j7_a_stop_is_honoured_inside_a_large_flow() {
    let mut harness = Harness::new();
    by_hand(&mut harness, 1, 3_000, 0);
    let mut manual = ManualEngine::new(only(&[NAME]), harness);
    manual.feed(0, Input::Wake);
    let projects = |manual: &ManualEngine| {
        let commands = manual.open.iter().flat_map(|(_, _, batch)| batch);
        commands.filter(|command| command.argv[1] == b"ff_project_flow").count()
    };
    while projects(&manual) == 0 {
        let settled = manual.carry_out().unwrap();
        manual.feed(1, settled);
    }
    manual.feed(2, Input::Drain);
    while let Some(settled) = manual.carry_out() {
        assert_eq!(manual.feed(3, settled), 0, "nothing new is sent");
    }
    assert!(manual.engine.is_drained());
    let mut harness = manual.harness;
    assert_eq!(summary(&mut harness, 1, "members_completed"), "", "it stopped in the middle");
    harness.start(only(&[NAME]));
    harness.run_for(0);
    assert_eq!(summary(&mut harness, 1, "members_completed"), "3000", "another goes on");
}

#[test]
fn more_flows_than_a_batch_unreadable_entries_and_a_flow_that_cannot_be_read() {
    let mut harness = Harness::new();
    for number in 0..250 {
        by_hand(&mut harness, number, 1, 0);
    }
    harness.run(&format!("SADD {INDEX} garbage"));
    let shouted = flow(251).to_string().to_uppercase();
    harness.run(&format!("SADD {INDEX} {shouted}"));
    harness.run(&format!("SADD {INDEX} {}", flow(252)));
    harness.run(&format!("SADD {INDEX} {}", flow(253)));
    harness.run(&format!("SET {} text", of_flow(253, "core")));
    harness.start(only(&[NAME]));
    harness.run_for(0);
    assert_eq!(harness.counts(NAME).processed, 250, "all of them in one scan");
    harness.run_for(90_000);
    assert_eq!(harness.size(INDEX), 1, "only what cannot be read is left");
    let counts = harness.counts(NAME);
    assert_eq!((counts.processed, counts.set_aside), (250, 2));
    assert_eq!(counts.nothing, 1, "a flow without a record leaves");
    assert_eq!(counts.failed, 3, "and then it is left alone for a while");
    let backed_off = |fact: &Observation| matches!(fact, Observation::ItemBackedOff { .. });
    assert!(harness.facts.iter().any(|(_, fact)| backed_off(fact)));
}

#[test]
fn a_call_that_was_not_or_perhaps_applied_is_repeated() {
    let loading = || Answer::NotApplied(ServerError::from_reply("LOADING come back later"));
    for answer in [loading as fn() -> Answer, silence] {
        let mut harness = Harness::new();
        by_hand(&mut harness, 1, 2, 0);
        let mut once = true;
        harness.rule = Some(Box::new(move |command| {
            (command.argv[1] == b"ff_project_flow" && std::mem::take(&mut once)).then(answer)
        }));
        harness.start(only(&[NAME]));
        harness.run_for(0);
        assert_eq!(harness.counts(NAME).deferred, 1);
        harness.run_for(17_000);
        assert_eq!(harness.trace, ["engine-1 project_flow F1 -> finished completed 2"]);
    }
}

#[test]
fn two_engines_at_once_fold_one_summary() {
    let mut harness = Harness::new();
    by_hand(&mut harness, 1, 2_500, 1);
    harness.start(only(&[NAME]));
    harness.start(only(&[NAME]));
    harness.run_for(0);
    assert_eq!(summary(&mut harness, 1, "members_completed"), "2500");
    assert_eq!(summary(&mut harness, 1, "total_members"), "2501");
}
