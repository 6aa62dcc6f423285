//! Stores in trouble: whoever cannot serve is left alone for longer and longer, and holds up nobody
//! else.

use std::num::NonZeroU16;
use std::time::Duration;

use selvedge_core::completion::Completion;
use selvedge_core::engine::{Answer, Input, Observation, ScannerName};
use selvedge_core::partition::{Family, Partition};
use selvedge_core::state::TerminalOutcome;
use selvedge_core::value::Value;
use selvedge_tests::rig::Rig;

use crate::flows::{Flows, Graph, flow};
use crate::kit::{World, only};
use crate::rows::plant;

const PROMOTER: ScannerName = ScannerName::DelayedPromoter;

#[test]
fn a_store_that_denies_is_told_of_and_left_alone_for_longer_and_longer() {
    let mut config = only(&[PROMOTER]);
    config.intervals.insert(PROMOTER, Duration::from_secs(1));
    let mut rig = Rig::new();
    rig.start(config);
    rig.run_for(10);
    for n in 0..400 {
        plant(&mut rig, PROMOTER, n);
    }
    let denied = || Answer::Applied(Value::Error("OOM command not allowed".into()));
    rig.rule =
        Some(Box::new(move |command| (command.argv[1] == b"ff_promote_delayed").then(denied)));
    rig.run_for(60_000);
    let tries = rig.tally(PROMOTER).deferred;
    // A page each time, and longer and longer pauses between them.
    assert!((5 * 50..=14 * 50).contains(&tries), "{tries} tries");
    let told = |fact: &Observation| matches!(fact, Observation::Denied { .. });
    assert!(rig.facts.iter().any(|(_, fact)| told(fact)));
    assert_eq!(rig.tally(PROMOTER).errors(), tries, "no item is to blame");
    rig.rule = None;
    rig.run_for(40_000);
    assert_eq!(rig.tally(PROMOTER).processed, 400);
}

#[test]
fn completions_of_dead_partitions_delay_no_others() {
    let mut config = only(&[]);
    config.partitions.flow = NonZeroU16::new(4).unwrap();
    let mut rig = Rig::new();
    rig.submit(&Graph::new().roots([1]).all_of(2, [1]));
    let engine = rig.start(config);
    rig.run_for(0);
    rig.push = true;
    // A dead node has many of them, and what is told of these comes first.
    for index in 1..4 {
        rig.dead_slots.insert(Partition { family: Family::Flow, index }.slot());
    }
    for n in 0..600 {
        let fp = n % 3 + 1;
        let execution_id = format!("{{fp:{fp}}}:00000000-0000-4000-8000-{n:012}").parse().unwrap();
        let outcome = TerminalOutcome::Success;
        let ended = Completion { execution_id, flow_id: flow(0), outcome };
        rig.tell(engine, Input::Completed(ended));
    }
    rig.complete(1);
    rig.run_for(0);
    assert_eq!(rig.state(2), "waiting", "at once");
    // Two batches were sent to each and ran out; all that waited behind them is given up with them.
    rig.run_for(10_500);
    let gone = |fact: &Observation| matches!(fact, Observation::TicketExpired(_));
    let expired = rig.facts.iter().filter(|(_, fact)| gone(fact)).count();
    assert!(expired <= 12, "{expired} tickets ran out");
}
