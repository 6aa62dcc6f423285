//! Summaries of flows: exact, whatever the size of the flow, and finished flows leave the index.

use selvedge_core::call::flow::{CancelFlow, CancellationPolicy};
use selvedge_core::engine::{Answer, Input, Observation, ScannerName};
use selvedge_core::error::ServerError;
use selvedge_tests::rig::{Rig, silence};

use crate::flows::{Flows, Graph, HOME, flow, of_flow};
use crate::hand::Hand;
use crate::kit::{World, core, execution, lane, only};

const NAME: ScannerName = ScannerName::FlowProjector;
const INDEX: &str = "ff:idx:{fp:0}:flow_index";

/// A flow made by hand, because of its size: `completed` members have, and then `more` run.
fn by_hand(rig: &mut Rig, number: usize, completed: usize, more: usize) {
    rig.name(flow(number).to_string(), format!("F{number}"));
    rig.run(&format!("HSET {} public_flow_state open graph_revision 1", of_flow(number, "core")));
    rig.run(&format!("SADD {INDEX} {}", flow(number)));
    for n in 0..completed + more {
        let state = if n < completed { "completed" } else { "active" };
        let id = execution(number * 100_000 + n);
        rig.run(&format!("SADD {} {id}", of_flow(number, "members")));
        rig.run(&format!("HSET {} public_state {state}", core(&id)));
    }
}

fn summary(rig: &mut Rig, number: usize, field: &str) -> String {
    rig.field(&of_flow(number, "summary"), field)
}

#[test]
fn j2_a_flow_of_10_000_members_gets_an_exact_summary_and_leaves_the_index() {
    let mut rig = Rig::new();
    by_hand(&mut rig, 1, 9_999, 1);
    rig.start(only(&[NAME]));
    rig.run_for(0);
    assert_eq!(summary(&mut rig, 1, "members_completed"), "9999");
    assert_eq!(summary(&mut rig, 1, "public_flow_state"), "running");
    assert_eq!(rig.size(INDEX), 1);
    rig.run(&format!("HSET {} public_state completed", core(&execution(109_999))));
    rig.run_for(17_000);
    for field in ["total_members", "sampled_members", "members_completed"] {
        assert_eq!(summary(&mut rig, 1, field), "10000", "{field}");
    }
    assert_eq!(summary(&mut rig, 1, "public_flow_state"), "completed");
    assert_eq!(rig.size(INDEX), 0);
    let before = rig.traced(&["project_flow"]);
    println!("{before} calls for 10,000 members, twice");
    assert!(before <= 60, "{before}");
    rig.run_for(60_000);
    assert_eq!(rig.traced(&["project_flow"]), before, "nobody looks at it any more");
}

#[test]
fn j1_one_running_member_among_200_is_seen_every_time() {
    let mut rig = Rig::new();
    by_hand(&mut rig, 1, 199, 1);
    rig.start(only(&[NAME]));
    for _ in 0..20 {
        rig.run_for(15_000);
        assert_eq!(summary(&mut rig, 1, "public_flow_state"), "running");
        assert_eq!(summary(&mut rig, 1, "members_completed"), "199");
        assert_eq!(summary(&mut rig, 1, "members_active"), "1");
    }
}

#[test]
fn j3_purged_members_count_as_gone_and_hold_nothing_back() {
    let mut rig = Rig::new();
    by_hand(&mut rig, 1, 5, 0);
    rig.run(&format!("DEL {}", core(&execution(100_003))));
    rig.start(only(&[NAME]));
    rig.run_for(0);
    assert_eq!(rig.trace, ["engine-1 project_flow F1 -> finished completed 5"]);
    assert_eq!(summary(&mut rig, 1, "members_gone"), "1");
    assert_eq!(rig.size(INDEX), 0);
}

#[test]
fn k6_a_flow_goes_after_its_last_member_whoever_dies_in_between() {
    let mut rig = Rig::new();
    rig.submit(&Graph::new().roots([1, 2]));
    rig.complete(1);
    rig.fail(2);
    for id in [execution(1), execution(2)] {
        rig.run(&format!("HSET {} completed_at 500", core(&id)));
        rig.run(&format!("ZADD {} 500 {id}", lane("terminal")));
    }
    let trimmer = rig.start(only(&[ScannerName::RetentionTrimmer]));
    rig.run_for(0);
    assert_eq!(rig.traced(&["purge_execution", "-> purged"]), 2);
    rig.kill(trimmer);
    rig.trace.clear();
    assert_eq!(rig.size(INDEX), 1, "it is noted");
    // The second one dies between two steps of the purge.
    let projector = rig.start(only(&[NAME]));
    rig.rule = Some(Box::new(|command| (command.argv[1] == b"ff_purge_flow").then(silence)));
    rig.run_for(0);
    assert_eq!(rig.traced(&["project_flow F0 -> deserted failed 2"]), 1, "{:#?}", rig.trace);
    rig.kill(projector);
    rig.rule = None;
    rig.start(only(&[NAME]));
    rig.run_for(0);
    assert_eq!((rig.size(INDEX), rig.size(&of_flow(0, "members"))), (0, 0), "{:#?}", rig.trace);
    assert_eq!(rig.field(&of_flow(0, "core"), "flow_id"), "");
}

