//! Counted cost: commands and round trips, which are stable where times are not. The figures are
//! kept in `command_counts.txt`, so that a costlier design shows up as a difference.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::rc::Rc;
use std::time::Duration;

use selvedge_core::engine::{Engine, EngineConfig, Input, Observation, ScannerName};
use selvedge_core::partition::{Family, Partition};
use selvedge_core::time::LocalTime;
use selvedge_core::value::Value;
use selvedge_tests::harness::Harness;

use crate::dispatch::fan_out;
use crate::fixtures::{ClientCalls, execution, lane, only};
use crate::flow_builder::Flows;
use crate::snapshot::assert_snapshot;

/// Commands per second of an engine with nothing to do, in its second minute.
fn idle() -> usize {
    let mut harness = Harness::new();
    harness.start(EngineConfig::default());
    harness.run_for(60_000);
    let before = harness.commands;
    harness.run_for(60_000);
    (harness.commands - before) / 60
}

/// 10,000 attempts on 256 partitions, all due. Returns commands per hundred items, the number of
/// partitions that made progress, and the milliseconds until all were done.
fn due_timeouts() -> (usize, usize, u64) {
    const ITEMS: usize = 10_000;
    // They are written without a push.
    let mut config = EngineConfig::default().with_longest_sleep(Duration::ZERO);
    for &name in ScannerName::ALL {
        let hours = Duration::from_secs(36_000);
        config.intervals.insert(name, hours);
    }
    config.intervals.insert(ScannerName::AttemptTimeout, Duration::from_secs(2));
    let mut harness = Harness::new();
    harness.start(config);
    harness.run_for(10);
    for n in 0..ITEMS {
        let partition = n % 256;
        let id = format!("{{fp:{partition}}}:00000000-0000-4000-8000-{n:012}");
        harness.run(&format!(
            "HSET ff:exec:{{fp:{partition}}}:{id}:core lifecycle_phase active ownership_state \
             leased current_attempt_index 0 lane_id default lease_expires_at 1800000000000"
        ));
        harness.run(&format!("ZADD ff:idx:{{fp:{partition}}}:attempt_timeout {n} {id}"));
    }
    let (before, start) = (harness.commands, harness.now_ms());
    let mut until = 0;
    while harness.counts(ScannerName::AttemptTimeout).processed < ITEMS as u64 && until < 10_000 {
        harness.run_for(100);
        until = harness.now_ms() - start;
    }
    let partitions: BTreeSet<Partition> = harness
        .facts
        .iter()
        .filter_map(|(_, fact)| match fact {
            Observation::ScanDone { partition, counts, .. } if counts.processed > 0 => {
                Some(*partition)
            }
            _ => None,
        })
        .collect();
    ((harness.commands - before) * 100 / ITEMS, partitions.len(), until)
}

/// Forty lost leases on one partition. Returns the calls about leases, and how often the lease
/// index was read.
fn lost_leases() -> (usize, usize) {
    const LEASES: usize = 40;
    let mut harness = Harness::new();
    harness.start(only(ScannerName::ALL));
    harness.run_for(0);
    for n in 0..LEASES {
        harness.create(&execution(n), "{}");
        harness.claim(&execution(n), 1);
    }
    harness.trace.clear();
    let reads = Rc::new(Cell::new(0));
    let counter = reads.clone();
    harness.rule = Some(Box::new(move |command| {
        if command.argv[1] == b"ff_scan_partition" {
            let index = b"ff:idx:{fp:0}:lease_expiry";
            let pages = command.argv.iter().filter(|word| *word == index).count();
            counter.set(counter.get() + pages);
        }
        None
    }));
    while harness.call(&["ZCARD", &lane("active")]) != Value::Int(0) {
        harness.run_for(100);
    }
    (harness.traced(&["lease"]), reads.get())
}

/// How many batches an engine sends before the first answer; partitions of one slot share a batch.
fn asked_at_once() -> usize {
    let mut engine = Engine::new(EngineConfig::default(), 1, LocalTime(0));
    engine.handle(LocalTime(0), Input::Wake);
    engine.in_flight()
}

#[test]
fn r5_counted_cost_is_as_written_down() {
    let mut table =
        String::from("cost                                            figure   at most\n");
    let mut row = |what: &str, figure: String, bound: &str| {
        writeln!(table, "{what:<48}{figure:<9}{bound}").unwrap();
    };
    let per_second = idle();
    assert!(per_second <= 20, "{per_second} commands a second");
    row("idle, 256 partitions: commands per second", per_second.to_string(), "20");
    let (trips, commands) = fan_out(1_000);
    assert!(trips <= 30, "{trips} round trips");
    row("dispatch of 1,000 edges: sequential round trips", trips.to_string(), "30");
    row("dispatch of 1,000 edges: commands", commands.to_string(), "-");
    let (per_hundred, partitions, until) = due_timeouts();
    assert!(per_hundred <= 300, "{per_hundred} commands per hundred items");
    assert_eq!(partitions, 256);
    let per_item = format!("{}.{:02}", per_hundred / 100, per_hundred % 100);
    row("10,000 due timeouts: commands per item", per_item, "3");
    row("10,000 due timeouts: partitions that got on", partitions.to_string(), "256");
    let (calls, reads) = lost_leases();
    assert_eq!((calls, reads), (40, 1), "one call for each lease, one read of the index");
    row("40 lost leases: calls", calls.to_string(), "40");
    row("40 lost leases: reads of the lease index", reads.to_string(), "1");
    let families = [(Family::Flow, 256), (Family::Budget, 32), (Family::Quota, 32)];
    let slots: BTreeSet<u16> = families
        .into_iter()
        .flat_map(|(family, count)| (0..count).map(move |index| Partition { family, index }))
        .map(Partition::slot)
        .collect();
    row("slots asked before the first answers", asked_at_once().to_string(), "-");
    assert_eq!(asked_at_once(), slots.len(), "all of them side by side");
    row("10,000 due timeouts: milliseconds to the last", until.to_string(), "4400");
    assert!(until <= 4_400, "one interval, stretched and with jitter: {until} ms");
    println!("{table}");
    assert_snapshot("command_counts.txt", &table);
}
