//! Delays, attempt timeouts, suspensions and pending waitpoints.

use selvedge_core::engine::{Filter, ScanCounts, ScannerName};
use selvedge_core::value::Value;
use selvedge_lua::host::Host;

use crate::fixtures::{ClientCalls, core, delay, every_second, execution, settled};
use crate::scanner_cases::plant;

#[test]
fn p2_fifty_delays_without_a_time_do_not_stop_the_lane() {
    let mut harness = settled(every_second(ScannerName::DelayedPromoter, 1));
    for n in 0..61 {
        let core = delay(&mut harness, 0, "default", n);
        if n < 60 {
            harness.run(&format!("HDEL {core} delay_until"));
        }
    }
    harness.run_for(2_300);
    assert_eq!(harness.counts(ScannerName::DelayedPromoter).processed, 61);
}

#[test]
fn a1_an_attempt_that_ended_in_time_is_not_expired() {
    let mut harness = settled(every_second(ScannerName::AttemptTimeout, 1));
    plant(&mut harness, ScannerName::AttemptTimeout, 1);
    let core = core(&execution(1));
    let key = core.clone();
    harness.before_command = Some(Box::new(move |host: &mut Host, command| {
        if command.argv[1] == b"ff_expire_if_due" {
            host.call(&["HSET", &key, "lifecycle_phase", "runnable"]);
        }
    }));
    harness.run_for(2_300);
    assert_eq!(harness.trace, ["engine-1 expire_if_due X1 -> not_due"]);
    assert_eq!(harness.field(&core, "lifecycle_phase"), "runnable");
}

#[test]
fn a2_a_newer_attempt_is_not_ended_by_an_older_ones_timeout() {
    let mut harness = settled(every_second(ScannerName::AttemptTimeout, 1));
    plant(&mut harness, ScannerName::AttemptTimeout, 1);
    let core = core(&execution(1));
    let key = core.clone();
    harness.before_command = Some(Box::new(move |host: &mut Host, command| {
        if command.argv[1] == b"ff_expire_if_due" {
            host.call(&["HINCRBY", &key, "current_attempt_index", "1"]);
        }
    }));
    harness.run_for(4_000);
    assert!(harness.trace.len() >= 2);
    assert!(harness.trace.iter().all(|line| line.contains("other_attempt")), "{:?}", harness.trace);
    assert_eq!(harness.field(&core, "lifecycle_phase"), "active");
}

#[test]
fn s3_a_second_suspension_keeps_its_waitpoint() {
    let mut harness = settled(every_second(ScannerName::SuspensionTimeout, 1));
    plant(&mut harness, ScannerName::SuspensionTimeout, 1);
    let id = execution(1);
    let suspension = format!("ff:exec:{{fp:0}}:{id}:suspension:current");
    let second = "ff:wp:{fp:0}:99999999-9999-4999-8999-999999999999";
    harness.run(&format!("HSET {second} state active suspension_id s2"));
    let key = suspension.clone();
    harness.before_command = Some(Box::new(move |host: &mut Host, command| {
        if command.argv[1] == b"ff_expire_suspension" {
            let other = &second[13..];
            host.call(&["HSET", &key, "suspension_id", "s2", "waitpoint_id", other]);
            host.call(&["HSET", &key, "timeout_at", "1800000000000"]);
        }
    }));
    harness.run_for(2_300);
    assert_eq!(harness.trace, ["engine-1 expire_suspension X1 -> not_yet_due"]);
    assert_eq!(harness.field(second, "state"), "active");
}

#[test]
fn w1_waitpoints_that_are_gone_do_not_hide_the_one_that_waits() {
    let mut harness = settled(every_second(ScannerName::PendingWpExpiry, 1));
    for n in 0..150 {
        let orphan = format!("11111111-1111-4111-8111-{n:012}");
        harness.run(&format!("ZADD ff:idx:{{fp:0}}:pending_waitpoint_expiry 1 {orphan}"));
    }
    plant(&mut harness, ScannerName::PendingWpExpiry, 1);
    harness.run_for(2_300);
    let counts = harness.counts(ScannerName::PendingWpExpiry);
    let mut expected = ScanCounts::default();
    (expected.processed, expected.nothing) = (1, 150);
    assert_eq!(counts, expected);
}

#[test]
fn w2_an_entry_whose_waitpoint_is_gone_leaves_whatever_the_filter_says() {
    let mut config = every_second(ScannerName::PendingWpExpiry, 1);
    config.filter = Filter::by_namespace("ns");
    let mut harness = settled(config);
    let orphan = "11111111-1111-4111-8111-111111111111";
    harness.run(&format!("ZADD ff:idx:{{fp:0}}:pending_waitpoint_expiry 1 {orphan}"));
    harness.run_for(2_300);
    let index = "ff:idx:{fp:0}:pending_waitpoint_expiry";
    assert_eq!(harness.call(&["ZCARD", index]), Value::Int(0), "{:?}", harness.trace);
}

#[test]
fn w3_a_waitpoint_that_became_active_stays_open() {
    let mut harness = settled(every_second(ScannerName::PendingWpExpiry, 1));
    plant(&mut harness, ScannerName::PendingWpExpiry, 1);
    let key = format!("ff:wp:{{fp:0}}:{}", &execution(1)[7..]);
    harness.run(&format!("HSET {key} state active"));
    harness.run_for(2_300);
    assert_eq!(harness.field(&key, "state"), "active");
    assert_eq!(harness.counts(ScannerName::PendingWpExpiry).nothing, 1);
}
