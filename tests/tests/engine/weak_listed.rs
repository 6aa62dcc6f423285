//! Weak spots of retention, budgets, quotas, unblocking and index repair, each by its code.

use std::num::NonZeroU16;
use std::time::Duration;

use selvedge_core::engine::{Answer, EngineConfig, Observation, ScannerName, Tally};
use selvedge_core::error::ServerError;
use selvedge_core::value::Value;
use selvedge_tests::rig::{EPOCH_MS, Rig};

use crate::kit::{World, core, execution, lane, only};
use crate::rows::plant;

const BUDGET: &str = "00000000-0000-4000-8000-000000000777";
const QUOTA: &str = "00000000-0000-4000-8000-000000000888";
const HOUR_MS: u64 = 3_600_000;

fn every_second(name: ScannerName) -> EngineConfig {
    let mut config = only(&[name]);
    config.intervals.insert(name, Duration::from_secs(1));
    config
}

/// A rig with one scanner, whose engine has settled.
fn settled(name: ScannerName) -> Rig {
    let mut rig = Rig::new();
    rig.start(every_second(name));
    rig.run_for(10);
    rig
}

/// An execution that is held back for `reason`, with more fields on its record.
fn hold(rig: &mut Rig, n: usize, reason: &str, more: &str) -> String {
    let id = execution(n);
    let word = match reason {
        "route" => "capable_worker",
        other => other,
    };
    rig.create(&id, "{}");
    rig.run(&format!("ZREM {} {id}", lane("eligible")));
    rig.run(&format!(
        "HSET {} eligibility_state blocked_by_{reason} blocking_reason waiting_for_{word} {more}",
        core(&id)
    ));
    rig.run(&format!("ZADD {} {n} {id}", lane(&format!("blocked:{reason}"))));
    core(&id)
}

fn is_free(rig: &mut Rig, core: &str) -> bool {
    rig.field(core, "eligibility_state") == "eligible_now"
}

fn released(rig: &Rig) -> u64 {
    rig.tally(ScannerName::Unblock).processed
}

/// A terminal execution of this age and with this retention, which may be empty.
fn ended(rig: &mut Rig, n: usize, hours_ago: u64, retention_ms: &str) -> String {
    let id = execution(n);
    let policy = match retention_ms {
        "" => "{}".to_owned(),
        ms => format!("{{\"stream_policy\":{{\"retention_ttl_ms\":{ms}}}}}"),
    };
    rig.create(&id, &policy);
    let at = EPOCH_MS - hours_ago * HOUR_MS;
    rig.run(&format!("ZREM {} {id}", lane("eligible")));
    rig.run(&format!(
        "HSET {} lifecycle_phase terminal public_state completed completed_at {at}",
        core(&id)
    ));
    rig.run(&format!("ZADD {} {at} {id}", lane("terminal")));
    core(&id)
}

fn exists(rig: &mut Rig, key: &str) -> bool {
    rig.call(&["EXISTS", key]) == Value::Int(1)
}

#[test]
fn k3_long_retention_at_the_head_hides_nobody() {
    let mut rig = settled(ScannerName::RetentionTrimmer);
    for n in 0..45 {
        ended(&mut rig, n, 72, "864000000");
    }
    let default = ended(&mut rig, 99, 48, "");
    rig.run_for(1_500);
    assert!(!exists(&mut rig, &default));
    let tally = rig.tally(ScannerName::RetentionTrimmer);
    assert_eq!(tally, Tally { processed: 1, nothing: 45, ..Tally::default() });
}

#[test]
fn k4_retention_below_a_day_counts() {
    let mut rig = settled(ScannerName::RetentionTrimmer);
    let short = ended(&mut rig, 1, 2, "3600000");
    let young = ended(&mut rig, 2, 2, "");
    rig.run_for(2_500);
    assert!(!exists(&mut rig, &short));
    assert!(exists(&mut rig, &young), "a day is not over");
}

#[test]
fn k4_a_sweep_that_gets_on_goes_on() {
    let mut rig = settled(ScannerName::RetentionTrimmer);
    for n in 0..250 {
        ended(&mut rig, n, 2, "3600000");
    }
    // A sweep takes five pages of twenty in one go.
    rig.run_for(1_900);
    assert_eq!(rig.tally(ScannerName::RetentionTrimmer).processed, 250);
}

