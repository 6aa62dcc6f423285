//! Executions that admission held are released when their reason is over.

use std::num::NonZeroU16;
use std::time::Duration;

use selvedge_core::command::Answer;
use selvedge_core::engine::ScannerName;
use selvedge_core::error::ServerError;
use selvedge_core::value::Value;
use selvedge_tests::harness::Harness;

use crate::fixtures::{ClientCalls, core, every_second, execution, exists, lane, only, settled};

const BUDGET: &str = "00000000-0000-4000-8000-000000000777";
const QUOTA: &str = "00000000-0000-4000-8000-000000000888";

/// An execution that is held for `reason`, with more fields on its record.
fn hold(harness: &mut Harness, n: usize, reason: &str, more: &str) -> String {
    let id = execution(n);
    let word = match reason {
        "route" => "capable_worker",
        other => other,
    };
    harness.create(&id, "{}");
    harness.run(&format!("ZREM {} {id}", lane("eligible")));
    harness.run(&format!(
        "HSET {} eligibility_state blocked_by_{reason} blocking_reason waiting_for_{word} {more}",
        core(&id)
    ));
    harness.run(&format!("ZADD {} {n} {id}", lane(&format!("blocked:{reason}"))));
    core(&id)
}

fn is_free(harness: &mut Harness, core: &str) -> bool {
    harness.field(core, "eligibility_state") == "eligible_now"
}

fn released(harness: &Harness) -> u64 {
    harness.counts(ScannerName::Unblock).processed
}

#[test]
fn g1_a_budget_with_room_releases() {
    let mut harness = settled(every_second(ScannerName::Unblock, 1));
    harness.run(&format!("HSET ff:budget:{{b:0}}:{BUDGET}:limits hard:tokens 10 soft:tokens 1"));
    harness.run(&format!("HSET ff:budget:{{b:0}}:{BUDGET}:usage tokens 10"));
    let held = hold(&mut harness, 1, "budget", &format!("budget_ids {BUDGET}"));
    harness.run_for(2_500);
    assert!(!is_free(&mut harness, &held), "at the limit");
    harness.run(&format!("HSET ff:budget:{{b:0}}:{BUDGET}:usage tokens 9"));
    harness.run_for(2_500);
    assert!(is_free(&mut harness, &held));
}

#[test]
fn q4_unblock_looks_at_the_window_that_admission_uses() {
    let mut harness = settled(every_second(ScannerName::Unblock, 1));
    let quota = format!("ff:quota:{{q:0}}:{QUOTA}");
    harness.run(&format!("HSET {quota} max_requests_per_window 1 requests_per_window_seconds 10"));
    let admit = format!(
        "FCALL ff_check_admission_and_record 5 {quota}:window:default {quota}:concurrency {quota} \
         {quota}:admitted:{0} {quota}:admitted_set {1} 10 1 0 {0} 0",
        execution(500),
        harness.now_ms()
    );
    assert_eq!(harness.run(&admit), Value::Array(vec![Value::Bulk(b"ADMITTED".to_vec())]));
    let held = hold(&mut harness, 1, "quota", &format!("quota_policy_id {QUOTA}"));
    harness.run_for(8_000);
    assert!(!is_free(&mut harness, &held), "the window is full");
    harness.run_for(5_000);
    assert!(is_free(&mut harness, &held), "the window has passed");
}

#[test]
fn u1_executions_that_wait_long_hide_no_other() {
    let mut harness = settled(every_second(ScannerName::Unblock, 1));
    harness.run(&format!("HSET ff:budget:{{b:0}}:{BUDGET}:limits hard:tokens 10"));
    harness.run(&format!("HSET ff:budget:{{b:0}}:{BUDGET}:usage tokens 20"));
    for n in 0..250 {
        hold(&mut harness, n, "budget", &format!("budget_ids {BUDGET}"));
    }
    let other =
        hold(&mut harness, 900, "budget", "budget_ids 00000000-0000-4000-8000-000000000778");
    harness.run_for(1_200);
    assert!(is_free(&mut harness, &other));
    assert_eq!(released(&harness), 1);
}

