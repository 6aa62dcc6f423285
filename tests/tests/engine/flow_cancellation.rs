//! Cancelled flows: every pending member is cancelled, and acknowledged only then.

use selvedge_core::call::flow::{CancelFlow, CancellationPolicy};
use selvedge_core::command::Answer;
use selvedge_core::engine::{Filter, Input, Observation, ScannerName};
use selvedge_core::error::ServerError;
use selvedge_core::value::Value;
use selvedge_lua::library;
use selvedge_tests::harness::{Harness, silence};

use crate::fixtures::{ClientCalls, core, execution, only};
use crate::flow_builder::{Flows, Graph, HOME, flow, of_flow};

const NAME: ScannerName = ScannerName::CancelReconciler;
const BACKLOG: &str = "ff:idx:{fp:0}:cancel_backlog";
const CANCEL: &[u8] = b"ff_cancel_execution";

/// Cancels a flow without grace, which leaves all its members to the reconciler.
fn cancel(harness: &mut Harness, number: usize) {
    harness.fcall(&CancelFlow {
        partition: HOME,
        flow_id: flow(number),
        reason: "changed my mind".into(),
        policy: CancellationPolicy::CancelAll,
        grace_ms: Some(0),
    });
}

/// Flow 0 with members 1 to `members`, cancelled.
fn cancelling(members: usize) -> Harness {
    let mut harness = Harness::new();
    harness.submit(&Graph::new().roots(1..=members));
    cancel(&mut harness, 0);
    harness
}

fn backlog(harness: &mut Harness) -> i64 {
    match harness.call(&["ZCARD", BACKLOG]) {
        Value::Int(size) => size,
        other => panic!("{other:?}"),
    }
}

fn pending(harness: &mut Harness, number: usize) -> i64 {
    harness.size(&of_flow(number, "pending_cancels"))
}

/// Runs the scanner until one scan is over.
fn scan(harness: &mut Harness) {
    harness.start(only(&[NAME]));
    harness.run_for(0);
}

#[test]
fn members_are_cancelled_and_acknowledged() {
    let mut harness = cancelling(2);
    scan(&mut harness);
    let about: Vec<&str> =
        harness.trace.iter().map(String::as_str).filter(|line| line.contains("cancel_")).collect();
    assert_eq!(
        about,
        [
            "engine-1 cancel_execution E1 -> cancelled runnable",
            "engine-1 cancel_execution E2 -> cancelled runnable",
            "engine-1 ack_cancel_member E1 -> ",
            "engine-1 ack_cancel_member E2 -> ",
        ]
    );
    assert_eq!(harness.field(&core(&execution(1)), "cancellation_reason"), "changed my mind");
    assert_eq!((backlog(&mut harness), pending(&mut harness, 0)), (0, 0));
    assert_eq!(harness.counts(NAME).processed, 2);
}

#[test]
fn c1_a_member_that_had_ended_or_is_gone_is_acknowledged() {
    let mut harness = Harness::new();
    harness.submit(&Graph::new().roots(1..=3));
    harness.complete(1);
    cancel(&mut harness, 0);
    harness.run(&format!("DEL {}", core(&execution(2))));
    scan(&mut harness);
    assert_eq!((backlog(&mut harness), pending(&mut harness, 0)), (0, 0));
    assert_eq!((harness.state(1), harness.state(3)), ("completed".into(), "cancelled".into()));
    let counts = harness.counts(NAME);
    assert_eq!((counts.processed, counts.errors()), (3, 0));
}

