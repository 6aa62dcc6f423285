use alloc::vec;

use super::*;
use crate::client::{ForgetLane, LaneForgotten, Needs, RegisterLanes, Submit};
use crate::id::LaneId;
use crate::partition::PartitionCounts;

use super::submit::flow;

fn needs() -> Needs {
    Needs { lanes: vec![LaneId::default_lane()], ..Needs::counts(counts(), true) }
}

fn counts() -> PartitionCounts {
    PartitionCounts { flow: 2.try_into().unwrap(), ..PartitionCounts::DEFAULT }
}

/// Answers everything that is open: states with this one, sizes with this number, the rest with 1.
fn answer<P: Procedure>(run: &mut Run<P>, state: &str, size: i64) {
    for _ in 0..run.open.len() {
        let asks = run.asks();
        let replies = asks.iter().map(|name| match name.as_str() {
            "HMGET" => Value::Array(vec![bulk(state)]),
            "ZCARD" => Value::Int(size),
            "set_lane_state" => ok(&["changed", "paused"]),
            _ => Value::Int(1),
        });
        run.reply(replies.collect::<alloc::vec::Vec<_>>());
    }
}

#[test]
fn nothing_is_submitted_to_a_lane_that_is_being_drained() {
    let mut run = Run::begin(Submit::new(needs(), flow(1, 10)));
    answer(&mut run, "draining 5", 0);
    let lane = LaneId::default_lane();
    assert_eq!(run.result(), Some(Err(Failure::LaneDraining { lane })));
    assert!(run.open.is_empty());

    let mut run = Run::begin(Submit::new(needs(), flow(1, 10)));
    answer(&mut run, "paused 5", 0);
    assert_eq!(run.asks(), ["submit_flow"], "a paused lane accepts work");

    let mut run = Run::begin(RegisterLanes::new(needs()));
    answer(&mut run, "draining 5", 0);
    assert_eq!(run.result(), Some(Ok(())), "a worker may serve it");
}

fn forget(first: i64, listed: bool, second: i64) -> (LaneForgotten, bool) {
    let mut run = Run::begin(ForgetLane::new(LaneId::default_lane(), counts()));
    answer(&mut run, "", first);
    let mut is_restored = false;
    if run.machine.deadline().is_some() && !run.open.is_empty() {
        answer(&mut run, "", 0);
        run.wake();
        while !run.open.is_empty() {
            is_restored |= run.asks() == ["SADD"];
            let asks = run.asks();
            let replies = asks.iter().map(|name| match name.as_str() {
                "ZCARD" => Value::Int(second),
                _ => Value::Int(i64::from(listed)),
            });
            run.reply(replies.collect::<alloc::vec::Vec<_>>());
        }
    }
    (run.result().expect("it ended").expect("it was answered"), is_restored)
}

#[test]
fn a_lane_is_forgotten_only_when_nothing_is_in_it_and_nothing_came() {
    assert_eq!(forget(0, false, 0), (LaneForgotten::Forgotten, false));
    assert_eq!(forget(0, true, 0), (LaneForgotten::Returned, false));
    // Ten indexes in each of two partitions.
    assert!(matches!(forget(1, true, 0), (LaneForgotten::InUse(20), false)));
    assert!(matches!(forget(0, false, 1), (LaneForgotten::InUse(20), true)));
}