#[test]
fn k7_thirty_are_purged_at_once_in_one_command_each() {
    let mut rig = settled(ScannerName::RetentionTrimmer);
    for n in 0..30 {
        ended(&mut rig, n, 48, "");
    }
    let before = rig.commands;
    rig.run_for(1_200);
    assert_eq!(rig.tally(ScannerName::RetentionTrimmer).processed, 30);
    assert!(rig.commands - before <= 40, "{} commands", rig.commands - before);
}

#[test]
fn b1_bad_entries_do_not_starve_a_budget() {
    let mut rig = settled(ScannerName::BudgetReset);
    for n in 0..25 {
        rig.run(&format!("ZADD ff:idx:{{b:0}}:budget_resets 1 bad-{n}"));
        let broken = format!("11111111-1111-4111-8111-{n:012}");
        rig.run(&format!("SET ff:budget:{{b:0}}:{broken} text"));
        rig.run(&format!("ZADD ff:idx:{{b:0}}:budget_resets 1 {broken}"));
    }
    plant(&mut rig, ScannerName::BudgetReset, 1);
    rig.run_for(1_200);
    let tally = rig.tally(ScannerName::BudgetReset);
    assert_eq!((tally.processed, tally.poisoned, tally.failed), (1, 25, 25));
}

#[test]
fn b5_an_entry_on_another_partition_resets_no_stranger() {
    let mut config = every_second(ScannerName::BudgetReset);
    config.partitions.budget = NonZeroU16::new(2).unwrap();
    let home = config.partitions.of_budget(BUDGET.parse().unwrap()).index;
    let mut rig = Rig::new();
    rig.start(config);
    rig.run_for(10);
    for index in 0..2 {
        rig.run(&format!("ZADD ff:idx:{{b:{index}}}:budget_resets 500 {BUDGET}"));
    }
    rig.run(&format!("HSET ff:budget:{{b:{home}}}:{BUDGET} reset_interval_ms 1000000000000"));
    rig.run_for(5_000);
    let tally = rig.tally(ScannerName::BudgetReset);
    assert_eq!((tally.processed, tally.poisoned), (1, 1));
    let strange = format!("{{b:{}}}", 1 - home);
    assert!(!exists(&mut rig, &format!("ff:budget:{strange}:{BUDGET}")), "no phantom");
    assert!(!exists(&mut rig, &format!("ff:idx:{strange}:budget_resets")), "it is set aside");
}

#[test]
fn g1_a_budget_with_limits_is_read_and_marked() {
    let mut rig = settled(ScannerName::BudgetReconciler);
    plant(&mut rig, ScannerName::BudgetReconciler, 1);
    rig.run_for(1_200);
    let usage = "ff:budget:{b:0}:00000000-0000-4000-8000-000000000001:usage";
    assert_ne!(rig.field(usage, "breached_at"), "");
    assert_eq!(rig.tally(ScannerName::BudgetReconciler).errors(), 0);
}

#[test]
fn g4_a_ledger_goes_with_its_execution_and_stays_while_nobody_knows() {
    let mut rig = settled(ScannerName::BudgetReconciler);
    plant(&mut rig, ScannerName::BudgetReconciler, 1);
    let budget = "ff:budget:{b:0}:00000000-0000-4000-8000-000000000001";
    let ledger = |n| format!("{budget}:by_exec:{}", execution(n));
    for n in 1..=250 {
        rig.run(&format!("HSET {} tokens 5", ledger(n)));
        rig.run(&format!("SADD {budget}:by_exec:index {}", execution(n)));
    }
    rig.run(&format!("HSET {} lifecycle_phase terminal", core(&execution(1))));
    rig.rule = Some(Box::new(|command| {
        let silence = || Answer::PerhapsApplied(ServerError::silence("a blip"));
        (command.argv[0] == b"EXISTS").then(silence)
    }));
    rig.run_for(1_200);
    assert!(exists(&mut rig, &ledger(250)), "it may still be there");
    rig.rule = None;
    rig.run_for(1_200);
    assert!(!exists(&mut rig, &ledger(250)), "one more page than fits into two");
    assert!(exists(&mut rig, &ledger(1)), "its execution has ended, and is not gone");
    assert_eq!(rig.call(&["SCARD", &format!("{budget}:by_exec:index")]), Value::Int(1));
    assert_eq!(rig.field(&format!("{budget}:usage"), "tokens"), "20", "nothing is given back");
}

