//! Cancelled flows: every member that is owed its cancel gets it, and is acknowledged only then.

use selvedge_core::call::flow::{CancelFlow, CancellationPolicy};
use selvedge_core::engine::{Answer, EngineConfig, Filter, Input, Observation, ScannerName};
use selvedge_core::error::ServerError;
use selvedge_core::value::Value;
use selvedge_lua::library;
use selvedge_tests::rig::{Rig, silence};

use crate::flows::{Flows, Graph, HOME, flow, of_flow};
use crate::kit::{World, core, execution, only};

const NAME: ScannerName = ScannerName::CancelReconciler;
const BACKLOG: &str = "ff:idx:{fp:0}:cancel_backlog";
const CANCEL: &[u8] = b"ff_cancel_execution";

/// Cancels a flow without grace: the reconciler owes all its members their cancel.
fn cancel(rig: &mut Rig, number: usize) {
    rig.fcall(&CancelFlow {
        partition: HOME,
        flow_id: flow(number),
        reason: "changed my mind".into(),
        policy: CancellationPolicy::CancelAll,
        grace_ms: Some(0),
    });
}

/// Flow 0 with members 1 to `members`, cancelled.
fn owing(members: usize) -> Rig {
    let mut rig = Rig::new();
    rig.submit(&Graph::new().roots(1..=members));
    cancel(&mut rig, 0);
    rig
}

fn backlog(rig: &mut Rig) -> i64 {
    match rig.call(&["ZCARD", BACKLOG]) {
        Value::Int(size) => size,
        other => panic!("{other:?}"),
    }
}

fn pending(rig: &mut Rig, number: usize) -> i64 {
    rig.size(&of_flow(number, "pending_cancels"))
}

/// Runs the scanner until one scan is over.
fn scan(rig: &mut Rig) {
    rig.start(only(&[NAME]));
    rig.run_for(0);
}

#[test]
fn members_are_cancelled_and_acknowledged() {
    let mut rig = owing(2);
    scan(&mut rig);
    let about: Vec<&str> =
        rig.trace.iter().map(String::as_str).filter(|line| line.contains("cancel_")).collect();
    assert_eq!(
        about,
        [
            "engine-1 cancel_execution E1 -> cancelled runnable",
            "engine-1 cancel_execution E2 -> cancelled runnable",
            "engine-1 ack_cancel_member E1 -> ",
            "engine-1 ack_cancel_member E2 -> ",
        ]
    );
    assert_eq!(rig.field(&core(&execution(1)), "cancellation_reason"), "changed my mind");
    assert_eq!((backlog(&mut rig), pending(&mut rig, 0)), (0, 0));
    assert_eq!(rig.tally(NAME).processed, 2);
}

#[test]
fn c1_a_member_that_had_ended_or_is_gone_is_acknowledged() {
    let mut rig = Rig::new();
    rig.submit(&Graph::new().roots(1..=3));
    rig.complete(1);
    cancel(&mut rig, 0);
    rig.run(&format!("DEL {}", core(&execution(2))));
    scan(&mut rig);
    assert_eq!((backlog(&mut rig), pending(&mut rig, 0)), (0, 0));
    assert_eq!((rig.state(1), rig.state(3)), ("completed".into(), "cancelled".into()));
    let tally = rig.tally(NAME);
    assert_eq!((tally.processed, tally.errors()), (3, 0));
}

#[test]
fn c2_nobody_is_acknowledged_by_a_server_without_the_library() {
    let mut rig = owing(3);
    let engine = rig.start(only(&[NAME]));
    rig.rule = Some(Box::new(|command| {
        let missing = || Answer::Applied(Value::Error("ERR Function not found".into()));
        (command.argv[1] == CANCEL).then(missing)
    }));
    rig.run_for(60_000);
    assert_eq!((backlog(&mut rig), pending(&mut rig, 0)), (1, 3));
    let missing = |fact: &Observation| matches!(fact, Observation::LibraryMissing { .. });
    assert!(rig.facts.iter().any(|(_, fact)| missing(fact)), "and it says so");
    rig.rule = None;
    rig.run("FUNCTION FLUSH");
    rig.run_for(60_000);
    rig.call(&["FUNCTION", "LOAD", library::SOURCE]);
    rig.tell(engine, Input::LibraryLoaded);
    assert_eq!((backlog(&mut rig), pending(&mut rig, 0)), (0, 0));
    assert_eq!(rig.state(1), "cancelled");
}

