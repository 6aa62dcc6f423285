//! Items that fail again and again, and items that the filter excludes, never hide others.

use selvedge_core::command::Answer;
use selvedge_core::engine::{Filter, Input, Observation, ScanCounts, ScannerName};
use selvedge_core::value::Value;
use selvedge_tests::harness::Harness;

use crate::fixtures::{
    ClientCalls, core, delay, every_second, execution, flow_slot, lane, only, settled,
};

fn backed_off(harness: &Harness) -> usize {
    let facts = harness.facts.iter();
    facts.filter(|(_, fact)| matches!(fact, Observation::ItemBackedOff { .. })).count()
}

#[test]
fn f1_unreadable_entries_at_the_head_never_hides_what_is_behind() {
    let mut harness = Harness::new();
    for n in 0..60 {
        harness.run(&format!("SET {} text", core(&execution(n))));
        harness.run(&format!("ZADD {} {n} {}", lane("delayed"), execution(n)));
        harness.run(&format!("ZADD {} {n} garbage-{n}", lane("delayed")));
    }
    let id = execution(99);
    harness.create(&id, "{}");
    let core = core(&id);
    harness.run(&format!(
        "HSET {core} eligibility_state not_eligible_until_time blocking_reason waiting_for_delay \
         delay_until 500 public_state delayed"
    ));
    harness.run(&format!("ZADD {} 500 {id}", lane("delayed")));
    harness.run(&format!("ZREM {} {id}", lane("eligible")));
    harness.start(only(&[ScannerName::DelayedPromoter]));
    harness.run_for(100);
    assert_eq!(harness.field(&core, "public_state"), "waiting");
    let counts = harness.counts(ScannerName::DelayedPromoter);
    assert_eq!((counts.processed, counts.failed, counts.set_aside), (1, 60, 60));
    assert_eq!(
        harness.field("ff:aside:{fp:0}", &format!("{} garbage-7", lane("delayed"))),
        "not an execution id"
    );
}

#[test]
fn f1_backed_off_items_at_the_head_never_hide_what_is_behind() {
    let mut harness = settled(every_second(ScannerName::DelayedPromoter, 1));
    for n in 0..60 {
        harness.run(&format!("SET {} text", core(&execution(n))));
        harness.run(&format!("ZADD {} {n} {}", lane("delayed"), execution(n)));
    }
    harness.run_for(6_000);
    assert_eq!(backed_off(&harness), 60);
    let before = harness.counts(ScannerName::DelayedPromoter);
    assert_eq!((before.processed, before.failed), (0, 180));
    let healthy = delay(&mut harness, 0, "default", 99);
    harness.run_for(2_300);
    assert_eq!(harness.field(&healthy, "public_state"), "waiting");
    let after = harness.counts(ScannerName::DelayedPromoter);
    assert_eq!((after.processed, after.failed), (1, 180));
}

#[test]
fn f2_a_partition_that_fails_stops_no_backoff_clock() {
    for dead in [true, false] {
        let mut harness = settled(every_second(ScannerName::DelayedPromoter, 2));
        if dead {
            harness.dead_slots.insert(flow_slot(0));
        } else {
            harness.run(&format!("SET {} text", lane("delayed")));
        }
        let core = delay(&mut harness, 1, "default", 1);
        harness.run(&format!("RENAME {core} {{fp:1}}kept"));
        harness.run(&format!("SET {core} text"));
        harness.run_for(6_000);
        assert_eq!(backed_off(&harness), 1);
        harness.run(&format!("DEL {core}"));
        harness.run(&format!("RENAME {{fp:1}}kept {core}"));
        harness.run_for(14_000);
        assert_eq!(harness.field(&core, "public_state"), "waiting", "dead: {dead}");
    }
}

#[test]
fn f3_after_three_failures_an_item_is_skipped_until_the_tenth_cycle() {
    let mut harness = settled(every_second(ScannerName::DelayedPromoter, 1));
    harness.run(&format!("SET {} text", core(&execution(1))));
    harness.run(&format!("ZADD {} 1 {}", lane("delayed"), execution(1)));
    let mut tries = Vec::new();
    for second in 0..30 {
        let before = harness.trace.len();
        harness.run_for(1_000);
        tries.extend(std::iter::repeat_n(second, harness.trace.len() - before));
    }
    let bouts: Vec<&[i32]> = tries.chunks(3).collect();
    assert!(bouts.len() >= 2, "{tries:?}");
    assert!(bouts[0][2] - bouts[0][0] <= 4, "three tries in a row: {tries:?}");
    let rest = bouts[1][0] - bouts[0][2];
    assert!((9..=12).contains(&rest), "rested for {rest} cycles: {tries:?}");
}

#[test]
fn f4_refusals_count_as_failures() {
    let mut harness = settled(every_second(ScannerName::DelayedPromoter, 1));
    delay(&mut harness, 0, "default", 1);
    harness.rule = Some(Box::new(|command| {
        let refusal = vec![Value::Int(0), Value::Bulk(b"invalid_input".to_vec())];
        (command.argv[1] == b"ff_promote_delayed").then_some(Answer::Applied(Value::Array(refusal)))
    }));
    harness.run_for(9_000);
    let counts = harness.counts(ScannerName::DelayedPromoter);
    assert_eq!((counts.processed, counts.refused), (0, 3), "{counts:?}");
    assert_eq!(backed_off(&harness), 1);
}

#[test]
fn t1_excluded_candidates_never_hide_others_and_t2_cost_two_reads_in_one_batch() {
    let mut config = every_second(ScannerName::DelayedPromoter, 1);
    config.filter = Filter::by_namespace("ours");
    let mut harness = settled(config);
    for n in 0..120 {
        let core = delay(&mut harness, 0, "default", n);
        harness.run(&format!("HSET {core} namespace {}", if n == 119 { "ours" } else { "other" }));
    }
    let batches = harness.batches;
    harness.tell(0, Input::LibraryLoaded);
    let counts = harness.counts(ScannerName::DelayedPromoter);
    let mut expected = ScanCounts::default();
    (expected.processed, expected.skipped) = (1, 119);
    assert_eq!(counts, expected);
    // Of this scanner: three pages, three batches of reads, one call. The rest visits nothing.
    let sent = harness.batches - batches;
    assert!(sent <= 7 + 3, "{sent} batches");
}