#[test]
fn j4_a_member_that_comes_between_two_steps_keeps_the_flow_in_the_index() {
    let mut rig = Rig::new();
    by_hand(&mut rig, 1, 1_200, 0);
    let (members, record) = (of_flow(1, "members"), of_flow(1, "core"));
    let (id, mut calls) = (execution(999_999), 0);
    rig.meddler = Some(Box::new(move |host, command| {
        calls += usize::from(command.argv[1] == b"ff_project_flow");
        if calls == 2 {
            host.call(&["SADD", &members, &id]);
            host.call(&["HSET", &core(&id), "public_state", "waiting"]);
            host.call(&["HSET", &record, "graph_revision", "2"]);
        }
    }));
    rig.start(only(&[NAME]));
    rig.run_for(0);
    assert_eq!(summary(&mut rig, 1, "total_members"), "1201");
    assert_eq!(summary(&mut rig, 1, "public_flow_state"), "open");
    assert_eq!(rig.size(INDEX), 1);
}

#[test]
fn j5_a_cancelled_flow_is_called_cancelled_and_an_empty_one_is_open() {
    let mut rig = Rig::new();
    rig.submit(&Graph::new().roots([1]));
    rig.complete(1);
    rig.fcall(&CancelFlow {
        partition: HOME,
        flow_id: flow(0),
        reason: "changed my mind".into(),
        policy: CancellationPolicy::FlowOnly,
        grace_ms: None,
    });
    by_hand(&mut rig, 1, 0, 0);
    rig.start(only(&[NAME]));
    rig.run_for(0);
    assert_eq!(summary(&mut rig, 0, "public_flow_state"), "cancelled");
    assert_eq!(summary(&mut rig, 1, "public_flow_state"), "open");
}

#[test]
fn j6_the_counts_are_of_all_members() {
    let mut rig = Rig::new();
    rig.submit(&Graph::new().roots(1..=100).all_of(0, [1]));
    rig.complete(1);
    rig.fail(2);
    rig.start(only(&[NAME]));
    rig.run_for(0);
    let counts = ["total_members", "members_completed", "members_failed", "members_waiting"]
        .map(|field| summary(&mut rig, 0, field));
    assert_eq!(counts, ["101", "1", "1", "98"]);
}

#[test]
fn j7_a_stop_is_honoured_inside_a_large_flow() {
    let mut rig = Rig::new();
    by_hand(&mut rig, 1, 3_000, 0);
    let mut hand = Hand::new(only(&[NAME]), rig);
    hand.feed(0, Input::Wake);
    let projects = |hand: &Hand| {
        let commands = hand.open.iter().flat_map(|(_, _, batch)| batch);
        commands.filter(|command| command.argv[1] == b"ff_project_flow").count()
    };
    while projects(&hand) == 0 {
        let settled = hand.carry_out().unwrap();
        hand.feed(1, settled);
    }
    hand.feed(2, Input::Drain);
    while let Some(settled) = hand.carry_out() {
        assert_eq!(hand.feed(3, settled), 0, "nothing new is sent");
    }
    assert!(hand.engine.is_drained());
    let mut rig = hand.rig;
    assert_eq!(summary(&mut rig, 1, "members_completed"), "", "it stopped in the middle");
    rig.start(only(&[NAME]));
    rig.run_for(0);
    assert_eq!(summary(&mut rig, 1, "members_completed"), "3000", "another goes on");
}

#[test]
fn more_flows_than_a_batch_poison_and_a_flow_that_cannot_be_read() {
    let mut rig = Rig::new();
    for number in 0..250 {
        by_hand(&mut rig, number, 1, 0);
    }
    rig.run(&format!("SADD {INDEX} garbage"));
    let shouted = flow(251).to_string().to_uppercase();
    rig.run(&format!("SADD {INDEX} {shouted}"));
    rig.run(&format!("SADD {INDEX} {}", flow(252)));
    rig.run(&format!("SADD {INDEX} {}", flow(253)));
    rig.run(&format!("SET {} text", of_flow(253, "core")));
    rig.start(only(&[NAME]));
    rig.run_for(0);
    assert_eq!(rig.tally(NAME).processed, 250, "all of them in one scan");
    rig.run_for(90_000);
    assert_eq!(rig.size(INDEX), 1, "only what cannot be read is left");
    let tally = rig.tally(NAME);
    assert_eq!((tally.processed, tally.poisoned), (250, 2));
    assert_eq!(tally.nothing, 1, "a flow without a record leaves");
    assert_eq!(tally.failed, 3, "and then it is left alone for a while");
    let backed_off = |fact: &Observation| matches!(fact, Observation::ItemBackedOff { .. });
    assert!(rig.facts.iter().any(|(_, fact)| backed_off(fact)));
}

#[test]
fn a_call_that_was_not_or_perhaps_applied_is_repeated() {
    let loading = || Answer::NotApplied(ServerError::from_reply("LOADING come back later"));
    for answer in [loading as fn() -> Answer, silence] {
        let mut rig = Rig::new();
        by_hand(&mut rig, 1, 2, 0);
        let mut once = true;
        rig.rule = Some(Box::new(move |command| {
            (command.argv[1] == b"ff_project_flow" && std::mem::take(&mut once)).then(answer)
        }));
        rig.start(only(&[NAME]));
        rig.run_for(0);
        assert_eq!(rig.tally(NAME).deferred, 1);
        rig.run_for(17_000);
        assert_eq!(rig.trace, ["engine-1 project_flow F1 -> finished completed 2"]);
    }
}

#[test]
fn two_engines_at_once_fold_one_summary() {
    let mut rig = Rig::new();
    by_hand(&mut rig, 1, 2_500, 1);
    rig.start(only(&[NAME]));
    rig.start(only(&[NAME]));
    rig.run_for(0);
    assert_eq!(summary(&mut rig, 1, "members_completed"), "2500");
    assert_eq!(summary(&mut rig, 1, "total_members"), "2501");
}