#[test]
fn c2_no_member_is_acknowledged_by_a_server_without_the_library() {
    let mut harness = cancelling(3);
    let engine = harness.start(only(&[NAME]));
    harness.rule = Some(Box::new(|command| {
        let missing = || Answer::Applied(Value::Error("ERR Function not found".into()));
        (command.argv[1] == CANCEL).then(missing)
    }));
    harness.run_for(60_000);
    assert_eq!((backlog(&mut harness), pending(&mut harness, 0)), (1, 3));
    let missing = |fact: &Observation| matches!(fact, Observation::LibraryMissing { .. });
    assert!(harness.facts.iter().any(|(_, fact)| missing(fact)), "and it says so");
    harness.rule = None;
    harness.run("FUNCTION FLUSH");
    harness.run_for(60_000);
    harness.call(&["FUNCTION", "LOAD", library::SOURCE]);
    harness.tell(engine, Input::LibraryLoaded);
    assert_eq!((backlog(&mut harness), pending(&mut harness, 0)), (0, 0));
    assert_eq!(harness.state(1), "cancelled");
}

#[test]
fn c2_a_cancel_that_was_not_or_perhaps_applied_is_not_acknowledged() {
    let refusals = ["READONLY You can't write against a read only replica.", "MOVED 1 127.0.0.1:1"];
    let mut answers: Vec<Answer> =
        refusals.iter().map(|text| Answer::Applied(Value::Error((*text).into()))).collect();
    answers.push(Answer::NotApplied(ServerError::never_sent("no connection")));
    answers.push(silence());
    for answer in answers {
        let mut harness = cancelling(3);
        let said = answer.clone();
        let mut once = true;
        harness.rule = Some(Box::new(move |command| {
            (command.argv[1] == CANCEL && std::mem::take(&mut once)).then(|| said.clone())
        }));
        scan(&mut harness);
        assert_eq!((backlog(&mut harness), pending(&mut harness, 0)), (1, 1), "{answer:?}");
        assert_eq!(harness.counts(NAME).deferred, 1, "{answer:?}");
        harness.run_for(20_000);
        assert_eq!((backlog(&mut harness), pending(&mut harness, 0)), (0, 0), "{answer:?}");
    }
}

#[test]
fn c3_flows_that_cannot_be_finished_never_hide_the_next() {
    let mut harness = Harness::new();
    for n in 0..120 {
        harness.submit(&Graph::new().numbered(n).owned_by("other").roots([1_000 + n]));
        cancel(&mut harness, n);
    }
    harness.run_for(10);
    harness.submit(&Graph::new().numbered(500).owned_by("mine").roots([1]));
    cancel(&mut harness, 500);
    let filter = Filter::by_namespace("mine");
    harness.start(only(&[NAME]).with_filter(filter));
    harness.run_for(0);
    assert_eq!(harness.state(1), "cancelled");
    assert_eq!(harness.traced(&["cancel_execution"]), 1, "and the others are left alone");
    assert_eq!(backlog(&mut harness), 120);
}

#[test]
fn c3_a_member_that_fails_delays_only_itself_and_is_backed_off() {
    let mut harness = cancelling(150);
    harness.run(&format!("DEL {}", core(&execution(7))));
    harness.run(&format!("SET {} text", core(&execution(7))));
    harness.start(only(&[NAME]));
    harness.run_for(0);
    assert_eq!(pending(&mut harness, 0), 1, "only the broken one is left");
    harness.run_for(120_000);
    let counts = harness.counts(NAME);
    assert_eq!(counts.failed + counts.refused, 3, "{counts:?}");
    assert!(counts.skipped >= 4, "{counts:?}");
}

#[test]
fn c4_members_of_a_flow_whose_record_is_gone_are_cancelled_all_the_same() {
    let mut harness = cancelling(2);
    harness.run(&format!("DEL {}", of_flow(0, "core")));
    scan(&mut harness);
    assert_eq!((harness.state(1), harness.state(2)), ("cancelled".into(), "cancelled".into()));
    assert_eq!(harness.field(&core(&execution(1)), "cancellation_reason"), "flow_cancelled");
    assert_eq!(backlog(&mut harness), 0);
}

#[test]
fn c5_a_large_flow_costs_three_commands_a_member_and_few_round_trips() {
    let mut harness = cancelling(1_000);
    harness.run("DEL ff:idx:{fp:0}:all_executions");
    harness.start(only(&[NAME]));
    harness.run_for(0);
    println!("1,000 members: {} commands in {} round trips", harness.commands, harness.batches);
    assert_eq!(backlog(&mut harness), 0);
    assert!(harness.commands <= 3_100, "{}", harness.commands);
    assert!(harness.batches <= 100, "{}", harness.batches);
}

