use super::*;
use crate::lane_state::LaneStates;

fn states(words: &[&str]) -> Value {
    Value::Array(words.iter().map(|word| bulk(word)).collect())
}

/// An operator sets the state of the lane, and a push says so.
fn set(bench: &mut Bench, words: &[&str]) {
    bench.feed(Input::LaneChanged("default".parse().unwrap()));
    bench.answer("HGETALL", |_| states(words));
}

const PAUSED: [&str; 2] = ["default", "paused 1"];

#[test]
fn nothing_is_claimed_from_a_paused_lane_until_it_is_resumed() {
    let mut bench = Bench::new(2, 4);
    set(&mut bench, &PAUSED);
    bench.ready(0);
    bench.pass(60_000);
    assert!(!bench.is_sent("claim_many"));
    let paused = |fact: &Observation| matches!(fact, Observation::LanePaused { .. });
    assert!(bench.observed(paused));
    bench.answer_all("HGETALL", |_| states(&PAUSED));
    set(&mut bench, &[]);
    assert!(bench.is_sent("claim_many"), "what became ready meanwhile");
}

#[test]
fn a_pause_is_found_without_a_push_and_a_lost_reply_changes_nothing() {
    let mut bench = Bench::new(1, 4);
    let every = u64::try_from(LaneStates::FRESH_FOR.as_millis()).unwrap();
    bench.pass(every);
    bench.answer("HGETALL", |_| states(&PAUSED));
    bench.pass(every);
    bench.lose("HGETALL");
    bench.ready(0);
    assert!(!bench.is_sent("claim_many"));
}

#[test]
fn a_change_during_a_read_is_read_again() {
    let mut bench = Bench::new(1, 4);
    bench.feed(Input::PushGap);
    bench.feed(Input::LaneChanged("default".parse().unwrap()));
    bench.answer("HGETALL", |_| states(&[]));
    bench.answer("HGETALL", |_| states(&PAUSED));
    bench.answer_all("ZCARD", |_| Value::Int(0));
    bench.ready(0);
    assert!(!bench.is_sent("claim_many"));
}

#[test]
fn what_runs_in_a_paused_lane_ends_and_the_report_claims_nothing() {
    let mut bench = Bench::new(1, 1);
    let lease = bench.start(0, "");
    set(&mut bench, &PAUSED);
    bench.ready(0);
    bench.end(lease, HandlerOutcome::Completed(vec![]));
    assert!(!bench.is_sent("end_and_claim"));
    bench.answer("complete_execution", |_| ok(&["completed"]));
    assert_eq!(bench.outcomes(), [AttemptOutcome::Ok]);
    assert!(!bench.is_sent("claim_many"));
}

#[test]
fn an_admitted_execution_of_a_paused_lane_gives_its_slot_back() {
    let mut bench = Bench::new(1, 1);
    bench.ready(0);
    let needs = ok(&["needs_admission", &execution(0), "", QUOTA]);
    bench.answer("claim_many", |_| needs.clone());
    // Its terms, and the time.
    bench.answer("HMGET", |command| match is(command, "HMGET") {
        true => Value::Array(["1", "60", "1", "0"].map(bulk).into()),
        false => time(),
    });
    // Behind the candidate is no other.
    bench.answer_all("claim_many", |_| ok(&["empty"]));
    set(&mut bench, &PAUSED);
    bench.answer("check_admission_and_record", |_| Value::Array(vec![bulk("ADMITTED")]));
    assert!(!bench.is_sent("claim_many"));
    assert!(bench.is_sent("HMGET"), "whether the slot is needed is asked first");
}