#[test]
fn u2_entries_without_a_record_leave_the_index_and_u7_are_no_errors() {
    let mut harness = settled(every_second(ScannerName::Unblock, 1));
    for n in 0..250 {
        harness.run(&format!("ZADD {} 1 {}", lane("blocked:quota"), execution(n)));
    }
    let held = hold(&mut harness, 900, "quota", "namespace ");
    harness.run_for(1_200);
    assert!(is_free(&mut harness, &held));
    assert!(!exists(&mut harness, &lane("blocked:quota")));
    assert_eq!(harness.counts(ScannerName::Unblock).errors(), 0);
}

#[test]
fn u3_capabilities_of_several_workers_do_not_add_up() {
    let mut harness = settled(every_second(ScannerName::Unblock, 1));
    for (worker, caps) in [("a", "gpu"), ("b", "cuda")] {
        harness.run(&format!("SADD ff:idx:ns:workers {worker}"));
        harness.run(&format!("HSET ff:worker:ns:{worker}:caps caps_csv {caps}"));
    }
    let held = hold(&mut harness, 1, "route", "required_capabilities cuda,gpu");
    harness.run_for(5_000);
    assert!(!is_free(&mut harness, &held));
    assert_eq!(harness.trace, [""; 0], "nothing is moved back and forth");
    harness.run("HSET ff:worker:ns:b:caps caps_csv cuda,gpu,x");
    harness.run_for(2_500);
    assert!(is_free(&mut harness, &held));
}

#[test]
fn u4_one_free_slot_releases_one_the_oldest() {
    let mut harness = settled(every_second(ScannerName::Unblock, 1));
    harness.run(&format!("HSET ff:quota:{{q:0}}:{QUOTA} active_concurrency_cap 3"));
    harness.run(&format!("SET ff:quota:{{q:0}}:{QUOTA}:concurrency 2"));
    let cores: Vec<String> = (0..250)
        .map(|n| hold(&mut harness, n, "quota", &format!("quota_policy_id {QUOTA}")))
        .collect();
    harness.run_for(1_200);
    assert_eq!(released(&harness), 1, "over all pages");
    assert!(is_free(&mut harness, &cores[0]));
}

#[test]
fn u4_one_free_slot_releases_one_over_all_partitions() {
    let mut config = only(&[ScannerName::Unblock]);
    config.partitions.flow = NonZeroU16::new(8).unwrap();
    config.intervals.insert(ScannerName::Unblock, Duration::from_secs(60));
    let mut harness = Harness::new();
    harness.run(&format!("HSET ff:quota:{{q:0}}:{QUOTA} active_concurrency_cap 1"));
    for index in 0..8 {
        let id = format!("{{fp:{index}}}:00000000-0000-4000-8000-000000000001");
        harness.run(&format!(
            "HSET ff:exec:{{fp:{index}}}:{id}:core lifecycle_phase runnable lane_id default \
             eligibility_state blocked_by_quota blocking_reason waiting_for_quota quota_policy_id \
             {QUOTA}"
        ));
        harness.run(&format!("ZADD ff:idx:{{fp:{index}}}:lane:default:blocked:quota 1 {id}"));
    }
    harness.start(config);
    harness.run_for(50_000);
    assert_eq!(released(&harness), 1);
}

#[test]
fn u4_an_entry_that_is_not_held_takes_the_free_slot_once() {
    let mut harness = settled(every_second(ScannerName::Unblock, 1));
    harness.run(&format!("HSET ff:quota:{{q:0}}:{QUOTA} active_concurrency_cap 1"));
    let more = format!("quota_policy_id {QUOTA}");
    let stray = hold(&mut harness, 1, "quota", &more);
    harness.run(&format!("HSET {stray} eligibility_state eligible_now"));
    let held = hold(&mut harness, 2, "quota", &more);
    harness.run_for(3_500);
    assert!(is_free(&mut harness, &held), "{:#?}", harness.trace);
    assert_eq!(harness.call(&["ZSCORE", &lane("blocked:quota"), &execution(1)]), Value::Nil);
}

