//! The same stories for every scanner. The cases say how candidates are made, broken and changed;
//! the expectations are traces in `stories/`, one file per story, one paragraph per scanner.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use selvedge_core::command::{Answer, Command};
use selvedge_core::engine::{Filter, Observation, ScannerName};
use selvedge_core::error::ServerError;
use selvedge_core::value::Value;
use selvedge_lua::host::Host;
use selvedge_tests::harness::{Harness, silence};

use crate::fixtures::{ClientCalls, execution};
use crate::scanner_cases::{ScannerCase, of_execution, scanner_cases};
use crate::snapshot::{assert_snapshot, read_snapshot};

/// The stories, by the names of their files.
const STORIES: [&str; 9] = [
    "happy",
    "replies",
    "reply_lost",
    "filter",
    "tracker",
    "set_aside",
    "many",
    "changed",
    "two_engines",
];

/// Fires the first time.
fn once(mut when: impl FnMut(&Command) -> bool + 'static) -> impl FnMut(&Command) -> bool {
    let mut fired = false;
    move |command| {
        let now = !fired && when(command);
        fired |= now;
        now
    }
}

#[test]
fn every_scanner_is_in_every_story() {
    for story in STORIES {
        let told = read_snapshot(&format!("stories/{story}.txt"));
        let mut paragraphs: Vec<(&str, usize)> = Vec::new();
        for line in told.lines() {
            match (line.starts_with(' '), paragraphs.last_mut()) {
                (false, _) => paragraphs.push((line, 0)),
                (true, Some((_, lines))) => *lines += 1,
                (true, None) => panic!("{story}: a line without a scanner"),
            }
        }
        let told_of: BTreeSet<&str> = paragraphs.iter().map(|(name, _)| *name).collect();
        let all: BTreeSet<&str> = ScannerName::ALL.iter().map(|name| name.as_str()).collect();
        assert_eq!(told_of, all, "{story}");
        assert!(paragraphs.iter().all(|(_, lines)| *lines > 0), "{story}: {paragraphs:?}");
    }
}

#[test]
fn each_does_its_work() {
    let mut told = String::new();
    for case in scanner_cases() {
        let mut harness = case.harness(case.config());
        case.plant(&mut harness, 1);
        harness.run_for(4_000);
        assert_eq!(harness.counts(case.name).processed, 1, "{}", case.name);
        assert_eq!(harness.counts(case.name).errors(), 0, "{}", case.name);
        case.tell(&mut told, &harness);
    }
    assert_snapshot("stories/happy.txt", &told);
}