#[test]
fn g1_a_budget_with_room_releases() {
    let mut rig = settled(ScannerName::Unblock);
    rig.run(&format!("HSET ff:budget:{{b:0}}:{BUDGET}:limits hard:tokens 10 soft:tokens 1"));
    rig.run(&format!("HSET ff:budget:{{b:0}}:{BUDGET}:usage tokens 10"));
    let held = hold(&mut rig, 1, "budget", &format!("budget_ids {BUDGET}"));
    rig.run_for(2_500);
    assert!(!is_free(&mut rig, &held), "at the limit");
    rig.run(&format!("HSET ff:budget:{{b:0}}:{BUDGET}:usage tokens 9"));
    rig.run_for(2_500);
    assert!(is_free(&mut rig, &held));
}

#[test]
fn q1_a_slot_is_held_as_long_as_its_execution_runs() {
    let mut rig = settled(ScannerName::QuotaReconciler);
    plant(&mut rig, ScannerName::QuotaReconciler, 1);
    let quota = "ff:quota:{q:0}:00000000-0000-4000-8000-000000000001";
    rig.run(&format!("SADD {quota}:admitted_set nobody"));
    let held = |rig: &mut Rig| {
        rig.run_for(3_000);
        rig.call(&["GET", &format!("{quota}:concurrency")])
    };
    // No guard speaks for either: one is running, the other is no execution at all.
    for _ in 0..2 {
        assert_eq!(held(&mut rig), Value::Bulk(b"1".to_vec()));
    }
    rig.run(&format!("HSET {} lifecycle_phase terminal", core(&execution(1))));
    assert_eq!(held(&mut rig), Value::Bulk(b"0".to_vec()));
}

/// Admitted, and then held back before anybody claimed it: it would keep the slot from its own
/// parents, for ever.
#[test]
fn q1_a_holder_that_cannot_be_claimed_gives_its_slot_back() {
    for state in ["blocked_by_dependencies", "not_eligible_until_time", "blocked_by_operator"] {
        let mut rig = settled(ScannerName::QuotaReconciler);
        plant(&mut rig, ScannerName::QuotaReconciler, 1);
        let counter = "ff:quota:{q:0}:00000000-0000-4000-8000-000000000001:concurrency";
        rig.run_for(3_000);
        assert_eq!(rig.call(&["GET", counter]), Value::Bulk(b"1".to_vec()), "it may be claimed");
        rig.run(&format!("HSET {} eligibility_state {state}", core(&execution(1))));
        rig.run_for(3_000);
        assert_eq!(rig.call(&["GET", counter]), Value::Bulk(b"0".to_vec()), "{state}");
    }
}

#[test]
fn q3_a_holder_that_cannot_be_read_keeps_its_slot() {
    let mut rig = settled(ScannerName::QuotaReconciler);
    plant(&mut rig, ScannerName::QuotaReconciler, 1);
    rig.run(&format!("HSET {} lifecycle_phase terminal", core(&execution(1))));
    rig.rule = Some(Box::new(|command| {
        (command.argv[0] == b"HMGET")
            .then(|| Answer::PerhapsApplied(ServerError::silence("a blip")))
    }));
    let counter = "ff:quota:{q:0}:00000000-0000-4000-8000-000000000001:concurrency";
    rig.run_for(3_000);
    assert_eq!(rig.call(&["GET", counter]), Value::Bulk(b"1".to_vec()));
    rig.rule = None;
    rig.run_for(3_000);
    assert_eq!(rig.call(&["GET", counter]), Value::Bulk(b"0".to_vec()), "now it is known");
}

#[test]
fn q4_unblock_looks_at_the_window_that_admission_uses() {
    let mut rig = settled(ScannerName::Unblock);
    let quota = format!("ff:quota:{{q:0}}:{QUOTA}");
    rig.run(&format!("HSET {quota} max_requests_per_window 1 requests_per_window_seconds 10"));
    let admit = format!(
        "FCALL ff_check_admission_and_record 5 {quota}:window:default {quota}:concurrency {quota} \
         {quota}:admitted:{0} {quota}:admitted_set {1} 10 1 0 {0} 0",
        execution(500),
        rig.now_ms()
    );
    assert_eq!(rig.run(&admit), Value::Array(vec![Value::Bulk(b"ADMITTED".to_vec())]));
    let held = hold(&mut rig, 1, "quota", &format!("quota_policy_id {QUOTA}"));
    rig.run_for(8_000);
    assert!(!is_free(&mut rig, &held), "the window is full");
    rig.run_for(5_000);
    assert!(is_free(&mut rig, &held), "the window has passed");
}

