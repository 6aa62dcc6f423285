//! Executions that lost their lease are requeued.

use selvedge_core::engine::ScannerName;
use selvedge_core::value::Value;
use selvedge_tests::harness::Harness;

use crate::fixtures::{ClientCalls, core, every_second, execution, lane, only, settled};
use crate::scanner_cases::plant;

#[test]
fn the_execution_of_a_crashed_worker_is_claimable_again() {
    let mut harness = Harness::new();
    let id = execution(1);
    harness.name(&id, "E1");
    harness.create(&id, "{}");
    harness.claim(&id, 5_000);
    harness.start(only(&[ScannerName::LeaseExpiry]));
    harness.run_for(7_000);
    assert_eq!(harness.trace, ["engine-1 requeue_lost_lease E1 -> requeued 1"]);
    assert_eq!(harness.field(&core(&id), "public_state"), "waiting");
    harness.claim(&id, 5_000);
}

#[test]
fn l1_fifty_lost_leases_do_not_hide_the_next() {
    let mut harness = Harness::new();
    for n in 0..120 {
        harness.create(&execution(n), "{}");
        harness.claim(&execution(n), 1_000);
    }
    harness.start(only(&[ScannerName::LeaseExpiry]));
    harness.run_for(2_000);
    for n in 0..120 {
        assert_eq!(harness.field(&core(&execution(n)), "public_state"), "waiting", "{n}");
    }
    assert_eq!(harness.counts(ScannerName::LeaseExpiry).processed, 120);
}

#[test]
fn l2_a_lease_without_an_end_is_lost_and_blocks_no_other() {
    let mut harness = settled(every_second(ScannerName::LeaseExpiry, 1));
    plant(&mut harness, ScannerName::LeaseExpiry, 1);
    harness.run(&format!("HSET {} lease_expires_at ", core(&execution(1))));
    harness.run_for(3_000);
    assert_eq!(harness.field(&core(&execution(1)), "public_state"), "waiting");
}

#[test]
fn l3_a_revoked_lease_is_found_without_the_expiry_index() {
    let mut harness = settled(every_second(ScannerName::LeaseExpiry, 1));
    let id = execution(1);
    harness.create(&id, "{}");
    harness.claim(&id, 600_000);
    let exec = |part: &str| format!("ff:exec:{{fp:0}}:{id}:{part}");
    let reply = harness.run(&format!(
        "FCALL ff_revoke_lease 5 {} {} {} ff:idx:{{fp:0}}:lease_expiry \
         ff:idx:{{fp:0}}:worker:wi:leases {id}  operator",
        core(&id),
        exec("lease:current"),
        exec("lease:history"),
    ));
    crate::fixtures::assert_ok(&reply);
    harness.run_for(6_000);
    assert_eq!(harness.field(&core(&id), "public_state"), "waiting");
    assert_eq!(harness.counts(ScannerName::LeaseExpiry).processed, 1);
}

#[test]
fn l3_what_the_active_index_lists_without_reason_hides_no_lost_lease() {
    let mut harness = settled(every_second(ScannerName::LeaseExpiry, 1));
    for n in 0..120 {
        harness.run(&format!("ZADD {} {n} {}", lane("active"), execution(n)));
    }
    let id = execution(500);
    harness.create(&id, "{}");
    harness.claim(&id, 1_000);
    harness.run(&format!("ZREM ff:idx:{{fp:0}}:lease_expiry {id}"));
    harness.run_for(7_000);
    assert_eq!(harness.field(&core(&id), "public_state"), "waiting");
    assert_eq!(harness.call(&["ZCARD", &lane("active")]), Value::Int(0));
}
