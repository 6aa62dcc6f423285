use alloc::vec;

use super::*;
use crate::client::{Cancel, CancelFlow, ChangePriority, Replay};
use crate::id::FlowId;
use crate::partition::Partition;

fn record() -> Value {
    fields(&["default", "0", "", "worker"])
}

#[test]
fn a_cancel_is_filled_in_from_the_record() {
    let mut run = Run::begin(Cancel::new(execution(1), "stop".into()));
    assert_eq!(run.asks(), ["HMGET"]);
    run.reply([record()]);
    assert_eq!(run.asks(), ["cancel_execution"]);
    run.silence();
    run.wake();
    run.reply([refused(&["execution_not_active", "cancelled", "1", "terminal", "none"])]);
    assert_eq!(run.result(), Some(Ok(())), "by its first try or by another client");
}

#[test]
fn a_cancel_of_what_ended_otherwise_is_refused() {
    let mut run = Run::begin(Cancel::new(execution(1), "stop".into()));
    run.reply([record()]);
    run.reply([refused(&["execution_not_active", "success", "1", "terminal", "none"])]);
    assert!(matches!(run.result(), Some(Err(Failure::Refused(_)))));
    let mut run = Run::begin(Cancel::new(execution(1), "stop".into()));
    run.reply([Value::Array(vec![Value::Nil; 4])]);
    assert!(matches!(run.result(), Some(Err(Failure::NotFound { .. }))));
}

fn cancel_flow() -> Run<CancelFlow> {
    let flow = FlowId::from(uuid::Uuid::nil());
    Run::begin(CancelFlow::new(flow, Partition::flow(0), "stop".into()))
}

fn members(ids: &[u8]) -> Value {
    let ids: Vec<String> = ids.iter().map(|at| execution(*at).to_string()).collect();
    let words: Vec<&str> =
        ["cancel_all"].into_iter().chain(ids.iter().map(String::as_str)).collect();
    ok(&words)
}

#[test]
fn members_are_cancelled_once_each_and_silence_is_left_to_the_engine() {
    let mut run = cancel_flow();
    run.reply([members(&[1, 2, 3, 4])]);
    let gone = Value::Array(vec![Value::Nil; 4]);
    run.reply([record(), record(), record(), gone]);
    assert_eq!(run.asks(), ["cancel_execution"; 3]);
    run.settle(vec![
        Answer::Applied(ok(&["cancelled", "runnable"])),
        Answer::PerhapsApplied(ServerError::silence("cut")),
        Answer::Applied(refused(&["execution_not_active", "success", "1", "terminal", "none"])),
    ]);
    assert_eq!(run.asks(), ["ack_cancel_member"; 2], "not for the one in doubt");
    run.silence();
    let done = run.result().unwrap().unwrap();
    assert_eq!((done.cancelled, done.ended_before, done.left_to_engine), (1, 1, 2));
}

#[test]
fn the_refusal_of_a_repeat_is_compared_with_the_record() {
    for (reason, succeeds) in [("stop", true), ("another", false)] {
        let mut run = cancel_flow();
        run.silence();
        run.wake();
        run.reply([refused(&["flow_already_terminal"])]);
        assert_eq!(run.asks(), ["HMGET", "SMEMBERS"]);
        run.reply([fields(&["cancelled", reason]), fields(&[])]);
        assert_eq!(run.result().unwrap().is_ok(), succeeds, "{reason}");
    }
    let mut run = cancel_flow();
    run.reply([refused(&["flow_already_terminal"])]);
    assert!(matches!(run.result(), Some(Err(Failure::Refused(_)))), "nothing was in doubt");
}

#[test]
fn a_replay_is_not_repeated_if_it_was_applied() {
    for (replays, applied) in [("4", true), ("3", false)] {
        let mut run = Run::begin(Replay::new(execution(1)));
        run.reply([fields(&["default", "3"])]);
        assert_eq!(run.asks(), ["replay_execution"]);
        run.silence();
        run.wake();
        assert_eq!(run.asks(), ["HMGET"], "compare first");
        run.reply([fields(&["default", replays])]);
        if !applied {
            assert_eq!(run.asks(), ["replay_execution"]);
            run.reply([ok(&["0"])]);
        }
        assert_eq!(run.result(), Some(Ok(())));
    }
}

#[test]
fn a_replay_that_was_surely_not_applied_is_repeated() {
    let mut run = Run::begin(Replay::new(execution(1)));
    run.reply([fields(&["default", "3"])]);
    run.reply([Value::Error("LOADING soon".to_string())]);
    run.wake();
    assert_eq!(run.asks(), ["replay_execution"]);
    run.reply([refused(&["execution_not_terminal"])]);
    assert!(matches!(run.result(), Some(Err(Failure::Refused(_)))));
}

#[test]
fn what_was_perhaps_applied_stays_in_doubt_while_it_is_repeated() {
    let mut run = cancel_flow();
    run.silence();
    run.wake();
    run.reply([Value::Error("LOADING soon".to_string())]);
    run.wake();
    run.reply([refused(&["flow_already_terminal"])]);
    assert_eq!(run.asks(), ["HMGET", "SMEMBERS"], "the first try may have been applied");
    run.reply([fields(&["cancelled", "stop"]), fields(&[])]);
    assert!(run.result().unwrap().is_ok());
}

#[test]
fn a_priority_is_changed_in_the_lane_of_the_record() {
    let begun = || Run::begin(ChangePriority::new(execution(1), 7));
    let mut run = begun();
    run.reply([fields(&["mail"])]);
    assert_eq!(run.asks(), ["change_priority"]);
    run.reply([ok(&["0", "7"])]);
    run.result().unwrap().unwrap();
    let mut run = begun();
    run.reply([Value::Array(vec![Value::Nil])]);
    assert!(matches!(run.result(), Some(Err(Failure::NotFound { .. }))));
    let mut run = begun();
    run.reply([fields(&[""])]);
    assert!(matches!(run.result(), Some(Err(Failure::Unreadable(_)))));
}
