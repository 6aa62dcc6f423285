//! Weak spots of runner, tracker, filter, leases, delays and timeouts, each by its code.

use std::num::NonZeroU16;
use std::time::Duration;

use selvedge_core::engine::tracker::Tracker;
use selvedge_core::engine::{Answer, EngineConfig, Filter, Input, Observation, ScannerName, Tally};
use selvedge_core::partition::{Family, Partition};
use selvedge_core::value::Value;
use selvedge_lua::host::Host;
use selvedge_tests::rig::{EPOCH_MS, Rig};

use crate::kit::{World, core, execution, lane, only};
use crate::rows::plant;

/// Only one scanner, once a second, over so many flow partitions.
fn every_second(name: ScannerName, partitions: u16) -> EngineConfig {
    let mut config = only(&[name]);
    config.partitions.flow = NonZeroU16::new(partitions).unwrap();
    config.intervals.insert(name, Duration::from_secs(1));
    config
}

/// A rig whose engine has settled.
fn settled(config: EngineConfig) -> Rig {
    let mut rig = Rig::new();
    rig.start(config);
    rig.run_for(10);
    rig
}

/// A due delayed execution on any partition and lane; answers the key of its record.
fn delay(rig: &mut Rig, partition: u16, lane: &str, n: usize) -> String {
    let id = format!("{{fp:{partition}}}:00000000-0000-4000-8000-{n:012}");
    let core = format!("ff:exec:{{fp:{partition}}}:{id}:core");
    rig.run(&format!(
        "HSET {core} lifecycle_phase runnable eligibility_state not_eligible_until_time \
         delay_until 500 public_state delayed lane_id {lane}"
    ));
    rig.run(&format!("ZADD ff:idx:{{fp:{partition}}}:lane:{lane}:delayed 500 {id}"));
    core
}

fn flow_slot(index: u16) -> u16 {
    Partition { family: Family::Flow, index }.slot()
}

fn backed_off(rig: &Rig) -> usize {
    let facts = rig.facts.iter();
    facts.filter(|(_, fact)| matches!(fact, Observation::ItemBackedOff { .. })).count()
}

