//! Every scanner over what is due or listed, told in the same stories. The rows say how candidates
//! are made, broken and changed; the expectations are traces in `stories/`.

use selvedge_core::engine::{Answer, Command, Filter, Observation};
use selvedge_core::error::ServerError;
use selvedge_lua::host::Host;
use selvedge_tests::rig::Rig;

use crate::kit::{World, execution};
use crate::rows::{ROWS, of_execution};
use crate::snapshot::assert_snapshot;

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
fn each_does_its_work() {
    let mut told = String::new();
    for row in ROWS {
        let mut rig = row.rig(row.config());
        row.plant(&mut rig, 1);
        rig.run_for(4_000);
        assert_eq!(rig.tally(row.name).processed, 1, "{}", row.name);
        assert_eq!(rig.tally(row.name).errors(), 0, "{}", row.name);
        row.tell(&mut told, &rig);
    }
    assert_snapshot("stories/happy.txt", &told);
}

#[test]
fn a_call_that_was_surely_not_applied_is_made_again_uncharged() {
    let mut told = String::new();
    for row in ROWS {
        let mut rig = row.rig(row.config());
        row.plant(&mut rig, 1);
        let mut first = once(row.is_call());
        rig.rule = Some(Box::new(move |command| {
            first(command).then(|| Answer::NotApplied(ServerError::never_sent("not connected")))
        }));
        rig.run_for(6_000);
        let tally = rig.tally(row.name);
        assert_eq!((tally.processed, tally.deferred, tally.failed), (1, 1, 0), "{}", row.name);
        row.tell(&mut told, &rig);
    }
    // As if nothing had been in the way.
    assert_snapshot("stories/happy.txt", &told);
}

#[test]
fn a_call_that_was_perhaps_applied_does_no_harm_twice() {
    let mut told = String::new();
    for row in ROWS {
        let mut rig = row.rig(row.config());
        row.plant(&mut rig, 1);
        rig.reply_lost = Some(Box::new(once(row.is_call())));
        rig.run_for(6_000);
        let tally = rig.tally(row.name);
        assert_eq!((tally.processed, tally.deferred, tally.failed), (0, 1, 0), "{}", row.name);
        row.tell(&mut told, &rig);
    }
    assert_snapshot("stories/reply_lost.txt", &told);
}

#[test]
fn what_fails_is_left_alone_for_a_while_and_then_tried_again() {
    let mut told = String::new();
    for row in ROWS {
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
    for row in ROWS {
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
    for row in ROWS {
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
    }
}

#[test]
fn more_than_a_batch_is_done_in_one_go() {
    for row in ROWS {
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
    }
}

#[test]
fn what_changed_between_read_and_call_is_judged_as_it_is() {
    let mut told = String::new();
    for row in ROWS {
        let mut rig = row.rig(row.config());
        row.plant(&mut rig, 1);
        let mut first = once(row.is_call());
        let change = row.change.replace('$', &(row.member)(1));
        rig.meddler = Some(Box::new(move |host: &mut Host, command: &Command| {
            if first(command) {
                let words: Vec<&str> = change.split(' ').collect();
                host.call(&words);
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
    for row in ROWS {
        let mut rig = Rig::new();
        for _ in 0..2 {
            rig.start_seeded(row.config(), 5);
        }
        rig.run_for(10);
        for n in 1..=3 {
            row.plant(&mut rig, n);
        }
        rig.run_for(2_300);
        assert_eq!(rig.tally(row.name).processed, 3, "{}", row.name);
        assert_eq!(rig.tally(row.name).errors(), 0, "{}", row.name);
        row.tell(&mut told, &rig);
    }
    assert_snapshot("stories/two_engines.txt", &told);
}