#[test]
fn u1_those_who_wait_long_hide_nobody() {
    let mut rig = settled(ScannerName::Unblock);
    rig.run(&format!("HSET ff:budget:{{b:0}}:{BUDGET}:limits hard:tokens 10"));
    rig.run(&format!("HSET ff:budget:{{b:0}}:{BUDGET}:usage tokens 20"));
    for n in 0..250 {
        hold(&mut rig, n, "budget", &format!("budget_ids {BUDGET}"));
    }
    let other = hold(&mut rig, 900, "budget", "budget_ids 00000000-0000-4000-8000-000000000778");
    rig.run_for(1_200);
    assert!(is_free(&mut rig, &other));
    assert_eq!(released(&rig), 1);
}

#[test]
fn u2_ghosts_leave_the_index_and_u7_make_no_errors() {
    let mut rig = settled(ScannerName::Unblock);
    for n in 0..250 {
        rig.run(&format!("ZADD {} 1 {}", lane("blocked:quota"), execution(n)));
    }
    let held = hold(&mut rig, 900, "quota", "namespace ");
    rig.run_for(1_200);
    assert!(is_free(&mut rig, &held));
    assert!(!exists(&mut rig, &lane("blocked:quota")));
    assert_eq!(rig.tally(ScannerName::Unblock).errors(), 0);
}

#[test]
fn u3_capabilities_of_several_workers_do_not_add_up() {
    let mut rig = settled(ScannerName::Unblock);
    for (worker, caps) in [("a", "gpu"), ("b", "cuda")] {
        rig.run(&format!("SADD ff:idx:ns:workers {worker}"));
        rig.run(&format!("HSET ff:worker:ns:{worker}:caps caps_csv {caps}"));
    }
    let held = hold(&mut rig, 1, "route", "required_capabilities cuda,gpu");
    rig.run_for(5_000);
    assert!(!is_free(&mut rig, &held));
    assert_eq!(rig.trace, [""; 0], "nobody is moved to and fro");
    rig.run("HSET ff:worker:ns:b:caps caps_csv cuda,gpu,x");
    rig.run_for(2_500);
    assert!(is_free(&mut rig, &held));
}

#[test]
fn u4_one_free_slot_releases_one_the_oldest() {
    let mut rig = settled(ScannerName::Unblock);
    rig.run(&format!("HSET ff:quota:{{q:0}}:{QUOTA} active_concurrency_cap 3"));
    rig.run(&format!("SET ff:quota:{{q:0}}:{QUOTA}:concurrency 2"));
    let cores: Vec<String> =
        (0..250).map(|n| hold(&mut rig, n, "quota", &format!("quota_policy_id {QUOTA}"))).collect();
    rig.run_for(1_050);
    assert_eq!(released(&rig), 1, "over all pages");
    assert!(is_free(&mut rig, &cores[0]));
}

#[test]
fn u4_one_free_slot_releases_one_over_all_partitions() {
    let mut config = only(&[ScannerName::Unblock]);
    config.partitions.flow = NonZeroU16::new(8).unwrap();
    config.intervals.insert(ScannerName::Unblock, Duration::from_secs(60));
    let mut rig = Rig::new();
    rig.run(&format!("HSET ff:quota:{{q:0}}:{QUOTA} active_concurrency_cap 1"));
    for index in 0..8 {
        let id = format!("{{fp:{index}}}:00000000-0000-4000-8000-000000000001");
        rig.run(&format!(
            "HSET ff:exec:{{fp:{index}}}:{id}:core lifecycle_phase runnable lane_id default \
             eligibility_state blocked_by_quota blocking_reason waiting_for_quota quota_policy_id \
             {QUOTA}"
        ));
        rig.run(&format!("ZADD ff:idx:{{fp:{index}}}:lane:default:blocked:quota 1 {id}"));
    }
    rig.start(config);
    rig.run_for(50_000);
    assert_eq!(released(&rig), 1);
}

