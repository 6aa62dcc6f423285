use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::call::library::Version;
use crate::client::{Call, Read, ReadTime};
use crate::key::Key;
use crate::time::ServerTime;

fn get(id: &ExecutionId) -> Command {
    Command::read("GET", &Key::execution(id).result(), &[])
}

#[test]
fn a_call_is_repeated_with_the_same_words_until_it_is_answered() {
    let mut run = Run::begin(Call::new(&Version));
    let first = run.open[0].1.clone();
    run.silence();
    assert!(run.open.is_empty(), "there is a pause first");
    run.feed(Input::Wake);
    assert!(run.open.is_empty(), "woken early");
    run.wake();
    assert_eq!(run.open[0].1, first);
    run.reply([Value::Error("LOADING soon".to_string())]);
    run.wake();
    run.reply([bulk("34")]);
    assert_eq!(run.result(), Some(Ok("34".to_string())));
    assert_eq!(run.machine.deadline(), None);
}

#[test]
fn only_what_was_not_answered_is_repeated() {
    let reads: Vec<Command> = [1, 2, 3].iter().map(|at| get(&execution(*at))).collect();
    let mut run = Run::begin(Read::new(reads.clone()));
    let silent = Answer::PerhapsApplied(ServerError::silence("cut"));
    run.settle(vec![Answer::Applied(bulk("a")), silent, Answer::Applied(bulk("c"))]);
    run.wake();
    assert_eq!(run.open[0].1, [reads[1].clone()]);
    run.reply([bulk("b")]);
    assert_eq!(run.result(), Some(Ok(vec![bulk("a"), bulk("b"), bulk("c")])));
}

#[test]
fn a_batch_without_answers_in_time_is_repeated_and_a_late_answer_ignored() {
    let mut run = Run::begin(Call::new(&Version));
    let (late, _) = run.open.pop_front().unwrap();
    run.wake();
    assert!(run.open.is_empty());
    run.wake();
    run.feed(Input::Settled { ticket: late, answers: vec![Answer::Applied(bulk("old"))] });
    assert_eq!(run.result(), None);
    run.reply([bulk("34")]);
    assert_eq!(run.result(), Some(Ok("34".to_string())));
}

#[test]
fn it_gives_up_when_the_time_is_over_and_at_errors_that_do_not_pass() {
    let mut run = Run::begin(Call::new(&Version));
    let mut tries = 0;
    while run.result().is_none() {
        run.silence();
        tries += 1;
        if run.machine.deadline().is_none() {
            break;
        }
        run.wake();
    }
    assert!(tries > 10 && run.now <= LocalTime(16_000), "{tries} {:?}", run.now);
    let mut run = Run::begin(Call::new(&Version));
    run.reply([Value::Error("NOAUTH no".to_string())]);
    assert!(matches!(run.result(), Some(Err(Failure::Unavailable(_)))));
}

#[test]
fn nothing_to_read_needs_no_round_trip() {
    let mut run = Run::begin(Read::new(Vec::new()));
    assert_eq!(run.result(), Some(Ok(Vec::new())));
}

#[test]
fn the_time_of_a_server_is_read_in_milliseconds() {
    let mut run = Run::begin(ReadTime { slot: 3 });
    assert_eq!(run.open[0].1[0].slot, 3);
    run.reply([fields(&["1700000000", "123456"])]);
    assert_eq!(run.result(), Some(Ok(ServerTime(1_700_000_000_123))));
    let mut run = Run::begin(ReadTime { slot: 3 });
    run.reply([fields(&["soon", "1"])]);
    assert!(matches!(run.result(), Some(Err(Failure::Unreadable(_)))));
}

#[test]
fn the_same_seed_and_inputs_give_the_same_pauses() {
    let pauses = |seed: u64| {
        let mut machine = Machine::new(Call::new(&Version), Settings::default(), seed);
        machine.handle(LocalTime(0), Input::Wake);
        let mut pauses = Vec::new();
        for _ in 0..6 {
            let Some(Effect::Send { ticket, .. }) = machine.next_effect() else { panic!() };
            machine.handle(LocalTime(0), Input::Settled { ticket, answers: Vec::new() });
            let at = machine.deadline().unwrap();
            pauses.push(at);
            machine.handle(at, Input::Wake);
        }
        pauses
    };
    assert_eq!(pauses(5), pauses(5));
    assert_ne!(pauses(5), pauses(6));
}
