//! Engines sleep until something is due, and are told what is due sooner. Audits take their time.

use std::cell::Cell;
use std::num::NonZeroU16;
use std::rc::Rc;
use std::time::Duration;

use selvedge_core::engine::{EngineConfig, Input, ScannerName};
use selvedge_core::partition::PartitionCounts;
use selvedge_core::value::Value;
use selvedge_tests::harness::Harness;

use crate::fixtures::{ClientCalls, core, execution, lane};

/// One flow partition, everything else as by default.
fn by_default() -> EngineConfig {
    let one = NonZeroU16::MIN;
    let counts = PartitionCounts { flow: one, budget: one, quota: one };
    EngineConfig::default().with_partitions(counts)
}

/// A harness whose engine sleeps, and whether it gets pushes.
fn asleep(push: bool) -> Harness {
    let mut harness = Harness::new();
    harness.push = push;
    harness.start(by_default());
    harness.run_for(100_000);
    let before = harness.commands;
    harness.run_for(5_000);
    assert!(harness.commands <= before + 3, "three partitions, asleep");
    harness
}

/// Milliseconds until the lost lease of an execution is noticed, at most a minute.
fn until_requeued(harness: &mut Harness, id: &str) -> u64 {
    let start = harness.now_ms();
    while harness.field(&core(id), "public_state") == "active" && harness.now_ms() < start + 60_000
    {
        harness.run_for(50);
    }
    harness.now_ms() - start
}

#[test]
fn a_lease_that_ends_soon_wakes_a_sleeping_engine_when_it_ends() {
    let mut harness = asleep(true);
    harness.create(&execution(1), "{}");
    harness.claim(&execution(1), 5_000);
    let waited = until_requeued(&mut harness, &execution(1));
    assert!((5_000..=5_250).contains(&waited), "{waited} ms");
    // Where something was, the scanner keeps to its interval for a while.
    harness.create(&execution(2), "{}");
    harness.claim(&execution(2), 5_000);
    let waited = until_requeued(&mut harness, &execution(2));
    assert!((5_000..=5_000 + 1_650 + 250).contains(&waited), "{waited} ms");
}

#[test]
fn a_lost_push_costs_at_most_the_longest_sleep() {
    let mut late = 0;
    for n in 1..=4 {
        let mut harness = asleep(false);
        harness.create(&execution(n), "{}");
        harness.claim(&execution(n), 500);
        harness.run_for(7_000 * n as u64);
        let waited = 7_000 * n as u64 + until_requeued(&mut harness, &execution(n));
        assert!(waited <= 30_000 + 2_000, "{waited} ms");
        late += u64::from(waited > 3_000);
    }
    assert!(late > 0, "without pushes somebody has to wait, or nobody sleeps");
}

#[test]
fn after_a_gap_every_partition_is_visited() {
    let mut harness = asleep(false);
    harness.create(&execution(1), "{}");
    harness.claim(&execution(1), 500);
    harness.run_for(1_000);
    harness.tell(0, Input::PushGap);
    let waited = until_requeued(&mut harness, &execution(1));
    assert!(waited <= 250, "{waited} ms");
}

#[test]
fn a_partition_sleeps_until_its_next_due_time() {
    let mut harness = Harness::new();
    harness.create(&execution(1), "{}");
    harness.claim(&execution(1), 70_000);
    harness.start(by_default());
    let waited =
        until_requeued(&mut harness, &execution(1)) + until_requeued(&mut harness, &execution(1));
    assert!((60_000..=72_000).contains(&waited), "{waited} ms");
    let visits = harness.commands;
    assert!(visits <= 60, "{visits} commands");
}

#[test]
fn an_audit_keeps_its_pace_and_finds_what_is_broken() {
    const EXECUTIONS: usize = 1_000;
    let mut harness = Harness::new();
    let audits = Rc::new(Cell::new(0));
    let seen = audits.clone();
    harness.rule = Some(Box::new(move |command| {
        seen.set(seen.get() + u64::from(command.argv[1] == b"ff_audit_executions"));
        None
    }));
    for n in 0..EXECUTIONS {
        harness.create(&execution(n), "{}");
    }
    harness.start(by_default());
    let broken = execution(77);
    harness.run(&format!("ZREM {} {broken}", lane("eligible")));
    // A command each, and some for each page, at 25 a second.
    harness.run_for(120_000);
    assert_ne!(harness.call(&["ZSCORE", &lane("eligible"), &broken]), Value::Nil, "repaired");
    assert_eq!(harness.counts(ScannerName::IndexReconciler).processed, 1);
    let pages = audits.get();
    assert!((4..=16).contains(&pages), "{pages} pages of 250 in two minutes");
}

#[test]
fn an_ended_execution_is_read_once_and_then_only_looked_up() {
    let mut config = by_default();
    config.intervals.insert(ScannerName::IndexReconciler, Duration::from_secs(1));
    config.longest_sleep = Duration::ZERO;
    let mut harness = Harness::new();
    let id = execution(1);
    harness.create(&id, "{}");
    let now = harness.now_ms();
    harness.run(&format!("ZREM {} {id}", lane("eligible")));
    harness.run(&format!("ZADD {} {now} {id}", lane("terminal")));
    harness.run(&format!("HSET {} lifecycle_phase terminal completed_at {now}", core(&id)));
    harness.start(config);
    harness.run_for(90_000);
    // Nothing points at the execution, so nobody notices that its record is gone.
    harness.run(&format!("DEL {}", core(&id)));
    harness.run_for(20_000);
    assert_eq!(harness.counts(ScannerName::IndexReconciler).processed, 0);
    // Now something does.
    harness.run(&format!("ZADD {} 1 {id}", lane("eligible")));
    harness.run_for(20_000);
    assert_eq!(harness.counts(ScannerName::IndexReconciler).processed, 1);
    assert_eq!(harness.call(&["ZSCORE", &lane("eligible"), &id]), Value::Nil);
}