#[test]
fn u4_an_entry_that_nobody_holds_back_takes_the_free_slot_once() {
    let mut rig = settled(ScannerName::Unblock);
    rig.run(&format!("HSET ff:quota:{{q:0}}:{QUOTA} active_concurrency_cap 1"));
    let more = format!("quota_policy_id {QUOTA}");
    let stray = hold(&mut rig, 1, "quota", &more);
    rig.run(&format!("HSET {stray} eligibility_state eligible_now"));
    let held = hold(&mut rig, 2, "quota", &more);
    rig.run_for(3_500);
    assert!(is_free(&mut rig, &held), "{:#?}", rig.trace);
    assert_eq!(rig.call(&["ZSCORE", &lane("blocked:quota"), &execution(1)]), Value::Nil);
}

#[test]
fn u5_a_limit_that_cannot_be_read_keeps_its_candidate_waiting() {
    for (broken, reason, more) in [
        (format!("ff:budget:{{b:0}}:{BUDGET}:limits"), "budget", format!("budget_ids {BUDGET}")),
        (format!("ff:budget:{{b:0}}:{BUDGET}:usage"), "budget", format!("budget_ids {BUDGET}")),
        (format!("ff:quota:{{q:0}}:{QUOTA}"), "quota", format!("quota_policy_id {QUOTA}")),
    ] {
        let mut rig = settled(ScannerName::Unblock);
        rig.run(&format!("SET {broken} text"));
        let held = hold(&mut rig, 1, reason, &more);
        rig.run_for(2_500);
        assert!(!is_free(&mut rig, &held), "{broken}");
        assert!(rig.tally(ScannerName::Unblock).failed > 0, "{broken}");
    }
}

#[test]
fn u5_a_worker_that_cannot_be_read_may_be_the_one_and_the_claim_compares_again() {
    for broken in ["ff:idx:ns:workers", "ff:worker:ns:odd:caps"] {
        let mut rig = settled(ScannerName::Unblock);
        if broken.ends_with("caps") {
            rig.run("SADD ff:idx:ns:workers odd");
        }
        rig.run(&format!("SET {broken} text"));
        let held = hold(&mut rig, 1, "route", "required_capabilities gpu");
        rig.run_for(2_500);
        assert!(is_free(&mut rig, &held), "{broken}");
    }
}

#[test]
fn u5_a_server_that_does_not_answer_says_nothing_about_workers() {
    let mut rig = settled(ScannerName::Unblock);
    rig.run("SADD ff:idx:ns:workers one");
    let held = hold(&mut rig, 1, "route", "required_capabilities gpu");
    rig.rule = Some(Box::new(|command| {
        (command.argv[0] == b"HGET").then(|| Answer::PerhapsApplied(ServerError::silence("a blip")))
    }));
    rig.run_for(5_000);
    assert!(!is_free(&mut rig, &held));
    let tally = rig.tally(ScannerName::Unblock);
    assert!(tally.deferred >= 2 && tally.errors() == tally.deferred, "{tally:?}");
}

#[test]
fn requirements_that_are_none_are_for_a_person_to_look_at() {
    let mut rig = settled(ScannerName::Unblock);
    let held = hold(&mut rig, 1, "route", "required_capabilities a,\u{7}");
    rig.run_for(10_000);
    assert!(!is_free(&mut rig, &held));
    assert_eq!(rig.tally(ScannerName::Unblock).failed, 3, "and then it is left alone");
}

#[test]
fn u6_dead_workers_do_not_hide_the_one_that_can() {
    let mut rig = settled(ScannerName::Unblock);
    for n in 0..1_200 {
        rig.run(&format!("SADD ff:idx:ns:workers dead-{n}"));
    }
    for n in 0..3 {
        rig.run(&format!("SADD ff:idx:ns:workers live-{n}"));
        rig.run(&format!("HSET ff:worker:ns:live-{n}:caps caps_csv gpu"));
    }
    // Only the last in the set's order is able.
    let Value::Array(order) = rig.run("SMEMBERS ff:idx:ns:workers") else { panic!("a set") };
    let last = order.iter().rev().find_map(|member| match member {
        Value::Bulk(name) if name.starts_with(b"live") => Some(String::from_utf8_lossy(name)),
        _ => None,
    });
    rig.run(&format!("HSET ff:worker:ns:{}:caps caps_csv gpu,rare", last.unwrap()));
    let held = hold(&mut rig, 1, "route", "required_capabilities rare");
    rig.run_for(1_200);
    assert!(is_free(&mut rig, &held));
}

