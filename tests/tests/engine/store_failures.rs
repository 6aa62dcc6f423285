//! Stores that fail: the engine backs off from a partition that cannot serve, and others are not
//! delayed.

use std::num::NonZeroU16;
use std::time::Duration;

use selvedge_core::command::Answer;
use selvedge_core::completion::Completion;
use selvedge_core::engine::{Input, Observation, ScannerName};
use selvedge_core::partition::{Family, Partition};
use selvedge_core::state::TerminalOutcome;
use selvedge_core::value::Value;
use selvedge_tests::harness::Harness;

use crate::fixtures::{ClientCalls, only};
use crate::flow_builder::{Flows, Graph, flow};
use crate::scanner_cases::plant;

const PROMOTER: ScannerName = ScannerName::DelayedPromoter;

#[test]
fn a_store_that_denies_calls_is_observed_and_backed_off_from() {
    let mut config = only(&[PROMOTER]);
    config.intervals.insert(PROMOTER, Duration::from_secs(1));
    let mut harness = Harness::new();
    harness.start(config);
    harness.run_for(10);
    for n in 0..400 {
        plant(&mut harness, PROMOTER, n);
    }
    let denied = || Answer::Applied(Value::Error("OOM command not allowed".into()));
    harness.rule =
        Some(Box::new(move |command| (command.argv[1] == b"ff_promote_delayed").then(denied)));
    harness.run_for(60_000);
    let tries = harness.counts(PROMOTER).deferred;
    // A page each time, with growing pauses.
    assert!((5 * 50..=14 * 50).contains(&tries), "{tries} tries");
    let told = |fact: &Observation| matches!(fact, Observation::Denied { .. });
    assert!(harness.facts.iter().any(|(_, fact)| told(fact)));
    assert_eq!(harness.counts(PROMOTER).errors(), tries, "no item is to blame");
    harness.rule = None;
    harness.run_for(40_000);
    assert_eq!(harness.counts(PROMOTER).processed, 400);
}

#[test]
fn completions_of_unresponsive_partitions_delay_no_others() {
    let mut config = only(&[]);
    config.partitions.flow = NonZeroU16::new(4).unwrap();
    let mut harness = Harness::new();
    harness.submit(&Graph::new().roots([1]).all_of(2, [1]));
    let engine = harness.start(config);
    harness.run_for(0);
    harness.push = true;
    // An unresponsive node has many of them, and their completions come first.
    for index in 1..4 {
        harness.dead_slots.insert(Partition { family: Family::Flow, index }.slot());
    }
    for n in 0..600 {
        let fp = n % 3 + 1;
        let execution_id = format!("{{fp:{fp}}}:00000000-0000-4000-8000-{n:012}").parse().unwrap();
        let outcome = TerminalOutcome::Success;
        let ended = Completion { execution_id, flow_id: flow(0), outcome };
        harness.tell(engine, Input::Completed(ended));
    }
    harness.complete(1);
    harness.run_for(0);
    assert_eq!(harness.state(2), "waiting", "at once");
    // Two batches were sent to each and expired; what was queued behind them fails with them.
    harness.run_for(10_500);
    let gone = |fact: &Observation| matches!(fact, Observation::BatchTimedOut(_));
    let expired = harness.facts.iter().filter(|(_, fact)| gone(fact)).count();
    assert!(expired <= 12, "{expired} tickets ran out");
}
