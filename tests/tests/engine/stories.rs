//! Every scanner, told in the same stories. The rows say how candidates are made, broken and
//! changed; the expectations are traces in `stories/`, one file per story, one paragraph per
//! scanner.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use selvedge_core::engine::{Answer, Command, Filter, Observation, ScannerName};
use selvedge_core::error::ServerError;
use selvedge_core::value::Value;
use selvedge_lua::host::Host;
use selvedge_tests::rig::{Rig, silence};

use crate::kit::{World, execution};
use crate::rows::{Row, of_execution, rows};
use crate::snapshot::{assert_snapshot, read_snapshot};

/// The stories, by the names of their files.
const STORIES: [&str; 9] = [
    "happy",
    "replies",
    "reply_lost",
    "filter",
    "tracker",
    "poison",
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
                (true, None) => panic!("{story}: a line about nobody"),
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
    for row in rows() {
        let mut rig = row.rig(row.config());
        row.plant(&mut rig, 1);
        rig.run_for(4_000);
        assert_eq!(rig.tally(row.name).processed, 1, "{}", row.name);
        assert_eq!(rig.tally(row.name).errors(), 0, "{}", row.name);
        row.tell(&mut told, &rig);
    }
    assert_snapshot("stories/happy.txt", &told);
}

/// One answer of each class that a function may meet instead of a success.
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

/// Runs a row's first candidate, with the first call of its function answered like that.
fn answered(row: &Row, answer: Answer) -> Rig {
    let mut rig = row.rig(row.config());
    row.plant(&mut rig, 1);
    let mut first = once(row.is_call());
    rig.rule = Some(Box::new(move |command| first(command).then(|| answer.clone())));
    rig.run_for(6_000);
    rig
}

#[test]
fn each_class_of_replies_is_counted_as_what_it_is_and_the_work_is_done_after_it() {
    let mut told = String::new();
    for row in rows() {
        writeln!(told, "{}", row.name).unwrap();
        for (class, answer) in replies() {
            let rig = answered(row, answer);
            let tally = rig.tally(row.name);
            assert_eq!(tally.processed, 1, "{}, {class}", row.name);
            let trouble = (tally.refused, tally.failed, tally.deferred);
            let expected = match class {
                "refused" => (1, 0, 0),
                "broken" | "unreadable" => (0, 1, 0),
                _ => (0, 0, 1),
            };
            assert_eq!(trouble, expected, "{}, {class}", row.name);
            writeln!(told, "  {class:<10} = {}", row.counted(&rig)).unwrap();
        }
    }
    assert_snapshot("stories/replies.txt", &told);
}

#[test]
fn a_call_that_was_surely_not_applied_is_made_again_as_if_nothing_had_been_in_the_way() {
    let happy = read_snapshot("stories/happy.txt");
    for row in rows() {
        let rig = answered(row, Answer::NotApplied(ServerError::never_sent("nobody is connected")));
        let mut told = String::new();
        row.tell(&mut told, &rig);
        let lines: Vec<&str> = told.lines().filter(|line| line.contains(" -> ")).collect();
        for line in lines {
            assert!(happy.contains(line), "{}: {line}", row.name);
        }
    }
}

#[test]
fn a_call_that_was_perhaps_applied_does_no_harm_twice() {
    let mut told = String::new();
    for row in rows() {
        let mut rig = row.rig(row.config());
        row.plant(&mut rig, 1);
        rig.reply_lost = Some(Box::new(once(row.is_call())));
        rig.run_for(6_000);
        let tally = rig.tally(row.name);
        assert!(tally.processed <= 1 && tally.failed == 0, "{}: {tally:?}", row.name);
        row.tell(&mut told, &rig);
    }
    assert_snapshot("stories/reply_lost.txt", &told);
}

#[test]
fn what_fails_is_left_alone_for_a_while_and_then_tried_again() {
    let mut told = String::new();
    for row in rows() {
        let mut rig = row.rig(row.config());
        row.plant(&mut rig, 1);
        let (record, kept) = ((row.record)(1), "kept");
        rig.run(&format!("RENAME {record} {{{}}}{kept}", tag(&record)));
        rig.run(&format!("SET {record} text"));
        rig.run_for(10_000);
        assert_eq!(rig.tally(row.name).processed, 0, "{}", row.name);
        assert_eq!(rig.tally(row.name).failed, 3, "{}: then it is left alone", row.name);
        rig.run(&format!("DEL {record}"));
        rig.run(&format!("RENAME {{{}}}{kept} {record}", tag(&record)));
        rig.run_for(10_000);
        assert_eq!(rig.tally(row.name).processed, 1, "{}", row.name);
        rig.trace.retain(|line| !line.contains("WRONGTYPE"));
        row.tell(&mut told, &rig);
    }
    assert_snapshot("stories/tracker.txt", &told);
}

