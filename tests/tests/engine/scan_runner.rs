//! The run of scans: visits, fairness, lanes, counting and health.

use std::time::Duration;

use selvedge_core::command::Answer;
use selvedge_core::engine::{Input, Observation, ScannerName};
use selvedge_core::error::ServerError;
use selvedge_lua::host::Host;
use selvedge_tests::harness::{EPOCH_MS, Harness};

use crate::fixtures::{
    ClientCalls, core, delay, every_second, execution, flow_slot, only, settled,
};
use crate::scanner_cases::plant;

#[test]
fn r2_a_partial_gauge_is_never_written() {
    for broken in 0..3 {
        let mut harness = Harness::new();
        for partition in 0..3 {
            let key = format!("ff:idx:{{fp:{partition}}}:cancel_backlog");
            harness.run(&match partition == broken {
                true => format!("SET {key} text"),
                false => format!("ZADD {key} 9999999999999 00000000-0000-4000-8000-000000000001"),
            });
        }
        harness.start(every_second(ScannerName::CancelReconciler, 3));
        harness.run_for(5_000);
        let gauges = |harness: &Harness| {
            let facts = harness.facts.iter().map(|(_, fact)| fact.clone());
            let mut seen: Vec<Observation> = facts
                .filter(|fact| {
                    matches!(
                        fact,
                        Observation::CancelBacklog(_) | Observation::CancelBacklogPartial
                    )
                })
                .collect();
            seen.dedup();
            seen
        };
        assert_eq!(gauges(&harness), [Observation::CancelBacklogPartial], "broken: {broken}");
        harness.run(&format!("DEL ff:idx:{{fp:{broken}}}:cancel_backlog"));
        harness.run_for(5_000);
        let after = gauges(&harness);
        assert_eq!(after.last(), Some(&Observation::CancelBacklog(2)), "broken: {broken}");
    }
}

#[test]
fn r4_an_unresponsive_partition_delays_no_other() {
    let mut harness = settled(every_second(ScannerName::DelayedPromoter, 4));
    harness.dead_slots.insert(flow_slot(1));
    let cores: Vec<String> = (0..4).map(|at| delay(&mut harness, at, "default", 1)).collect();
    harness.run_for(2_500);
    for at in [0, 2, 3] {
        assert_eq!(harness.field(&cores[at], "public_state"), "waiting", "partition {at}");
    }
    assert_eq!(harness.field(&cores[1], "public_state"), "delayed");
    harness.dead_slots.clear();
    harness.run_for(60_000);
    assert_eq!(harness.field(&cores[1], "public_state"), "waiting", "it comes back");
}

#[test]
fn r6_a_thousand_due_at_once_do_not_wait_for_the_next_interval() {
    let mut harness = settled(every_second(ScannerName::DelayedPromoter, 1));
    for n in 0..1_000 {
        delay(&mut harness, 0, "default", n);
    }
    harness.run_for(2_300);
    assert_eq!(harness.counts(ScannerName::DelayedPromoter).processed, 1_000);
}

#[test]
fn r6_past_the_fairness_bound_the_scan_comes_back_at_the_floor() {
    let mut config = every_second(ScannerName::DelayedPromoter, 1);
    config.intervals.insert(ScannerName::DelayedPromoter, Duration::from_secs(60));
    let mut harness = settled(config);
    for n in 0..4_500 {
        delay(&mut harness, 0, "default", n);
    }
    harness.tell(0, Input::LibraryLoaded);
    assert_eq!(harness.counts(ScannerName::DelayedPromoter).processed, 2_000, "its share");
    harness.run_for(300);
    assert_eq!(harness.counts(ScannerName::DelayedPromoter).processed, 4_500);
}

#[test]
fn r7_nothing_to_do_is_not_counted_as_work() {
    let mut harness = settled(every_second(ScannerName::BudgetReconciler, 1));
    plant(&mut harness, ScannerName::BudgetReconciler, 1);
    harness.run_for(10_000);
    let counts = harness.counts(ScannerName::BudgetReconciler);
    assert_eq!(counts.processed, 1);
    assert!(counts.nothing >= 4, "the entry remains and is seen again: {counts:?}");
    assert_eq!(counts.errors(), 0);
}