#[test]
fn u5_a_limit_that_cannot_be_read_keeps_its_candidate_waiting() {
    for (broken, reason, more) in [
        (format!("ff:budget:{{b:0}}:{BUDGET}:limits"), "budget", format!("budget_ids {BUDGET}")),
        (format!("ff:budget:{{b:0}}:{BUDGET}:usage"), "budget", format!("budget_ids {BUDGET}")),
        (format!("ff:quota:{{q:0}}:{QUOTA}"), "quota", format!("quota_policy_id {QUOTA}")),
    ] {
        let mut harness = settled(every_second(ScannerName::Unblock, 1));
        harness.run(&format!("SET {broken} text"));
        let held = hold(&mut harness, 1, reason, &more);
        harness.run_for(2_500);
        assert!(!is_free(&mut harness, &held), "{broken}");
        assert!(harness.counts(ScannerName::Unblock).failed > 0, "{broken}");
    }
}

#[test]
fn u5_a_worker_that_cannot_be_read_counts_as_capable() {
    for broken in ["ff:idx:ns:workers", "ff:worker:ns:odd:caps"] {
        let mut harness = settled(every_second(ScannerName::Unblock, 1));
        if broken.ends_with("caps") {
            harness.run("SADD ff:idx:ns:workers odd");
        }
        harness.run(&format!("SET {broken} text"));
        let held = hold(&mut harness, 1, "route", "required_capabilities gpu");
        harness.run_for(2_500);
        assert!(is_free(&mut harness, &held), "{broken}");
    }
}

#[test]
fn u5_without_an_answer_about_workers_the_candidate_stays_held() {
    let mut harness = settled(every_second(ScannerName::Unblock, 1));
    harness.run("SADD ff:idx:ns:workers one");
    let held = hold(&mut harness, 1, "route", "required_capabilities gpu");
    harness.rule = Some(Box::new(|command| {
        (command.argv[0] == b"HGET").then(|| Answer::PerhapsApplied(ServerError::silence("a blip")))
    }));
    harness.run_for(5_000);
    assert!(!is_free(&mut harness, &held));
    let counts = harness.counts(ScannerName::Unblock);
    assert!(counts.deferred >= 2 && counts.errors() == counts.deferred, "{counts:?}");
}

#[test]
fn requirements_that_cannot_be_read_are_a_failure() {
    let mut harness = settled(every_second(ScannerName::Unblock, 1));
    let held = hold(&mut harness, 1, "route", "required_capabilities a,\u{7}");
    harness.run_for(10_000);
    assert!(!is_free(&mut harness, &held));
    assert_eq!(harness.counts(ScannerName::Unblock).failed, 3, "and then it is left alone");
}

#[test]
fn u6_workers_that_are_gone_do_not_hide_the_capable_one() {
    let mut harness = settled(every_second(ScannerName::Unblock, 1));
    for n in 0..1_200 {
        harness.run(&format!("SADD ff:idx:ns:workers dead-{n}"));
    }
    for n in 0..3 {
        harness.run(&format!("SADD ff:idx:ns:workers live-{n}"));
        harness.run(&format!("HSET ff:worker:ns:live-{n}:caps caps_csv gpu"));
    }
    // Only the last in the set's order has the capability.
    let Value::Array(order) = harness.run("SMEMBERS ff:idx:ns:workers") else { panic!("a set") };
    let last = order.iter().rev().find_map(|member| match member {
        Value::Bulk(name) if name.starts_with(b"live") => Some(String::from_utf8_lossy(name)),
        _ => None,
    });
    harness.run(&format!("HSET ff:worker:ns:{}:caps caps_csv gpu,rare", last.unwrap()));
    let held = hold(&mut harness, 1, "route", "required_capabilities rare");
    harness.run_for(1_200);
    assert!(is_free(&mut harness, &held));
}

#[test]
fn u6_a_page_of_candidates_reads_a_budget_once() {
    let mut harness = settled(every_second(ScannerName::Unblock, 1));
    harness.run(&format!("HSET ff:budget:{{b:0}}:{BUDGET}:limits hard:tokens 10"));
    harness.run(&format!("HSET ff:budget:{{b:0}}:{BUDGET}:usage tokens 20"));
    for n in 0..90 {
        hold(&mut harness, n, "budget", &format!("budget_ids {BUDGET}"));
    }
    let before = harness.commands;
    harness.run_for(1_050);
    let sent = harness.commands - before;
    assert!(sent <= 90 + 2 + 4, "{sent} commands for 90 candidates of one budget");
}