#[test]
fn an_empty_page_is_not_the_end_of_the_members() {
    let mut harness = cancelling(1);
    let key = of_flow(0, "pending_cancels");
    harness.rule = Some(Box::new(move |command| {
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
    scan(&mut harness);
    assert_eq!((harness.state(1), backlog(&mut harness)), ("cancelled".into(), 0));
}

#[test]
fn a_member_of_another_partition_is_acknowledged_where_its_flow_lives() {
    let mut harness = cancelling(1);
    let stray = "{fp:0}:00000000-0000-4000-8000-000000000009".replace("fp:0", "fp:5");
    harness.run(&format!("SADD {} {stray}", of_flow(0, "pending_cancels")));
    scan(&mut harness);
    assert_eq!((backlog(&mut harness), pending(&mut harness, 0)), (0, 0), "{:#?}", harness.trace);
}

#[test]
fn unreadable_entries_are_set_aside_and_an_empty_flow_leaves() {
    let mut harness = cancelling(2);
    harness.run(&format!("SADD {} garbage", of_flow(0, "pending_cancels")));
    harness.run(&format!("ZADD {BACKLOG} 1 nonsense"));
    harness.run(&format!("ZADD {BACKLOG} 1 {}", flow(9)));
    scan(&mut harness);
    harness.run_for(17_000);
    assert_eq!((backlog(&mut harness), pending(&mut harness, 0)), (0, 0));
    let aside =
        [format!("{BACKLOG} nonsense"), format!("{} garbage", of_flow(0, "pending_cancels"))]
            .map(|entry| harness.field("ff:aside:{fp:0}", &entry));
    assert_eq!(aside, ["not a flow id", "not an execution id"]);
}

#[test]
fn more_flows_than_a_batch_are_all_served_in_one_scan() {
    let mut harness = Harness::new();
    for n in 0..130 {
        harness.submit(&Graph::new().numbered(n).roots([n]));
        cancel(&mut harness, n);
    }
    scan(&mut harness);
    assert_eq!(backlog(&mut harness), 0);
    assert_eq!(harness.counts(NAME).processed, 130);
}

#[test]
fn a_lost_acknowledgement_cancels_no_member_twice() {
    let mut harness = cancelling(3);
    let mut once = true;
    harness.reply_lost = Some(Box::new(move |command| {
        let cancels = [CANCEL, b"ff_ack_cancel_member"].contains(&command.argv[1].as_slice());
        cancels && std::mem::take(&mut once)
    }));
    harness.start(only(&[NAME]));
    harness.run_for(20_000);
    assert_eq!(harness.traced(&["cancel_execution", "-> cancelled"]), 3);
    assert_eq!((backlog(&mut harness), pending(&mut harness, 0)), (0, 0));
}

#[test]
fn two_engines_at_once_cancel_every_member_once() {
    let mut harness = cancelling(30);
    harness.start(only(&[NAME]));
    harness.start(only(&[NAME]));
    harness.run_for(20_000);
    assert_eq!(harness.traced(&["cancel_execution", "-> cancelled"]), 30);
    assert_eq!((backlog(&mut harness), pending(&mut harness, 0)), (0, 0));
}

#[test]
fn the_backlog_gauge_is_the_sum_of_a_complete_sample() {
    let mut harness = cancelling(1);
    harness.run(&format!("ZADD {BACKLOG} 9999999999999 {}", flow(9)));
    scan(&mut harness);
    let gauges: Vec<&Observation> = harness
        .facts
        .iter()
        .map(|(_, fact)| fact)
        .filter(|fact| matches!(fact, Observation::CancelBacklog(_)))
        .collect();
    assert_eq!(gauges, [&Observation::CancelBacklog(2)]);
}
