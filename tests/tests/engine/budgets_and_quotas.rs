//! Budget resets, and the correction of budgets and quotas.

use std::num::NonZeroU16;

use selvedge_core::command::Answer;
use selvedge_core::engine::ScannerName;
use selvedge_core::error::ServerError;
use selvedge_core::value::Value;
use selvedge_tests::harness::Harness;

use crate::fixtures::{ClientCalls, core, every_second, execution, exists, settled};
use crate::scanner_cases::plant;

const BUDGET: &str = "00000000-0000-4000-8000-000000000777";

#[test]
fn b1_bad_entries_do_not_starve_a_budget() {
    let mut harness = settled(every_second(ScannerName::BudgetReset, 1));
    for n in 0..25 {
        harness.run(&format!("ZADD ff:idx:{{b:0}}:budget_resets 1 bad-{n}"));
        let broken = format!("11111111-1111-4111-8111-{n:012}");
        harness.run(&format!("SET ff:budget:{{b:0}}:{broken} text"));
        harness.run(&format!("ZADD ff:idx:{{b:0}}:budget_resets 1 {broken}"));
    }
    plant(&mut harness, ScannerName::BudgetReset, 1);
    harness.run_for(1_200);
    let counts = harness.counts(ScannerName::BudgetReset);
    assert_eq!((counts.processed, counts.set_aside, counts.failed), (1, 25, 25));
}

#[test]
fn b5_an_entry_on_the_wrong_partition_resets_no_budget() {
    let mut config = every_second(ScannerName::BudgetReset, 1);
    config.partitions.budget = NonZeroU16::new(2).unwrap();
    let home = config.partitions.of_budget(BUDGET.parse().unwrap()).index;
    let mut harness = Harness::new();
    harness.start(config);
    harness.run_for(10);
    for index in 0..2 {
        harness.run(&format!("ZADD ff:idx:{{b:{index}}}:budget_resets 500 {BUDGET}"));
    }
    harness.run(&format!("HSET ff:budget:{{b:{home}}}:{BUDGET} reset_interval_ms 1000000000000"));
    harness.run_for(5_000);
    let counts = harness.counts(ScannerName::BudgetReset);
    assert_eq!((counts.processed, counts.set_aside), (1, 1));
    let strange = format!("{{b:{}}}", 1 - home);
    assert!(!exists(&mut harness, &format!("ff:budget:{strange}:{BUDGET}")), "no phantom");
    assert!(!exists(&mut harness, &format!("ff:idx:{strange}:budget_resets")), "it is set aside");
}

#[test]
fn g1_a_budget_with_limits_is_read_and_marked() {
    let mut harness = settled(every_second(ScannerName::BudgetReconciler, 1));
    plant(&mut harness, ScannerName::BudgetReconciler, 1);
    harness.run_for(1_200);
    let usage = "ff:budget:{b:0}:00000000-0000-4000-8000-000000000001:usage";
    assert_ne!(harness.field(usage, "breached_at"), "");
    assert_eq!(harness.counts(ScannerName::BudgetReconciler).errors(), 0);
}

#[test]
fn g4_a_ledger_is_deleted_with_its_execution_and_kept_while_that_is_unknown() {
    let mut harness = settled(every_second(ScannerName::BudgetReconciler, 1));
    plant(&mut harness, ScannerName::BudgetReconciler, 1);
    let budget = "ff:budget:{b:0}:00000000-0000-4000-8000-000000000001";
    let ledger = |n| format!("{budget}:by_exec:{}", execution(n));
    for n in 1..=250 {
        harness.run(&format!("HSET {} tokens 5", ledger(n)));
        harness.run(&format!("SADD {budget}:by_exec:index {}", execution(n)));
    }
    harness.run(&format!("HSET {} lifecycle_phase terminal", core(&execution(1))));
    harness.rule = Some(Box::new(|command| {
        let silence = || Answer::PerhapsApplied(ServerError::silence("a blip"));
        (command.argv[0] == b"EXISTS").then(silence)
    }));
    harness.run_for(1_200);
    assert!(exists(&mut harness, &ledger(250)), "it may still be there");
    harness.rule = None;
    harness.run_for(1_200);
    assert!(!exists(&mut harness, &ledger(250)), "one more page than fits into two");
    assert!(exists(&mut harness, &ledger(1)), "its execution has ended, and is not gone");
    assert_eq!(harness.call(&["SCARD", &format!("{budget}:by_exec:index")]), Value::Int(1));
    assert_eq!(harness.field(&format!("{budget}:usage"), "tokens"), "20", "nothing is given back");
}

#[test]
fn q1_a_slot_is_held_as_long_as_its_execution_runs() {
    let mut harness = settled(every_second(ScannerName::QuotaReconciler, 1));
    plant(&mut harness, ScannerName::QuotaReconciler, 1);
    let quota = "ff:quota:{q:0}:00000000-0000-4000-8000-000000000001";
    harness.run(&format!("SADD {quota}:admitted_set nobody"));
    let held = |harness: &mut Harness| {
        harness.run_for(3_000);
        harness.call(&["GET", &format!("{quota}:concurrency")])
    };
    // Neither has a guard: one is running, the other is not an execution.
    for _ in 0..2 {
        assert_eq!(held(&mut harness), Value::Bulk(b"1".to_vec()));
    }
    harness.run(&format!("HSET {} lifecycle_phase terminal", core(&execution(1))));
    assert_eq!(held(&mut harness), Value::Bulk(b"0".to_vec()));
}

/// Admitted, and then held before it was claimed: it would keep the slot from its own parents for
/// ever.
#[test]
fn q1_a_holder_that_cannot_be_claimed_gives_its_slot_back() {
    for state in ["blocked_by_dependencies", "not_eligible_until_time", "blocked_by_operator"] {
        let mut harness = settled(every_second(ScannerName::QuotaReconciler, 1));
        plant(&mut harness, ScannerName::QuotaReconciler, 1);
        let counter = "ff:quota:{q:0}:00000000-0000-4000-8000-000000000001:concurrency";
        harness.run_for(3_000);
        assert_eq!(
            harness.call(&["GET", counter]),
            Value::Bulk(b"1".to_vec()),
            "it may be claimed"
        );
        harness.run(&format!("HSET {} eligibility_state {state}", core(&execution(1))));
        harness.run_for(3_000);
        assert_eq!(harness.call(&["GET", counter]), Value::Bulk(b"0".to_vec()), "{state}");
    }
}

#[test]
fn q3_a_holder_that_cannot_be_read_keeps_its_slot() {
    let mut harness = settled(every_second(ScannerName::QuotaReconciler, 1));
    plant(&mut harness, ScannerName::QuotaReconciler, 1);
    harness.run(&format!("HSET {} lifecycle_phase terminal", core(&execution(1))));
    harness.rule = Some(Box::new(|command| {
        (command.argv[0] == b"HMGET")
            .then(|| Answer::PerhapsApplied(ServerError::silence("a blip")))
    }));
    let counter = "ff:quota:{q:0}:00000000-0000-4000-8000-000000000001:concurrency";
    harness.run_for(3_000);
    assert_eq!(harness.call(&["GET", counter]), Value::Bulk(b"1".to_vec()));
    harness.rule = None;
    harness.run_for(3_000);
    assert_eq!(harness.call(&["GET", counter]), Value::Bulk(b"0".to_vec()), "now it is known");
}
