use alloc::vec;

use super::*;
use crate::client::{NextFrames, TailPosition, Wait, WaitFlow};
use crate::id::{AttemptIndex, FlowId};
use crate::partition::Partition;
use crate::push::Hint;
use crate::state::TerminalOutcome;

fn ended(at: u8) -> Input {
    Input::Push(Hint::Ended(execution(at)))
}

fn waits() -> [Value; 2] {
    [fields(&["none", "", ""]), Value::Nil]
}

fn is_over() -> [Value; 2] {
    [fields(&["success", "", ""]), bulk("result")]
}

#[test]
fn it_subscribes_before_it_reads() {
    let run = Run::begin(Wait::new(execution(1)));
    assert_eq!(run.listens, [execution(1)]);
    assert_eq!(run.asks(), ["HMGET", "GET"]);
}

#[test]
fn an_end_between_subscription_and_first_read_is_noticed() {
    for input in [ended(1), Input::PushGap] {
        let mut run = Run::begin(Wait::new(execution(1)));
        // The read was answered before the end, and arrives after the push.
        run.feed(input);
        run.reply(waits());
        assert_eq!(run.asks(), ["HMGET", "GET"], "read again at once");
        run.reply(is_over());
        let outcome = run.result().unwrap().unwrap();
        assert!(outcome.is_success());
        assert_eq!(outcome.result, b"result");
    }
}

#[test]
fn it_reads_after_its_push_after_a_gap_and_after_a_while_and_not_for_others() {
    let mut run = Run::begin(Wait::new(execution(1)));
    run.reply(waits());
    run.feed(ended(2));
    assert!(run.open.is_empty(), "not its execution");
    run.feed(ended(1));
    run.reply(waits());
    run.feed(Input::PushGap);
    run.reply(waits());
    let since = run.now;
    run.wake();
    assert_eq!(run.now, since.after(Wait::POLL_EVERY));
    run.reply(is_over());
    assert!(run.result().is_some());
}

#[test]
fn a_push_during_a_pause_is_not_forgotten() {
    let mut run = Run::begin(Wait::new(execution(1)));
    run.silence();
    run.feed(ended(1));
    run.wake();
    run.reply(waits());
    assert_eq!(run.asks(), ["HMGET", "GET"]);
}

#[test]
fn what_does_not_exist_is_not_waited_for() {
    let mut run = Run::begin(Wait::new(execution(1)));
    run.reply([Value::Array(vec![Value::Nil; 3]), Value::Nil]);
    assert!(matches!(run.result(), Some(Err(Failure::NotFound { kind: "execution", .. }))));
}

fn flow() -> Run<WaitFlow> {
    Run::begin(WaitFlow::new(FlowId::from(uuid::Uuid::nil()), Partition::flow(0)))
}

fn page(next: &str, members: &[u8]) -> [Value; 3] {
    let ids = members.iter().map(|at| bulk(&execution(*at).to_string())).collect();
    [Value::Int(1), Value::Int(2), Value::Array(vec![bulk(next), Value::Array(ids)])]
}

#[test]
fn a_flow_has_ended_when_all_its_members_have() {
    let mut run = flow();
    run.reply(page("17", &[1]));
    run.reply(page("0", &[2, 1]));
    assert_eq!(run.listens, [execution(1), execution(2)]);
    run.reply([Value::Int(2), fields(&["success"]), fields(&["none"])]);
    assert!(run.open.is_empty());
    run.feed(ended(2));
    assert!(run.open.is_empty(), "others may end in the same moment");
    run.wake();
    assert_eq!(run.asks(), ["SCARD", "HMGET"], "the first is known");
    run.reply([Value::Int(2), fields(&["failed"])]);
    let outcome = run.result().unwrap().unwrap();
    assert_eq!(outcome.count(TerminalOutcome::Failed), 1);
    assert!(!outcome.is_success());
}

#[test]
fn members_that_come_while_it_waits_are_waited_for() {
    let mut run = flow();
    run.reply(page("0", &[1, 2]));
    run.reply([Value::Int(3), fields(&["success"]), fields(&["success"])]);
    assert_eq!(run.asks(), ["EXISTS", "SCARD", "SSCAN"]);
    let mut more = page("0", &[1, 2, 3]);
    more[1] = Value::Int(3);
    run.reply(more);
    assert_eq!(run.listens, [execution(3)]);
    run.reply([Value::Int(3), Value::Array(vec![Value::Nil])]);
    let outcome = run.result().unwrap().unwrap();
    assert_eq!(outcome.tasks.len(), 2, "the third was deleted");
}

#[test]
fn a_push_for_a_member_that_was_just_read_is_not_forgotten() {
    let mut run = flow();
    run.reply(page("0", &[1, 2]));
    run.feed(ended(1));
    run.reply([Value::Int(2), fields(&["none"]), fields(&["none"])]);
    run.wake();
    assert!(run.now < LocalTime(2_000), "soon, not with the next poll: {:?}", run.now);
    assert_eq!(run.asks(), ["SCARD", "HMGET", "HMGET"]);
}

fn frames(ids: &[&str], closed: &str) -> Value {
    let entry = |id: &&str| Value::Array(vec![bulk(id), fields(&["payload", "x"])]);
    let entries = Value::Array(ids.iter().map(entry).collect());
    Value::Array(vec![Value::Int(1), bulk("OK"), entries, bulk(closed), bulk(closed)])
}

#[test]
fn frames_are_read_at_once_and_then_after_each_push() {
    let mut position = TailPosition::start(execution(1), AttemptIndex(0));
    let mut run = Run::begin(NextFrames::new(&mut position));
    assert_eq!(run.asks(), ["read_attempt_stream"]);
    // More is written while the first page is on its way.
    run.feed(Input::Push(Hint::Frames(execution(1), AttemptIndex(0))));
    run.reply([frames(&["1-0"], "")]);
    assert_eq!(run.result().unwrap().unwrap().unwrap().len(), 1);
    let mut run = Run::begin(NextFrames::new(&mut position));
    assert_eq!(run.asks(), ["read_attempt_stream"], "without another push");
    run.reply([frames(&[], "")]);
    run.reply([fields(&["none", "0"])]);
    assert!(run.open.is_empty());
    run.feed(Input::PushGap);
    run.reply([frames(&[], "")]);
    run.reply([fields(&["success", "0"])]);
    assert_eq!(run.asks(), ["read_attempt_stream"], "once more after its end");
    run.reply([frames(&["2-0"], "")]);
    assert_eq!(run.result().unwrap().unwrap().unwrap()[0].entry_id, "2-0");
    let mut run = Run::begin(NextFrames::new(&mut position));
    assert!(run.result().unwrap().unwrap().is_none());
}

#[test]
fn an_unknown_outcome_is_an_error_and_not_waited_for() {
    let mut one = Run::begin(Wait::new(execution(1)));
    one.reply([fields(&["added_later", "", ""]), Value::Nil]);
    let mut all = flow();
    all.reply(page("0", &[1, 2]));
    all.reply([Value::Int(2), fields(&["none"]), fields(&["added_later"])]);
    for failure in [one.result().unwrap().unwrap_err(), all.result().unwrap().unwrap_err()] {
        assert!(failure.to_string().contains("an outcome"), "{failure}");
        assert!(matches!(failure, Failure::Unreadable(_)), "{failure:?}");
    }
}