#[test]
fn c2_a_cancel_that_was_not_or_perhaps_applied_is_not_acknowledged() {
    let refusals = ["READONLY You can't write against a read only replica.", "MOVED 1 127.0.0.1:1"];
    let mut answers: Vec<Answer> =
        refusals.iter().map(|text| Answer::Applied(Value::Error((*text).into()))).collect();
    answers.push(Answer::NotApplied(ServerError::never_sent("no connection")));
    answers.push(silence());
    for answer in answers {
        let mut rig = owing(3);
        let said = answer.clone();
        let mut once = true;
        rig.rule = Some(Box::new(move |command| {
            (command.argv[1] == CANCEL && std::mem::take(&mut once)).then(|| said.clone())
        }));
        scan(&mut rig);
        assert_eq!((backlog(&mut rig), pending(&mut rig, 0)), (1, 1), "{answer:?}");
        assert_eq!(rig.tally(NAME).deferred, 1, "{answer:?}");
        rig.run_for(20_000);
        assert_eq!((backlog(&mut rig), pending(&mut rig, 0)), (0, 0), "{answer:?}");
    }
}

#[test]
fn c3_flows_that_cannot_be_finished_never_hide_the_next() {
    let mut rig = Rig::new();
    for n in 0..120 {
        rig.submit(&Graph::new().numbered(n).owned_by("other").roots([1_000 + n]));
        cancel(&mut rig, n);
    }
    rig.run_for(10);
    rig.submit(&Graph::new().numbered(500).owned_by("mine").roots([1]));
    cancel(&mut rig, 500);
    let filter = Filter { namespace: Some("mine".into()), instance_tag: None };
    rig.start(EngineConfig { filter, ..only(&[NAME]) });
    rig.run_for(0);
    assert_eq!(rig.state(1), "cancelled");
    assert_eq!(rig.traced(&["cancel_execution"]), 1, "and the others are left alone");
    assert_eq!(backlog(&mut rig), 120);
}

#[test]
fn c3_a_member_that_fails_holds_back_only_itself_and_is_left_alone_for_a_while() {
    let mut rig = owing(150);
    rig.run(&format!("DEL {}", core(&execution(7))));
    rig.run(&format!("SET {} text", core(&execution(7))));
    rig.start(only(&[NAME]));
    rig.run_for(0);
    assert_eq!(pending(&mut rig, 0), 1, "only the broken one is left");
    rig.run_for(120_000);
    let tally = rig.tally(NAME);
    assert_eq!(tally.failed + tally.refused, 3, "{tally:?}");
    assert!(tally.skipped >= 4, "{tally:?}");
}

#[test]
fn c4_members_of_a_flow_whose_record_is_gone_are_cancelled_all_the_same() {
    let mut rig = owing(2);
    rig.run(&format!("DEL {}", of_flow(0, "core")));
    scan(&mut rig);
    assert_eq!((rig.state(1), rig.state(2)), ("cancelled".into(), "cancelled".into()));
    assert_eq!(rig.field(&core(&execution(1)), "cancellation_reason"), "flow_cancelled");
    assert_eq!(backlog(&mut rig), 0);
}

#[test]
fn c5_a_large_flow_costs_three_commands_a_member_and_few_round_trips() {
    let mut rig = owing(1_000);
    rig.run("DEL ff:idx:{fp:0}:all_executions");
    rig.start(only(&[NAME]));
    rig.run_for(0);
    println!("1,000 members: {} commands in {} round trips", rig.commands, rig.batches);
    assert_eq!(backlog(&mut rig), 0);
    assert!(rig.commands <= 3_100, "{}", rig.commands);
    assert!(rig.batches <= 100, "{}", rig.batches);
}