#[test]
fn u6_a_page_of_candidates_reads_a_budget_once() {
    let mut rig = settled(ScannerName::Unblock);
    rig.run(&format!("HSET ff:budget:{{b:0}}:{BUDGET}:limits hard:tokens 10"));
    rig.run(&format!("HSET ff:budget:{{b:0}}:{BUDGET}:usage tokens 20"));
    for n in 0..90 {
        hold(&mut rig, n, "budget", &format!("budget_ids {BUDGET}"));
    }
    let before = rig.commands;
    rig.run_for(1_050);
    let sent = rig.commands - before;
    assert!(sent <= 90 + 2 + 4, "{sent} commands for 90 candidates of one budget");
}

#[test]
fn i1_memberships_are_repaired_and_orphans_go() {
    let mut rig = settled(ScannerName::IndexReconciler);
    let (missing, surplus, orphan) = (execution(1), execution(2), execution(3));
    rig.create(&missing, "{}");
    rig.run(&format!("ZREM {} {missing}", lane("eligible")));
    rig.create(&surplus, "{}");
    rig.run(&format!("ZADD {} 1 {surplus}", lane("delayed")));
    rig.run(&format!("SADD ff:idx:{{fp:0}}:all_executions {orphan}"));
    rig.run_for(1_200);
    assert_eq!(rig.tally(ScannerName::IndexReconciler).processed, 3);
    assert_ne!(rig.call(&["ZSCORE", &lane("eligible"), &missing]), Value::Nil);
    assert_eq!(rig.call(&["ZSCORE", &lane("delayed"), &surplus]), Value::Nil);
    let listed = rig.call(&["SISMEMBER", "ff:idx:{fp:0}:all_executions", &orphan]);
    assert_eq!(listed, Value::Int(0));
}

#[test]
fn i3_a_pass_over_all_executions_is_pipelined_and_leaves_no_phase_out() {
    let mut rig = settled(ScannerName::IndexReconciler);
    for n in 0..300 {
        rig.create(&execution(n), "{}");
    }
    let lost = execution(7);
    rig.claim(&lost, 1_000);
    rig.run(&format!("HSET {} ownership_state lease_expired_reclaimable", core(&lost)));
    rig.run(&format!("ZREM {} {lost}", lane("active")));
    let before = (rig.commands, rig.batches);
    rig.run_for(1_150);
    assert_ne!(rig.call(&["ZSCORE", &lane("active"), &lost]), Value::Nil, "repaired");
    let (commands, batches) = (rig.commands - before.0, rig.batches - before.1);
    assert!(commands <= 300 + 10 && batches <= 20, "{commands} commands in {batches} batches");
}

#[test]
fn v1_a_stop_is_heeded_while_everything_fails_and_v2_health_is_told() {
    let mut rig = settled(ScannerName::Unblock);
    rig.rule =
        Some(Box::new(|_| Some(Answer::NotApplied(ServerError::never_sent("nobody is there")))));
    rig.run_for(20_000);
    let failures = |rig: &Rig| {
        let facts = rig.facts.iter();
        facts.filter(|(_, fact)| matches!(fact, Observation::PartitionFailed { .. })).count()
    };
    let told = failures(&rig);
    // Once a second at first, then with growing pauses; never silent.
    assert!((3..=9).contains(&told), "{told}");
    rig.tell(0, selvedge_core::engine::Input::Drain);
    assert!(rig.engine(0).unwrap().is_drained(), "no pause is waited for");
}

#[test]
fn v2_every_scanner_tells_of_every_cycle() {
    let mut rig = Rig::new();
    rig.start(only(&[]));
    rig.run_for(10);
    for &name in ScannerName::ALL {
        let told = rig.facts.iter().any(
            |(_, fact)| matches!(fact, Observation::CycleDone { scanner, .. } if *scanner == name),
        );
        assert!(told, "{name}");
    }
}