#[test]
fn r2_a_partial_gauge_is_never_written() {
    for broken in 0..3 {
        let mut rig = Rig::new();
        for partition in 0..3 {
            let key = format!("ff:idx:{{fp:{partition}}}:cancel_backlog");
            rig.run(&match partition == broken {
                true => format!("SET {key} text"),
                false => format!("ZADD {key} 9999999999999 00000000-0000-4000-8000-000000000001"),
            });
        }
        rig.start(every_second(ScannerName::CancelReconciler, 3));
        rig.run_for(5_000);
        let gauges = |rig: &Rig| {
            let facts = rig.facts.iter().map(|(_, fact)| fact.clone());
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
        assert_eq!(gauges(&rig), [Observation::CancelBacklogPartial], "broken: {broken}");
        rig.run(&format!("DEL ff:idx:{{fp:{broken}}}:cancel_backlog"));
        rig.run_for(5_000);
        let after = gauges(&rig);
        assert_eq!(after.last(), Some(&Observation::CancelBacklog(2)), "broken: {broken}");
    }
}

#[test]
fn r4_a_dead_partition_delays_no_other() {
    let mut rig = settled(every_second(ScannerName::DelayedPromoter, 4));
    rig.dead_slots.insert(flow_slot(1));
    let cores: Vec<String> = (0..4).map(|at| delay(&mut rig, at, "default", 1)).collect();
    rig.run_for(2_500);
    for at in [0, 2, 3] {
        assert_eq!(rig.field(&cores[at], "public_state"), "waiting", "partition {at}");
    }
    assert_eq!(rig.field(&cores[1], "public_state"), "delayed");
    rig.dead_slots.clear();
    rig.run_for(60_000);
    assert_eq!(rig.field(&cores[1], "public_state"), "waiting", "it comes back");
}

#[test]
fn r6_a_thousand_due_at_once_do_not_wait_for_the_next_interval() {
    let mut rig = settled(every_second(ScannerName::DelayedPromoter, 1));
    for n in 0..1_000 {
        delay(&mut rig, 0, "default", n);
    }
    rig.run_for(2_300);
    assert_eq!(rig.tally(ScannerName::DelayedPromoter).processed, 1_000);
}

#[test]
fn r6_past_the_fairness_bound_the_scan_comes_back_at_the_floor() {
    let mut config = every_second(ScannerName::DelayedPromoter, 1);
    config.intervals.insert(ScannerName::DelayedPromoter, Duration::from_secs(60));
    let mut rig = settled(config);
    for n in 0..4_500 {
        delay(&mut rig, 0, "default", n);
    }
    rig.tell(0, Input::LibraryLoaded);
    assert_eq!(rig.tally(ScannerName::DelayedPromoter).processed, 2_000, "its share");
    rig.run_for(300);
    assert_eq!(rig.tally(ScannerName::DelayedPromoter).processed, 4_500);
}

#[test]
fn r7_nothing_to_do_is_not_counted_as_work() {
    let mut rig = settled(every_second(ScannerName::LeaseExpiry, 1));
    plant(&mut rig, ScannerName::LeaseExpiry, 1);
    rig.run_for(10_000);
    let tally = rig.tally(ScannerName::LeaseExpiry);
    assert_eq!(tally.processed, 1);
    assert!(tally.nothing >= 4, "the mark stays and is seen again: {tally:?}");
    assert_eq!(tally.errors(), 0);
}

#[test]
fn r8_a_clock_that_is_ahead_expires_nothing_early() {
    for name in [
        ScannerName::AttemptTimeout,
        ScannerName::ExecutionDeadline,
        ScannerName::PendingWpExpiry,
        ScannerName::BudgetReset,
    ] {
        let mut rig = settled(every_second(name, 1));
        let due = EPOCH_MS + 60_000;
        plant(&mut rig, name, 1);
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
        rig.run(&format!("ZADD ff:idx:{index} {due} {member}"));
        if let Some(record) = record {
            rig.run(&format!("HSET {record} expires_at {due}"));
        }
        // The clock of pages runs an hour ahead of the clock of calls.
        rig.meddler = Some(Box::new(|host: &mut Host, command| {
            let page = command.argv[1] == b"ff_scan_partition";
            host.set_now_us((EPOCH_MS + if page { 3_600_000 } else { 5_000 }) * 1_000);
        }));
        rig.run_for(5_000);
        assert!(!rig.trace.is_empty(), "{name}");
        for line in &rig.trace {
            assert!(line.contains("not_due") || line.contains("not_yet_due"), "{name}: {line}");
        }
        assert_eq!(rig.tally(name).processed, 0, "{name}");
    }
}

#[test]
fn r9_lanes_of_the_registry_are_served_too() {
    for configured in [vec!["default".parse().unwrap()], vec![]] {
        let mut config = every_second(ScannerName::DelayedPromoter, 1);
        config.lanes = configured;
        let mut rig = settled(config);
        let core = delay(&mut rig, 0, "x", 1);
        rig.run_for(3_000);
        assert_eq!(rig.field(&core, "public_state"), "delayed", "nobody knows the lane");
        rig.tell(0, Input::Lanes(vec!["x".parse().unwrap()]));
        rig.run_for(3_000);
        assert_eq!(rig.field(&core, "public_state"), "waiting");
    }
}

#[test]
fn r9_what_waits_in_a_new_lane_is_found_at_once_by_every_scanner_of_lanes() {
    let mut rig = settled(only(&[]));
    let delayed = delay(&mut rig, 0, "x", 1);
    let held = core(&execution(2));
    rig.run(&format!(
        "HSET {held} lifecycle_phase runnable eligibility_state blocked_by_budget lane_id x \
         blocking_reason waiting_for_budget"
    ));
    rig.run(&format!("ZADD ff:idx:{{fp:0}}:lane:x:blocked:budget 1 {}", execution(2)));
    rig.tell(0, Input::Lanes(vec!["x".parse().unwrap(), "y".parse().unwrap()]));
    assert_eq!(rig.field(&delayed, "public_state"), "waiting");
    assert_eq!(rig.field(&held, "eligibility_state"), "eligible_now");
    // Told of nothing new, it does nothing new.
    let before = rig.commands;
    rig.tell(0, Input::Lanes(vec!["y".parse().unwrap(), "x".parse().unwrap()]));
    assert_eq!(rig.commands, before);
}

#[test]
fn r9_many_lanes_are_read_in_calls_of_bounded_length() {
    let mut rig = Rig::new();
    let lanes = (0..500).map(|n| format!("lane-{n}").parse().unwrap()).collect();
    let longest = std::rc::Rc::new(std::cell::Cell::new(0));
    let seen = longest.clone();
    rig.rule = Some(Box::new(move |command| {
        seen.set(seen.get().max(command.argv.len()));
        None
    }));
    let core = delay(&mut rig, 0, "lane-499", 1);
    rig.start(EngineConfig { lanes, ..only(&[]) });
    rig.run_for(10);
    assert_eq!(rig.field(&core, "public_state"), "waiting");
    // A page is a key and four arguments.
    assert!((64..=64 * 5 + 3).contains(&longest.get()), "{} words", longest.get());
}

#[test]
fn f6_items_that_vanished_are_forgotten_and_no_count_is_reset() {
    let mut tracker = Tracker::default();
    for n in 0..400 {
        tracker.failed(&format!("gone-{n}"));
    }
    for cycle in 1..=120 {
        tracker.advance_to(cycle);
        // Fails now and then: the third time is the third time.
        if [40, 48, 56].contains(&cycle) {
            assert_eq!(tracker.failed("slow"), cycle == 56, "in cycle {cycle}");
        }
    }
    assert_eq!(tracker.len(), 0, "nobody is remembered for ever");
}

#[test]
fn f1_backed_off_items_at_the_head_never_hide_what_is_behind() {
    let mut rig = settled(every_second(ScannerName::DelayedPromoter, 1));
    for n in 0..60 {
        rig.run(&format!("SET {} text", core(&execution(n))));
        rig.run(&format!("ZADD {} {n} {}", lane("delayed"), execution(n)));
    }
    rig.run_for(6_000);
    assert_eq!(backed_off(&rig), 60);
    let before = rig.tally(ScannerName::DelayedPromoter);
    assert_eq!((before.processed, before.failed), (0, 180));
    let healthy = delay(&mut rig, 0, "default", 99);
    rig.run_for(2_300);
    assert_eq!(rig.field(&healthy, "public_state"), "waiting");
    let after = rig.tally(ScannerName::DelayedPromoter);
    assert_eq!((after.processed, after.failed), (1, 180));
}

#[test]
fn f2_a_partition_that_fails_freezes_no_clock() {
    for dead in [true, false] {
        let mut rig = settled(every_second(ScannerName::DelayedPromoter, 2));
        if dead {
            rig.dead_slots.insert(flow_slot(0));
        } else {
            rig.run(&format!("SET {} text", lane("delayed")));
        }
        let core = delay(&mut rig, 1, "default", 1);
        rig.run(&format!("RENAME {core} {{fp:1}}kept"));
        rig.run(&format!("SET {core} text"));
        rig.run_for(6_000);
        assert_eq!(backed_off(&rig), 1);
        rig.run(&format!("DEL {core}"));
        rig.run(&format!("RENAME {{fp:1}}kept {core}"));
        rig.run_for(14_000);
        assert_eq!(rig.field(&core, "public_state"), "waiting", "dead: {dead}");
    }
}

#[test]
fn f3_three_tries_then_rest_until_the_tenth_cycle() {
    let mut rig = settled(every_second(ScannerName::DelayedPromoter, 1));
    rig.run(&format!("SET {} text", core(&execution(1))));
    rig.run(&format!("ZADD {} 1 {}", lane("delayed"), execution(1)));
    let mut tries = Vec::new();
    for second in 0..30 {
        let before = rig.trace.len();
        rig.run_for(1_000);
        tries.extend(std::iter::repeat_n(second, rig.trace.len() - before));
    }
    let bouts: Vec<&[i32]> = tries.chunks(3).collect();
    assert!(bouts.len() >= 2, "{tries:?}");
    assert!(bouts[0][2] - bouts[0][0] <= 4, "three tries in a row: {tries:?}");
    let rest = bouts[1][0] - bouts[0][2];
    assert!((9..=12).contains(&rest), "rested for {rest} cycles: {tries:?}");
}

#[test]
fn f4_refusals_are_charged_like_failures() {
    let mut rig = settled(every_second(ScannerName::DelayedPromoter, 1));
    delay(&mut rig, 0, "default", 1);
    rig.rule = Some(Box::new(|command| {
        let refusal = vec![Value::Int(0), Value::Bulk(b"invalid_input".to_vec())];
        (command.argv[1] == b"ff_promote_delayed").then_some(Answer::Applied(Value::Array(refusal)))
    }));
    rig.run_for(9_000);
    let tally = rig.tally(ScannerName::DelayedPromoter);
    assert_eq!((tally.processed, tally.refused), (0, 3), "{tally:?}");
    assert_eq!(backed_off(&rig), 1);
}

#[test]
fn t1_foreign_candidates_never_hide_ours_and_t2_cost_two_reads_in_one_batch() {
    let mut config = every_second(ScannerName::DelayedPromoter, 1);
    config.filter = Filter { namespace: Some("ours".into()), instance_tag: None };
    let mut rig = settled(config);
    for n in 0..120 {
        let core = delay(&mut rig, 0, "default", n);
        rig.run(&format!("HSET {core} namespace {}", if n == 119 { "ours" } else { "other" }));
    }
    let batches = rig.batches;
    rig.tell(0, Input::LibraryLoaded);
    let tally = rig.tally(ScannerName::DelayedPromoter);
    assert_eq!(tally, Tally { processed: 1, skipped: 119, ..Tally::default() });
    // Of this scanner: three pages, three batches of reads, one call. The rest visits nothing.
    let sent = rig.batches - batches;
    assert!(sent <= 7 + 3, "{sent} batches");
}

#[test]
fn l2_a_lease_without_an_end_is_lost_and_blocks_nobody() {
    let mut rig = settled(every_second(ScannerName::LeaseExpiry, 1));
    plant(&mut rig, ScannerName::LeaseExpiry, 1);
    rig.run(&format!("HSET {} lease_expires_at ", core(&execution(1))));
    rig.run_for(3_000);
    assert_eq!(rig.field(&core(&execution(1)), "ownership_state"), "lease_expired_reclaimable");
}

#[test]
fn l3_a_revoked_lease_is_found_without_the_expiry_index() {
    let mut rig = settled(every_second(ScannerName::LeaseReclaimer, 1));
    let id = execution(1);
    rig.create(&id, "{}");
    rig.claim(&id, 600_000);
    let exec = |part: &str| format!("ff:exec:{{fp:0}}:{id}:{part}");
    let reply = rig.run(&format!(
        "FCALL ff_revoke_lease 5 {} {} {} ff:idx:{{fp:0}}:lease_expiry \
         ff:idx:{{fp:0}}:worker:wi:leases {id}  operator",
        core(&id),
        exec("lease:current"),
        exec("lease:history"),
    ));
    crate::kit::assert_ok(&reply);
    rig.run_for(6_000);
    assert_eq!(rig.field(&core(&id), "public_state"), "waiting");
    assert_eq!(rig.tally(ScannerName::LeaseReclaimer).processed, 1);
}

#[test]
fn l3_what_the_active_index_lists_without_reason_hides_no_lost_lease() {
    let mut rig = settled(every_second(ScannerName::LeaseReclaimer, 1));
    for n in 0..120 {
        rig.run(&format!("ZADD {} {n} {}", lane("active"), execution(n)));
    }
    let id = execution(500);
    rig.create(&id, "{}");
    rig.claim(&id, 1_000);
    rig.run(&format!("ZREM ff:idx:{{fp:0}}:lease_expiry {id}"));
    rig.run_for(7_000);
    assert_eq!(rig.field(&core(&id), "public_state"), "waiting");
    assert_eq!(rig.call(&["ZCARD", &lane("active")]), Value::Int(0));
}

#[test]
fn p2_fifty_delays_without_a_time_do_not_stop_the_lane() {
    let mut rig = settled(every_second(ScannerName::DelayedPromoter, 1));
    for n in 0..61 {
        let core = delay(&mut rig, 0, "default", n);
        if n < 60 {
            rig.run(&format!("HDEL {core} delay_until"));
        }
    }
    rig.run_for(2_300);
    assert_eq!(rig.tally(ScannerName::DelayedPromoter).processed, 61);
}

#[test]
fn a1_an_attempt_that_ended_in_time_is_not_expired() {
    let mut rig = settled(every_second(ScannerName::AttemptTimeout, 1));
    plant(&mut rig, ScannerName::AttemptTimeout, 1);
    let core = core(&execution(1));
    let key = core.clone();
    rig.meddler = Some(Box::new(move |host: &mut Host, command| {
        if command.argv[1] == b"ff_expire_if_due" {
            host.call(&["HSET", &key, "lifecycle_phase", "runnable"]);
        }
    }));
    rig.run_for(2_300);
    assert_eq!(rig.trace, ["engine-1 expire_if_due X1 -> not_due"]);
    assert_eq!(rig.field(&core, "lifecycle_phase"), "runnable");
}

#[test]
fn a2_a_newer_attempt_is_not_ended_by_an_older_ones_timeout() {
    let mut rig = settled(every_second(ScannerName::AttemptTimeout, 1));
    plant(&mut rig, ScannerName::AttemptTimeout, 1);
    let core = core(&execution(1));
    let key = core.clone();
    rig.meddler = Some(Box::new(move |host: &mut Host, command| {
        if command.argv[1] == b"ff_expire_if_due" {
            host.call(&["HINCRBY", &key, "current_attempt_index", "1"]);
        }
    }));
    rig.run_for(4_000);
    assert!(rig.trace.len() >= 2);
    assert!(rig.trace.iter().all(|line| line.contains("other_attempt")), "{:?}", rig.trace);
    assert_eq!(rig.field(&core, "lifecycle_phase"), "active");
}

#[test]
fn s3_a_second_suspension_keeps_its_waitpoint() {
    let mut rig = settled(every_second(ScannerName::SuspensionTimeout, 1));
    plant(&mut rig, ScannerName::SuspensionTimeout, 1);
    let id = execution(1);
    let suspension = format!("ff:exec:{{fp:0}}:{id}:suspension:current");
    let second = "ff:wp:{fp:0}:99999999-9999-4999-8999-999999999999";
    rig.run(&format!("HSET {second} state active suspension_id s2"));
    let key = suspension.clone();
    rig.meddler = Some(Box::new(move |host: &mut Host, command| {
        if command.argv[1] == b"ff_expire_suspension" {
            let other = &second[13..];
            host.call(&["HSET", &key, "suspension_id", "s2", "waitpoint_id", other]);
            host.call(&["HSET", &key, "timeout_at", "1800000000000"]);
        }
    }));
    rig.run_for(2_300);
    assert_eq!(rig.trace, ["engine-1 expire_suspension X1 -> not_yet_due"]);
    assert_eq!(rig.field(second, "state"), "active");
}

#[test]
fn w1_waitpoints_that_are_gone_do_not_hide_the_one_that_waits() {
    let mut rig = settled(every_second(ScannerName::PendingWpExpiry, 1));
    for n in 0..150 {
        let orphan = format!("11111111-1111-4111-8111-{n:012}");
        rig.run(&format!("ZADD ff:idx:{{fp:0}}:pending_waitpoint_expiry 1 {orphan}"));
    }
    plant(&mut rig, ScannerName::PendingWpExpiry, 1);
    rig.run_for(2_300);
    let tally = rig.tally(ScannerName::PendingWpExpiry);
    assert_eq!(tally, Tally { processed: 1, nothing: 150, ..Tally::default() });
}

#[test]
fn w2_an_entry_whose_waitpoint_is_gone_leaves_whatever_the_filter_says() {
    let mut config = every_second(ScannerName::PendingWpExpiry, 1);
    config.filter = Filter { namespace: Some("ns".into()), instance_tag: None };
    let mut rig = settled(config);
    let orphan = "11111111-1111-4111-8111-111111111111";
    rig.run(&format!("ZADD ff:idx:{{fp:0}}:pending_waitpoint_expiry 1 {orphan}"));
    rig.run_for(2_300);
    let index = "ff:idx:{fp:0}:pending_waitpoint_expiry";
    assert_eq!(rig.call(&["ZCARD", index]), Value::Int(0), "{:?}", rig.trace);
}

#[test]
fn w3_a_waitpoint_that_became_active_stays_open() {
    let mut rig = settled(every_second(ScannerName::PendingWpExpiry, 1));
    plant(&mut rig, ScannerName::PendingWpExpiry, 1);
    let key = format!("ff:wp:{{fp:0}}:{}", &execution(1)[7..]);
    rig.run(&format!("HSET {key} state active"));
    rig.run_for(2_300);
    assert_eq!(rig.field(&key, "state"), "active");
    assert_eq!(rig.tally(ScannerName::PendingWpExpiry).nothing, 1);
}
