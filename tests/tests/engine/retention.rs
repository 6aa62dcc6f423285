//! The retention trimmer.

use selvedge_core::engine::{ScanCounts, ScannerName};
use selvedge_tests::harness::{EPOCH_MS, Harness};

use crate::fixtures::{ClientCalls, core, every_second, execution, exists, lane, settled};

const HOUR_MS: u64 = 3_600_000;

/// A terminal execution of this age and with this retention, which may be empty.
fn ended(harness: &mut Harness, n: usize, hours_ago: u64, retention_ms: &str) -> String {
    let id = execution(n);
    let policy = match retention_ms {
        "" => "{}".to_owned(),
        ms => format!("{{\"stream_policy\":{{\"retention_ttl_ms\":{ms}}}}}"),
    };
    harness.create(&id, &policy);
    let at = EPOCH_MS - hours_ago * HOUR_MS;
    harness.run(&format!("ZREM {} {id}", lane("eligible")));
    harness.run(&format!(
        "HSET {} lifecycle_phase terminal public_state completed completed_at {at}",
        core(&id)
    ));
    harness.run(&format!("ZADD {} {at} {id}", lane("terminal")));
    core(&id)
}

#[test]
fn k3_long_retention_at_the_head_hides_no_other() {
    let mut harness = settled(every_second(ScannerName::RetentionTrimmer, 1));
    for n in 0..45 {
        ended(&mut harness, n, 72, "864000000");
    }
    let default = ended(&mut harness, 99, 48, "");
    harness.run_for(1_500);
    assert!(!exists(&mut harness, &default));
    let counts = harness.counts(ScannerName::RetentionTrimmer);
    let mut expected = ScanCounts::default();
    (expected.processed, expected.nothing) = (1, 45);
    assert_eq!(counts, expected);
}

#[test]
fn k4_retention_below_a_day_counts() {
    let mut harness = settled(every_second(ScannerName::RetentionTrimmer, 1));
    let short = ended(&mut harness, 1, 2, "3600000");
    let young = ended(&mut harness, 2, 2, "");
    harness.run_for(2_500);
    assert!(!exists(&mut harness, &short));
    assert!(exists(&mut harness, &young), "a day is not over");
}

#[test]
fn k4_a_sweep_that_makes_progress_goes_on() {
    let mut harness = settled(every_second(ScannerName::RetentionTrimmer, 1));
    for n in 0..250 {
        ended(&mut harness, n, 2, "3600000");
    }
    // A sweep takes five pages of twenty in one go.
    harness.run_for(1_900);
    assert_eq!(harness.counts(ScannerName::RetentionTrimmer).processed, 250);
}

#[test]
fn k7_thirty_are_purged_at_once_in_one_command_each() {
    let mut harness = settled(every_second(ScannerName::RetentionTrimmer, 1));
    for n in 0..30 {
        ended(&mut harness, n, 48, "");
    }
    let before = harness.commands;
    harness.run_for(1_200);
    assert_eq!(harness.counts(ScannerName::RetentionTrimmer).processed, 30);
    assert!(harness.commands - before <= 40, "{} commands", harness.commands - before);
}