#[test]
fn r8_a_clock_that_is_ahead_expires_nothing_early() {
    for name in [
        ScannerName::AttemptTimeout,
        ScannerName::ExecutionDeadline,
        ScannerName::PendingWpExpiry,
        ScannerName::BudgetReset,
    ] {
        let mut harness = settled(every_second(name, 1));
        let due = EPOCH_MS + 60_000;
        plant(&mut harness, name, 1);
        let (index, member, record) = match name {
            ScannerName::AttemptTimeout => ("{fp:0}:attempt_timeout", execution(1), None),
            ScannerName::ExecutionDeadline => ("{fp:0}:execution_deadline", execution(1), None),
            ScannerName::PendingWpExpiry => {
                let id = execution(1)[7..].to_owned();
                (
                    "{fp:0}:pending_waitpoint_expiry",
                    id.clone(),
                    Some(format!("ff:wp:{{fp:0}}:{id}")),
                )
            }
            _ => ("{b:0}:budget_resets", execution(1)[7..].to_owned(), None),
        };
        harness.run(&format!("ZADD ff:idx:{index} {due} {member}"));
        if let Some(record) = record {
            harness.run(&format!("HSET {record} expires_at {due}"));
        }
        // The clock of pages runs an hour ahead of the clock of calls.
        harness.before_command = Some(Box::new(|host: &mut Host, command| {
            let page = command.argv[1] == b"ff_scan_partition";
            host.set_now_us((EPOCH_MS + if page { 3_600_000 } else { 5_000 }) * 1_000);
        }));
        harness.run_for(5_000);
        assert!(!harness.trace.is_empty(), "{name}");
        for line in &harness.trace {
            assert!(line.contains("not_due") || line.contains("not_yet_due"), "{name}: {line}");
        }
        assert_eq!(harness.counts(name).processed, 0, "{name}");
    }
}

#[test]
fn r9_lanes_of_the_registry_are_served_too() {
    for configured in [vec!["default".parse().unwrap()], vec![]] {
        let mut config = every_second(ScannerName::DelayedPromoter, 1);
        config.lanes = configured;
        let mut harness = settled(config);
        let core = delay(&mut harness, 0, "x", 1);
        harness.run_for(3_000);
        assert_eq!(harness.field(&core, "public_state"), "delayed", "the lane is unknown");
        harness.tell(0, Input::Lanes(vec!["x".parse().unwrap()]));
        harness.run_for(3_000);
        assert_eq!(harness.field(&core, "public_state"), "waiting");
    }
}

#[test]
fn r9_what_waits_in_a_new_lane_is_found_at_once_by_every_scanner_of_lanes() {
    let mut harness = settled(only(&[]));
    let delayed = delay(&mut harness, 0, "x", 1);
    let held = core(&execution(2));
    harness.run(&format!(
        "HSET {held} lifecycle_phase runnable eligibility_state blocked_by_budget lane_id x \
         blocking_reason waiting_for_budget"
    ));
    harness.run(&format!("ZADD ff:idx:{{fp:0}}:lane:x:blocked:budget 1 {}", execution(2)));
    harness.tell(0, Input::Lanes(vec!["x".parse().unwrap(), "y".parse().unwrap()]));
    assert_eq!(harness.field(&delayed, "public_state"), "waiting");
    assert_eq!(harness.field(&held, "eligibility_state"), "eligible_now");
    // The same lanes again lead to nothing.
    let before = harness.commands;
    harness.tell(0, Input::Lanes(vec!["y".parse().unwrap(), "x".parse().unwrap()]));
    assert_eq!(harness.commands, before);
}

#[test]
fn r9_many_lanes_are_read_in_calls_of_bounded_length() {
    let mut harness = Harness::new();
    let lanes = (0..500).map(|n| format!("lane-{n}").parse().unwrap()).collect();
    let longest = std::rc::Rc::new(std::cell::Cell::new(0));
    let seen = longest.clone();
    harness.rule = Some(Box::new(move |command| {
        seen.set(seen.get().max(command.argv.len()));
        None
    }));
    let core = delay(&mut harness, 0, "lane-499", 1);
    harness.start(only(&[]).with_lanes(lanes));
    harness.run_for(10);
    assert_eq!(harness.field(&core, "public_state"), "waiting");
    // A page is a key and four arguments.
    assert!((256..=256 * 5 + 3).contains(&longest.get()), "{} words", longest.get());
}

#[test]
fn v1_a_drain_ends_while_everything_fails_and_v2_failures_are_observed() {
    let mut harness = settled(every_second(ScannerName::Unblock, 1));
    harness.rule =
        Some(Box::new(|_| Some(Answer::NotApplied(ServerError::never_sent("not connected")))));
    harness.run_for(20_000);
    let failures = |harness: &Harness| {
        let facts = harness.facts.iter();
        facts.filter(|(_, fact)| matches!(fact, Observation::PartitionFailed { .. })).count()
    };
    let told = failures(&harness);
    // Once a second at first, then with growing pauses.
    assert!((3..=9).contains(&told), "{told}");
    harness.tell(0, selvedge_core::engine::Input::Drain);
    assert!(harness.engine(0).unwrap().is_drained(), "no pause is waited for");
}

#[test]
fn v2_every_scanner_observes_every_cycle() {
    let mut harness = Harness::new();
    harness.start(only(&[]));
    harness.run_for(10);
    for &name in ScannerName::ALL {
        let told = harness.facts.iter().any(
            |(_, fact)| matches!(fact, Observation::CycleDone { scanner, .. } if *scanner == name),
        );
        assert!(told, "{name}");
    }
}
