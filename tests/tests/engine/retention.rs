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
    // A sweep takes a page of 64 in one go.
    harness.run_for(1_900);
    assert_eq!(harness.counts(ScannerName::RetentionTrimmer).processed, 250);
}

#[test]
fn k7_thirty_are_purged_at_once_in_one_call() {
    let mut harness = settled(every_second(ScannerName::RetentionTrimmer, 1));
    for n in 0..30 {
        ended(&mut harness, n, 48, "");
    }
    let before = harness.commands;
    harness.run_for(1_200);
    assert_eq!(harness.counts(ScannerName::RetentionTrimmer).processed, 30);
    assert!(harness.commands - before <= 12, "{} commands", harness.commands - before);
}

#[test]
fn what_one_call_has_no_room_for_goes_in_the_next() {
    let mut harness = settled(every_second(ScannerName::RetentionTrimmer, 1));
    for n in 0..40 {
        ended(&mut harness, n, 48, "");
        let id = execution(n);
        for attempt in 0..20 {
            harness.run(&format!("ZADD ff:exec:{{fp:0}}:{id}:attempts {attempt} {attempt}"));
        }
    }
    harness.run_for(1_900);
    let counts = harness.counts(ScannerName::RetentionTrimmer);
    assert_eq!((counts.processed, counts.errors()), (40, 0));
}

#[test]
fn one_that_cannot_be_purged_is_in_nobodys_way() {
    let mut harness = settled(every_second(ScannerName::RetentionTrimmer, 1));
    let cores: Vec<String> = (0..10).map(|n| ended(&mut harness, n, 48, "")).collect();
    let id = execution(4);
    harness.run(&format!("SET ff:exec:{{fp:0}}:{id}:attempts text"));
    harness.run(&format!("HSET {} lifecycle_phase runnable", cores[5]));
    harness.run_for(1_400);
    let counts = harness.counts(ScannerName::RetentionTrimmer);
    assert_eq!((counts.processed, counts.failed, counts.nothing), (8, 1, 1));
    let left: Vec<usize> = (0..10).filter(|n| exists(&mut harness, &cores[*n])).collect();
    assert_eq!(left, [4, 5]);
}

#[test]
fn no_more_are_kept_than_the_deployment_keeps() {
    let config = every_second(ScannerName::RetentionTrimmer, 1).with_keep_ended(Some(3));
    let mut harness = settled(config);
    // The later the number, the earlier its end.
    let cores: Vec<String> =
        (0..150).map(|n| ended(&mut harness, n, 1 + n as u64, "864000000000")).collect();
    harness.run_for(2_500);
    let left: Vec<usize> = (0..150).filter(|n| exists(&mut harness, &cores[*n])).collect();
    assert_eq!(left, [0, 1, 2]);
}
