use super::*;

fn vector(words: &str) -> StateVector {
    let words: alloc::vec::Vec<&str> = words.split('/').collect();
    StateVector::read(words.try_into().unwrap()).unwrap()
}

const WAITING: &str =
    "runnable/unowned/eligible_now/waiting_for_worker/none/pending_first_attempt/waiting";
const RUNNING: &str = "active/leased/not_applicable/none/none/running_attempt/active";
const DONE: &str = "terminal/unowned/not_applicable/none/success/attempt_terminal/completed";

#[test]
fn the_life_of_an_execution_is_legal() {
    let life = [WAITING, RUNNING, DONE].map(vector);
    assert_eq!(transition(None, &life[0]).unwrap().event, Event::Create);
    assert_eq!(transition(Some(&life[0]), &life[1]).unwrap().event, Event::Claim);
    assert_eq!(transition(Some(&life[1]), &life[2]).unwrap().event, Event::Complete);
    for step in &life {
        assert!(is_legal(step), "{step:?}");
        assert_eq!(step.public, step.derived_public());
    }
}

#[test]
fn terminal_is_final_but_for_replay() {
    let replayed = vector(
        "runnable/unowned/eligible_now/waiting_for_worker/none/pending_replay_attempt/waiting",
    );
    assert_eq!(transition(Some(&vector(DONE)), &replayed).unwrap().event, Event::Replay);
    assert!(transition(Some(&vector(DONE)), &vector(RUNNING)).is_none());
    assert!(transition(Some(&vector(DONE)), &vector(WAITING)).is_none());
}

#[test]
fn what_is_kept_must_be_the_same() {
    let delayed = vector(
        "runnable/unowned/not_eligible_until_time/waiting_for_retry_backoff/none/pending_retry_attempt/delayed",
    );
    let promoted = vector(
        "runnable/unowned/eligible_now/waiting_for_worker/none/pending_retry_attempt/waiting",
    );
    assert_eq!(transition(Some(&delayed), &promoted).unwrap().event, Event::Promote);
    assert!(transition(Some(&delayed), &vector(WAITING)).is_none());
}

#[test]
fn mixed_vectors_are_not_legal() {
    for words in [
        "runnable/leased/eligible_now/waiting_for_worker/none/pending_first_attempt/waiting",
        "active/leased/not_applicable/none/none/pending_first_attempt/active",
        "terminal/unowned/not_applicable/none/none/attempt_terminal/failed",
        "terminal/unowned/not_applicable/none/success/attempt_terminal/failed",
        "submitted/unowned/eligible_now/waiting_for_worker/none/pending_first_attempt/waiting",
    ] {
        assert!(!is_legal(&vector(words)), "{words}");
    }
}

#[test]
fn every_event_has_a_row() {
    for event in Event::ALL {
        assert!(TRANSITIONS.iter().any(|row| row.event == *event), "{event}");
    }
}