#[test]
fn an_empty_page_is_not_the_end_of_the_members() {
    let mut rig = owing(1);
    let key = of_flow(0, "pending_cancels");
    rig.rule = Some(Box::new(move |command| {
        let word = |at: usize| command.argv.get(at).map(Vec::as_slice).unwrap_or_default();
        if word(0) != b"SSCAN" || word(1) != key.as_bytes() {
            return None;
        }
        let text = |text: &str| Value::Bulk(text.into());
        let (cursor, page) = match word(2) {
            b"0" => ("7", Vec::new()),
            _ => ("0", vec![text(&execution(1))]),
        };
        Some(Answer::Applied(Value::Array(vec![text(cursor), Value::Array(page)])))
    }));
    scan(&mut rig);
    assert_eq!((rig.state(1), backlog(&mut rig)), ("cancelled".into(), 0));
}

#[test]
fn a_member_of_another_partition_is_acknowledged_where_its_flow_lives() {
    let mut rig = owing(1);
    let stray = "{fp:0}:00000000-0000-4000-8000-000000000009".replace("fp:0", "fp:5");
    rig.run(&format!("SADD {} {stray}", of_flow(0, "pending_cancels")));
    scan(&mut rig);
    assert_eq!((backlog(&mut rig), pending(&mut rig, 0)), (0, 0), "{:#?}", rig.trace);
}

#[test]
fn poison_is_set_aside_and_an_empty_flow_leaves() {
    let mut rig = owing(2);
    rig.run(&format!("SADD {} garbage", of_flow(0, "pending_cancels")));
    rig.run(&format!("ZADD {BACKLOG} 1 nonsense"));
    rig.run(&format!("ZADD {BACKLOG} 1 {}", flow(9)));
    scan(&mut rig);
    rig.run_for(17_000);
    assert_eq!((backlog(&mut rig), pending(&mut rig, 0)), (0, 0));
    let aside =
        [format!("{BACKLOG} nonsense"), format!("{} garbage", of_flow(0, "pending_cancels"))]
            .map(|entry| rig.field("ff:aside:{fp:0}", &entry));
    assert_eq!(aside, ["not a flow id", "not an execution id"]);
}

#[test]
fn more_flows_than_a_batch_are_all_served_in_one_scan() {
    let mut rig = Rig::new();
    for n in 0..130 {
        rig.submit(&Graph::new().numbered(n).roots([n]));
        cancel(&mut rig, n);
    }
    scan(&mut rig);
    assert_eq!(backlog(&mut rig), 0);
    assert_eq!(rig.tally(NAME).processed, 130);
}

#[test]
fn a_lost_acknowledgement_cancels_nobody_twice() {
    let mut rig = owing(3);
    let mut once = true;
    rig.reply_lost = Some(Box::new(move |command| {
        let cancels = [CANCEL, b"ff_ack_cancel_member"].contains(&command.argv[1].as_slice());
        cancels && std::mem::take(&mut once)
    }));
    rig.start(only(&[NAME]));
    rig.run_for(20_000);
    assert_eq!(rig.traced(&["cancel_execution", "-> cancelled"]), 3);
    assert_eq!((backlog(&mut rig), pending(&mut rig, 0)), (0, 0));
}

#[test]
fn two_engines_at_once_cancel_every_member_once() {
    let mut rig = owing(30);
    rig.start(only(&[NAME]));
    rig.start(only(&[NAME]));
    rig.run_for(20_000);
    assert_eq!(rig.traced(&["cancel_execution", "-> cancelled"]), 30);
    assert_eq!((backlog(&mut rig), pending(&mut rig, 0)), (0, 0));
}

#[test]
fn the_backlog_gauge_is_the_sum_of_a_complete_sample() {
    let mut rig = owing(1);
    rig.run(&format!("ZADD {BACKLOG} 9999999999999 {}", flow(9)));
    scan(&mut rig);
    let gauges: Vec<&Observation> = rig
        .facts
        .iter()
        .map(|(_, fact)| fact)
        .filter(|fact| matches!(fact, Observation::CancelBacklog(_)))
        .collect();
    assert_eq!(gauges, [&Observation::CancelBacklog(2)]);
}