fn tag(key: &str) -> &str {
    let open = key.find('{').unwrap();
    &key[open + 1..key.find('}').unwrap()]
}

#[test]
fn only_ours_are_touched() {
    let mut told = String::new();
    for row in rows() {
        let mut config = row.config();
        config.filter = Filter {
            namespace: Some("ns".into()),
            instance_tag: Some(("host".into(), "h".into())),
        };
        let mut rig = row.rig(config);
        for n in 1..=3 {
            row.plant(&mut rig, n);
        }
        if row.filtered {
            for n in [1, 3] {
                rig.run(&format!("HSET ff:exec:{{fp:0}}:{}:tags host h", execution(n)));
            }
            rig.run(&format!("HSET {} namespace other", of_execution(3)));
        }
        rig.run_for(4_000);
        let ours = if row.filtered { 1 } else { 3 };
        assert_eq!(rig.tally(row.name).processed, ours, "{}", row.name);
        row.tell(&mut told, &rig);
    }
    assert_snapshot("stories/filter.txt", &told);
}

#[test]
fn f5_more_poison_than_a_batch_is_set_aside_and_hides_nobody() {
    let mut told = String::new();
    for row in rows() {
        let mut rig = row.rig(row.config());
        let poison = row.batch * 2 + 1;
        for n in 0..poison {
            row.list(&mut rig, &format!("garbage-{n}"));
        }
        row.plant(&mut rig, 1);
        // One scan must do, the first that finds the candidate due.
        rig.run_for(3_500);
        let tally = rig.tally(row.name);
        assert_eq!((tally.processed, tally.poisoned), (1, poison as u64), "{}", row.name);
        let aside = format!("ff:aside:{{{}}}", tag(row.index.0));
        let kept = rig.field(&aside, &format!("{} garbage-7", row.index.0));
        assert!(kept.starts_with("not a"), "{}: {kept}", row.name);
        row.sum_up(&mut told, &rig);
        writeln!(told, "  kept for the operator: garbage-7, {kept}").unwrap();
    }
    assert_snapshot("stories/poison.txt", &told);
}

#[test]
fn more_than_a_batch_is_done_in_one_go() {
    let mut told = String::new();
    for row in rows() {
        let mut rig = row.rig(row.config());
        let many = row.batch * 2 + 1;
        for n in 0..many {
            row.plant(&mut rig, n);
        }
        rig.run_for(3_500);
        let scans = rig.facts.iter().filter(
            |(_, fact)| matches!(fact, Observation::ScanDone { tally, .. } if tally.processed > 0),
        );
        assert_eq!(scans.count(), 1, "{}", row.name);
        assert_eq!(rig.tally(row.name).processed, many as u64, "{}", row.name);
        row.sum_up(&mut told, &rig);
    }
    assert_snapshot("stories/many.txt", &told);
}

#[test]
fn what_changed_between_read_and_call_is_judged_as_it_is() {
    let mut told = String::new();
    for row in rows() {
        let mut rig = row.rig(row.config());
        row.plant(&mut rig, 1);
        let mut first = once(row.is_call());
        let change = row.change.replace('$', &(row.member)(1));
        rig.meddler = Some(Box::new(move |host: &mut Host, command: &Command| {
            if first(command) {
                let words: Vec<&str> = change.split_whitespace().collect();
                let reply = host.call(&words);
                assert!(!matches!(reply, Value::Error(_)), "{change}: {reply:?}");
            }
        }));
        rig.run_for(2_300);
        assert_eq!(rig.tally(row.name).failed, 0, "{}", row.name);
        row.tell(&mut told, &rig);
    }
    assert_snapshot("stories/changed.txt", &told);
}

#[test]
fn two_engines_at_the_same_instants_do_the_work_once() {
    let mut told = String::new();
    for row in rows() {
        let mut rig = Rig::new();
        for _ in 0..2 {
            rig.start_seeded(row.config(), 5);
        }
        rig.run_for(10);
        for n in 1..=3 {
            row.plant(&mut rig, n);
        }
        rig.run_for(2_300);
        // Both write the same summary, and both acknowledge what one of them has cancelled.
        let both = [ScannerName::FlowProjector, ScannerName::CancelReconciler];
        let expected = if both.contains(&row.name) { 6 } else { 3 };
        assert_eq!(rig.tally(row.name).processed, expected, "{}", row.name);
        assert_eq!(rig.tally(row.name).errors(), 0, "{}", row.name);
        row.tell(&mut told, &rig);
    }
    assert_snapshot("stories/two_engines.txt", &told);
}
