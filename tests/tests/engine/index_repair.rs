//! The index reconciler.

use selvedge_core::engine::ScannerName;
use selvedge_core::value::Value;

use crate::fixtures::{ClientCalls, core, every_second, execution, lane, settled};

#[test]
fn i1_memberships_are_repaired_and_entries_without_a_record_removed() {
    let mut harness = settled(every_second(ScannerName::IndexReconciler, 1));
    let (missing, surplus, orphan) = (execution(1), execution(2), execution(3));
    harness.create(&missing, "{}");
    harness.run(&format!("ZREM {} {missing}", lane("eligible")));
    harness.create(&surplus, "{}");
    harness.run(&format!("ZADD {} 1 {surplus}", lane("delayed")));
    harness.run(&format!("SADD ff:idx:{{fp:0}}:all_executions {orphan}"));
    harness.run_for(1_200);
    assert_eq!(harness.counts(ScannerName::IndexReconciler).processed, 3);
    assert_ne!(harness.call(&["ZSCORE", &lane("eligible"), &missing]), Value::Nil);
    assert_eq!(harness.call(&["ZSCORE", &lane("delayed"), &surplus]), Value::Nil);
    let listed = harness.call(&["SISMEMBER", "ff:idx:{fp:0}:all_executions", &orphan]);
    assert_eq!(listed, Value::Int(0));
}

#[test]
fn i3_a_pass_over_all_executions_is_pipelined_and_covers_every_phase() {
    let mut harness = settled(every_second(ScannerName::IndexReconciler, 1));
    for n in 0..300 {
        harness.create(&execution(n), "{}");
    }
    let lost = execution(7);
    harness.claim(&lost, 1_000);
    harness.run(&format!("HSET {} ownership_state lease_expired_reclaimable", core(&lost)));
    harness.run(&format!("ZREM {} {lost}", lane("active")));
    let before = (harness.commands, harness.batches);
    harness.run_for(1_150);
    assert_ne!(harness.call(&["ZSCORE", &lane("active"), &lost]), Value::Nil, "repaired");
    let (commands, batches) = (harness.commands - before.0, harness.batches - before.1);
    assert!(commands <= 300 + 10 && batches <= 20, "{commands} commands in {batches} batches");
}
