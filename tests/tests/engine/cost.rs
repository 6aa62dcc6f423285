//! Counted cost: commands and round trips, which are stable where times are not. The figures are
//! kept in `cost.txt`, so that a costlier design shows up as a difference.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use selvedge_core::engine::{Engine, EngineConfig, Input, Observation, ScannerName};
use selvedge_core::partition::{Family, Partition};
use selvedge_core::time::EngineTime;
use selvedge_tests::rig::Rig;

use crate::dispatch::fan_out;
use crate::kit::World;
use crate::snapshot::assert_snapshot;

/// Two minutes of an engine with nothing to do; answers the second minute's commands per second.
fn idle() -> usize {
    let mut rig = Rig::new();
    rig.start(EngineConfig::default());
    rig.run_for(60_000);
    let before = rig.commands;
    rig.run_for(60_000);
    (rig.commands - before) / 60
}

/// 10,000 attempts on 256 partitions, all due. Answers commands per hundred items, the partitions
/// that had got on when the first one was done, and milliseconds until all were done.
fn due_timeouts() -> (usize, usize, u64) {
    const ITEMS: usize = 10_000;
    let mut config = EngineConfig::default();
    for &name in ScannerName::ALL {
        let hours = Duration::from_secs(36_000);
        config.intervals.insert(name, hours);
    }
    config.intervals.insert(ScannerName::AttemptTimeout, Duration::from_secs(2));
    let mut rig = Rig::new();
    rig.start(config);
    rig.run_for(10);
    for n in 0..ITEMS {
        let partition = n % 256;
        let id = format!("{{fp:{partition}}}:00000000-0000-4000-8000-{n:012}");
        rig.run(&format!(
            "HSET ff:exec:{{fp:{partition}}}:{id}:core lifecycle_phase active ownership_state \
             leased current_attempt_index 0 lane_id default lease_expires_at 1800000000000"
        ));
        rig.run(&format!("ZADD ff:idx:{{fp:{partition}}}:attempt_timeout {n} {id}"));
    }
    let (before, start) = (rig.commands, rig.now_ms());
    let mut until = 0;
    while rig.tally(ScannerName::AttemptTimeout).processed < ITEMS as u64 && until < 10_000 {
        rig.run_for(100);
        until = rig.now_ms() - start;
    }
    let partitions: BTreeSet<Partition> = rig
        .facts
        .iter()
        .filter_map(|(_, fact)| match fact {
            Observation::ScanDone { partition, tally, .. } if tally.processed > 0 => {
                Some(*partition)
            }
            _ => None,
        })
        .collect();
    ((rig.commands - before) * 100 / ITEMS, partitions.len(), until)
}

/// How many partitions an engine has asked before the first of them answers; those that share a
/// slot share a batch.
fn asked_at_once() -> usize {
    let mut engine = Engine::new(EngineConfig::default(), 1, EngineTime(0));
    engine.handle(EngineTime(0), Input::Wake);
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
    assert!(per_second <= 250, "{per_second} commands a second");
    row("idle, 256 partitions: commands per second", per_second.to_string(), "300");
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
    assert_snapshot("cost.txt", &table);
}