/// One answer of each class of failure.
fn replies() -> [(&'static str, Answer); 8] {
    let error = |text: &str| Answer::Applied(Value::Error(text.into()));
    let refusal = vec![Value::Int(0), Value::Bulk(b"invalid_input".to_vec())];
    [
        ("refused", Answer::Applied(Value::Array(refusal))),
        ("not now", error("LOADING Valkey is loading the dataset in memory")),
        ("never sent", Answer::NotApplied(ServerError::never_sent("not connected"))),
        ("library", error("ERR Function not found")),
        ("denied", error("OOM command not allowed when used memory > 'maxmemory'.")),
        ("broken", error("WRONGTYPE Operation against a key holding the wrong kind of value")),
        ("unreadable", Answer::Applied(Value::Array(vec![Value::Nil, Value::Int(7)]))),
        ("silence", silence()),
    ]
}

/// Runs a case's first candidate with this answer to the first call of its function.
fn answered(case: &ScannerCase, answer: Answer) -> Harness {
    let mut harness = case.harness(case.config());
    case.plant(&mut harness, 1);
    let mut first = once(case.is_call());
    harness.rule = Some(Box::new(move |command| first(command).then(|| answer.clone())));
    harness.run_for(6_000);
    harness
}

#[test]
fn each_class_of_failure_is_counted_and_the_work_is_done_after_it() {
    let mut told = String::new();
    for case in scanner_cases() {
        writeln!(told, "{}", case.name).unwrap();
        for (class, answer) in replies() {
            let harness = answered(case, answer);
            let counts = harness.counts(case.name);
            assert_eq!(counts.processed, 1, "{}, {class}", case.name);
            let trouble = (counts.refused, counts.failed, counts.deferred);
            let expected = match class {
                "refused" => (1, 0, 0),
                "broken" | "unreadable" => (0, 1, 0),
                _ => (0, 0, 1),
            };
            assert_eq!(trouble, expected, "{}, {class}", case.name);
            writeln!(told, "  {class:<10} = {}", case.counted(&harness)).unwrap();
        }
    }
    assert_snapshot("stories/replies.txt", &told);
}

#[test]
fn a_call_that_was_surely_not_applied_is_repeated() {
    let happy = read_snapshot("stories/happy.txt");
    for case in scanner_cases() {
        let harness = answered(case, Answer::NotApplied(ServerError::never_sent("not connected")));
        let mut told = String::new();
        case.tell(&mut told, &harness);
        let lines: Vec<&str> = told.lines().filter(|line| line.contains(" -> ")).collect();
        for line in lines {
            assert!(happy.contains(line), "{}: {line}", case.name);
        }
    }
}

#[test]
fn a_call_that_was_perhaps_applied_does_no_harm_twice() {
    let mut told = String::new();
    for case in scanner_cases() {
        let mut harness = case.harness(case.config());
        case.plant(&mut harness, 1);
        harness.reply_lost = Some(Box::new(once(case.is_call())));
        harness.run_for(6_000);
        let counts = harness.counts(case.name);
        assert!(counts.processed <= 1 && counts.failed == 0, "{}: {counts:?}", case.name);
        case.tell(&mut told, &harness);
    }
    assert_snapshot("stories/reply_lost.txt", &told);
}

#[test]
fn what_fails_is_backed_off_and_then_tried_again() {
    let mut told = String::new();
    for case in scanner_cases() {
        let mut harness = case.harness(case.config());
        case.plant(&mut harness, 1);
        let (record, kept) = ((case.record)(1), "kept");
        harness.run(&format!("RENAME {record} {{{}}}{kept}", tag(&record)));
        harness.run(&format!("SET {record} text"));
        harness.run_for(10_000);
        assert_eq!(harness.counts(case.name).processed, 0, "{}", case.name);
        assert_eq!(harness.counts(case.name).failed, 3, "{}: then it is left alone", case.name);
        harness.run(&format!("DEL {record}"));
        harness.run(&format!("RENAME {{{}}}{kept} {record}", tag(&record)));
        harness.run_for(10_000);
        assert_eq!(harness.counts(case.name).processed, 1, "{}", case.name);
        harness.trace.retain(|line| !line.contains("WRONGTYPE"));
        case.tell(&mut told, &harness);
    }
    assert_snapshot("stories/tracker.txt", &told);
}

fn tag(key: &str) -> &str {
    let open = key.find('{').unwrap();
    &key[open + 1..key.find('}').unwrap()]
}

#[test]
fn only_selected_executions_are_touched() {
    let mut told = String::new();
    for case in scanner_cases() {
        let mut config = case.config();
        config.filter = Filter::by_namespace("ns").and_tag("host", "h");
        let mut harness = case.harness(config);
        for n in 1..=3 {
            case.plant(&mut harness, n);
        }
        if case.filtered {
            for n in [1, 3] {
                harness.run(&format!("HSET ff:exec:{{fp:0}}:{}:tags host h", execution(n)));
            }
            harness.run(&format!("HSET {} namespace other", of_execution(3)));
        }
        harness.run_for(4_000);
        let ours = if case.filtered { 1 } else { 3 };
        assert_eq!(harness.counts(case.name).processed, ours, "{}", case.name);
        case.tell(&mut told, &harness);
    }
    assert_snapshot("stories/filter.txt", &told);
}

#[test]
fn f5_more_unreadable_entries_than_a_batch_are_set_aside_and_hides_no_other() {
    let mut told = String::new();
    for case in scanner_cases() {
        let mut harness = case.harness(case.config());
        let unreadable = case.batch * 2 + 1;
        for n in 0..unreadable {
            case.list(&mut harness, &format!("garbage-{n}"));
        }
        case.plant(&mut harness, 1);
        // One scan has to do it: the first that finds the candidate due.
        harness.run_for(3_500);
        let counts = harness.counts(case.name);
        assert_eq!((counts.processed, counts.set_aside), (1, unreadable as u64), "{}", case.name);
        let aside = format!("ff:aside:{{{}}}", tag(case.index.0));
        let kept = harness.field(&aside, &format!("{} garbage-7", case.index.0));
        assert!(kept.starts_with("not a"), "{}: {kept}", case.name);
        case.sum_up(&mut told, &harness);
        writeln!(told, "  kept for the operator: garbage-7, {kept}").unwrap();
    }
    assert_snapshot("stories/set_aside.txt", &told);
}

#[test]
fn more_than_a_batch_is_done_in_one_go() {
    let mut told = String::new();
    for case in scanner_cases() {
        let mut harness = case.harness(case.config());
        let many = case.batch * 2 + 1;
        for n in 0..many {
            case.plant(&mut harness, n);
        }
        harness.run_for(3_500);
        let processed = |fact: &Observation| {
            let Observation::ScanDone { counts, .. } = fact else { return false };
            counts.processed > 0
        };
        let scans = harness.facts.iter().filter(|(_, fact)| processed(fact));
        assert_eq!(scans.count(), 1, "{}", case.name);
        assert_eq!(harness.counts(case.name).processed, many as u64, "{}", case.name);
        case.sum_up(&mut told, &harness);
    }
    assert_snapshot("stories/many.txt", &told);
}

#[test]
fn what_changed_between_read_and_call_is_checked_again() {
    let mut told = String::new();
    for case in scanner_cases() {
        let mut harness = case.harness(case.config());
        case.plant(&mut harness, 1);
        let mut first = once(case.is_call());
        let change = case.change.replace('$', &(case.member)(1));
        harness.before_command = Some(Box::new(move |host: &mut Host, command: &Command| {
            if first(command) {
                let words: Vec<&str> = change.split_whitespace().collect();
                let reply = host.call(&words);
                assert!(!matches!(reply, Value::Error(_)), "{change}: {reply:?}");
            }
        }));
        harness.run_for(2_300);
        assert_eq!(harness.counts(case.name).failed, 0, "{}", case.name);
        case.tell(&mut told, &harness);
    }
    assert_snapshot("stories/changed.txt", &told);
}

#[test]
fn two_engines_at_the_same_instants_do_the_work_once() {
    let mut told = String::new();
    for case in scanner_cases() {
        let mut harness = Harness::new();
        for _ in 0..2 {
            harness.start_seeded(case.config(), 5);
        }
        harness.run_for(10);
        for n in 1..=3 {
            case.plant(&mut harness, n);
        }
        harness.run_for(2_300);
        // Both write the same summary, and both acknowledge what one of them has cancelled.
        let both = [ScannerName::FlowProjector, ScannerName::CancelReconciler];
        let expected = if both.contains(&case.name) { 6 } else { 3 };
        assert_eq!(harness.counts(case.name).processed, expected, "{}", case.name);
        assert_eq!(harness.counts(case.name).errors(), 0, "{}", case.name);
        case.tell(&mut told, &harness);
    }
    assert_snapshot("stories/two_engines.txt", &told);
}
