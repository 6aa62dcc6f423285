//! The state machine: equal inputs give equal effects, answers may come late, twice or for an
//! unknown ticket, and an unresponsive slot delays no other.

use std::num::NonZeroU16;
use std::time::Duration;

use selvedge_core::command::{Answer, Command};
use selvedge_core::completion::Completion;
use selvedge_core::engine::{Engine, EngineConfig, Filter, Input, Observation, ScannerName};
use selvedge_core::error::ServerError;
use selvedge_core::state::TerminalOutcome;
use selvedge_core::time::LocalTime;
use selvedge_core::value::Value;
use selvedge_tests::harness::{Harness, Recording, silence};

use crate::fixtures::{ClientCalls, core, execution, lane, only};
use crate::flow_builder::flow;
use crate::manual_engine::ManualEngine;
use crate::scanner_cases::{plant, scanner_cases};

/// One fault of each kind after the other; most commands have none.
fn faulty() -> selvedge_tests::harness::Rule {
    let mut count = 0;
    Box::new(move |_: &Command| {
        count += 1;
        let error = |text: &str| Some(Answer::Applied(Value::Error(text.into())));
        match count % 40 {
            3 => Some(silence()),
            8 => Some(Answer::NotApplied(ServerError::never_sent("not connected"))),
            13 => error("LOADING come back later"),
            18 => error("WRONGTYPE of that kind"),
            23 => error("ERR Function not found"),
            28 => error("OOM command not allowed when used memory > 'maxmemory'."),
            33 => Some(Answer::Applied(Value::Array(vec![Value::Int(0), Value::Bulk(vec![7])]))),
            38 => Some(Answer::Applied(Value::Array(vec![Value::Nil, Value::Int(-1)]))),
            _ => None,
        }
    })
}

/// The recording of an engine with candidates of every scanner, completions, unreadable entries,
/// every kind of fault, an unresponsive slot, answers that come twice, and a drain in the middle.
fn recorded() -> Recording {
    let mut harness = Harness::new();
    harness.push = true;
    harness.recording = Some(Recording::default());
    harness.start(busy_config());
    for (at, case) in scanner_cases().enumerate() {
        for n in 0..8 {
            case.plant(&mut harness, 100 * at + n);
        }
        case.list(&mut harness, "garbage");
    }
    for n in 2_000..2_060 {
        plant(&mut harness, ScannerName::DelayedPromoter, n);
    }
    harness.run_for(5_000);
    harness.rule = Some(faulty());
    harness.run(&format!("SET {} text", core(&execution(9_000))));
    harness.run(&format!("ZADD {} 1 {}", lane("delayed"), execution(9_000)));
    harness.run_for(40_000);
    let again = harness.recording.as_ref().unwrap().inputs.iter().rev().map(|(_, input)| input);
    let settled = again.filter(|input| matches!(input, Input::Settled { .. })).take(20);
    let settled: Vec<Input> = settled.cloned().collect();
    for input in settled {
        harness.tell(0, input);
    }
    harness.dead_slots.insert(selvedge_core::partition::slot(b"{fp:1}"));
    harness.tell(
        0,
        Input::Completed(Completion {
            execution_id: "{fp:1}:00000000-0000-4000-8000-000000000001".parse().unwrap(),
            flow_id: flow(0),
            outcome: TerminalOutcome::Success,
        }),
    );
    harness.tell(0, Input::PushGap);
    harness.tell(0, Input::LibraryLoaded);
    harness.tell(0, Input::Lanes(vec!["other".parse().unwrap()]));
    harness.run_for(20_000);
    harness.tell(0, Input::Drain);
    harness.run_for(20_000);
    harness.recording.take().unwrap()
}

fn busy_config() -> EngineConfig {
    let mut config = EngineConfig::default();
    config.partitions.flow = NonZeroU16::new(4).unwrap();
    config.partitions.budget = NonZeroU16::MIN;
    config.partitions.quota = NonZeroU16::MIN;
    config.filter = Filter::by_namespace("ns");
    config
}

/// The effects of an engine that gets these inputs.
fn replayed(inputs: &[(LocalTime, Input)], seed: u64) -> Vec<String> {
    let mut engine = Engine::new(busy_config(), seed, LocalTime(0));
    let mut effects = Vec::new();
    for (now, input) in inputs {
        engine.handle(*now, input.clone());
        while let Some(effect) = engine.next_effect() {
            effects.push(format!("{effect:?}"));
        }
    }
    effects
}

#[test]
fn the_same_inputs_give_the_same_outputs_byte_for_byte() {
    let recording = recorded();
    assert!(recording.effects.len() > 400, "{} effects", recording.effects.len());
    for fault in [
        "BatchTimedOut",
        "AnswerIgnored",
        "EntrySetAside",
        "ItemFailed",
        "LibraryMissing",
        "Denied",
        "PartitionFailed",
        "Dispatched",
        "HandedOver",
        "Drained",
    ] {
        assert!(
            recording.effects.iter().any(|effect| effect.contains(fault)),
            "no {fault} on recording"
        );
    }
    let (once, twice) = (replayed(&recording.inputs, 1), replayed(&recording.inputs, 1));
    assert_eq!(once, twice);
    let (mut recorded, mut once) = (recording.effects, once);
    // The harness takes effects later where completions are pushed; the effects are the same.
    recorded.sort();
    once.sort();
    assert_eq!(recorded, once);
    assert_ne!(replayed(&recording.inputs, 2), twice, "the seed matters");
}

#[test]
fn jitter_differs_between_seeds_and_stays_within_a_tenth() {
    let wake_times = |seed| {
        let mut harness = Harness::new();
        let mut config = only(&[]);
        for &name in ScannerName::ALL {
            config.intervals.insert(name, Duration::from_secs(100));
        }
        harness.start_seeded(config, seed);
        harness.run_for(10);
        harness.engine(0).unwrap().deadline().unwrap().0
    };
    let times: Vec<u64> = (1..=8).map(wake_times).collect();
    let mut distinct = times.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert!(distinct.len() >= 6, "{times:?}");
    assert!(times.iter().all(|at| (89_000..=111_000).contains(at)), "{times:?}");
}

#[test]
fn r1_an_idle_engine_does_not_spin() {
    let mut manual = ManualEngine::new(only(&[]), Harness::new());
    assert!(manual.feed(0, Input::Wake) > 0);
    for _ in 0..100 {
        assert_eq!(manual.feed(1, Input::Wake), 0, "woken early, nothing new");
    }
    // No answer comes: the next deadline is that of the tickets.
    assert_eq!(manual.engine.deadline(), Some(LocalTime(10_000)));
    manual.rest(2);
    assert!(manual.engine.deadline().unwrap() > LocalTime(1_000_000), "an hour, not at once");
}

#[test]
fn a_cycle_longer_than_its_interval_does_not_spin() {
    let mut config = only(&[ScannerName::DelayedPromoter]);
    config.intervals.insert(ScannerName::DelayedPromoter, Duration::from_millis(100));
    let mut manual = ManualEngine::new(config, Harness::new());
    manual.feed(0, Input::Wake);
    manual.rest(0);
    let mut visits = 0;
    let mut now = 0;
    for _ in 0..10 {
        now = manual.engine.deadline().unwrap().0;
        visits += manual.feed(now, Input::Wake);
        // The answer takes five intervals, and early wake-ups start nothing in the meantime.
        for later in 1..5 {
            assert_eq!(manual.feed(now + later * 100, Input::Wake), 0);
        }
        manual.rest(now + 500);
        let next = manual.engine.deadline().unwrap().0;
        assert!(next >= now + 500 + 90, "it rests after a long cycle");
    }
    assert_eq!(visits, 10);
    assert!(now >= 10 * 500);
}

#[test]
fn answers_late_twice_or_for_unknown_tickets_change_nothing() {
    let mut harness = Harness::new();
    plant(&mut harness, ScannerName::DelayedPromoter, 1);
    let mut manual = ManualEngine::new(only(&[ScannerName::DelayedPromoter]), harness);
    manual.feed(0, Input::Wake);
    let settled = manual.carry_out().unwrap();
    manual.feed(5, settled.clone());
    // Twice.
    let after_once = manual.open.len();
    assert_eq!(manual.feed(6, settled), 0);
    assert!(matches!(manual.facts.last(), Some(Observation::AnswerIgnored(_))));
    // For a ticket of another engine.
    let mut other = ManualEngine::new(only(&[]), Harness::new());
    other.feed(0, Input::Wake);
    for round in 0..5 {
        other.rest(round);
        other.feed(4_000_000 * (round + 1), Input::Wake);
    }
    let (other_ticket, ..) = other.open.pop_back().unwrap();
    assert_eq!(manual.feed(7, Input::Settled { ticket: other_ticket, answers: vec![] }), 0);
    assert!(matches!(manual.facts.last(), Some(Observation::AnswerIgnored(_))));
    assert_eq!(manual.open.len(), after_once);
    // Late: the ticket has expired, its commands count as perhaps applied, and the answer is
    // ignored.
    let late = manual.carry_out().unwrap();
    manual.open.clear();
    manual.feed(10_005, Input::Wake);
    let expired = |fact: &&Observation| matches!(fact, Observation::BatchTimedOut(_));
    assert_eq!(manual.facts.iter().filter(expired).count(), after_once);
    manual.feed(10_006, late);
    assert!(matches!(manual.facts.last(), Some(Observation::AnswerIgnored(_))));
    // The engine goes on.
    let next = manual.engine.deadline().unwrap().0;
    manual.feed(next, Input::Wake);
    manual.rest(next);
    assert_eq!(manual.harness.field(&core(&execution(1)), "public_state"), "waiting");
}

#[test]
fn answers_that_are_missing_count_as_silence_and_surplus_ones_as_nothing() {
    let mut manual = ManualEngine::new(only(&[ScannerName::DelayedPromoter]), Harness::new());
    manual.feed(0, Input::Wake);
    let Some(Input::Settled { ticket, mut answers }) = manual.carry_out() else { panic!("sent") };
    answers.extend([silence(), silence()]);
    manual.feed(1, Input::Settled { ticket, answers });
    let (ticket, ..) = manual.open.pop_front().unwrap();
    manual.feed(1, Input::Settled { ticket, answers: vec![] });
    let failed = |fact: &Observation| matches!(fact, Observation::PartitionFailed { .. });
    assert!(manual.facts.iter().any(failed));
    manual.rest(2);
    assert_eq!(manual.engine.in_flight(), 0);
}

#[test]
fn the_window_bounds_batches_and_an_unresponsive_slot_has_only_its_share() {
    let mut config = EngineConfig::default();
    (config.window, config.window_per_slot) = (6, 2);
    config.partitions.flow = NonZeroU16::new(64).unwrap();
    let mut manual = ManualEngine::new(config, Harness::new());
    manual.feed(0, Input::Wake);
    assert_eq!(manual.engine.in_flight(), 6);
    let dead = manual.open.front().unwrap().1;
    let mut visited = std::collections::BTreeSet::new();
    let mut kept = Vec::new();
    while let Some(batch) = manual.open.pop_front() {
        if batch.1 == dead {
            kept.push(batch);
            continue;
        }
        visited.insert(batch.1);
        manual.open.push_front(batch);
        let settled = manual.carry_out().unwrap();
        manual.feed(1, settled);
        assert!(manual.engine.in_flight() <= 6);
    }
    assert_eq!(visited.len(), 64 + 32 + 32 - 1, "everybody but the dead slot");
    assert!(kept.len() <= 2, "{} batches wait for the dead slot", kept.len());
}

#[test]
fn r3_a_drain_inside_a_partition_ends_in_bounded_time_and_sends_nothing_new() {
    let mut harness = Harness::new();
    for n in 0..400 {
        plant(&mut harness, ScannerName::DelayedPromoter, n);
    }
    // At every point of the scan.
    for steps in 0..12 {
        let mut config = only(&[ScannerName::DelayedPromoter]);
        config.intervals.insert(ScannerName::IndexReconciler, Duration::from_secs(3_600));
        let mut manual = ManualEngine::new(config, std::mem::take(&mut harness));
        manual.feed(0, Input::Wake);
        for _ in 0..steps {
            if let Some(settled) = manual.carry_out() {
                manual.feed(1, settled);
            }
        }
        assert_eq!(manual.feed(2, Input::Drain), 0, "after {steps}");
        while let Some(settled) = manual.carry_out() {
            assert_eq!(manual.feed(3, settled), 0, "after {steps}");
        }
        assert!(manual.engine.is_drained(), "after {steps}");
        assert_eq!(manual.engine.deadline(), None, "nothing more will happen");
        harness = manual.harness;
    }
}

#[test]
fn r3_a_drain_waits_for_an_unresponsive_slot_no_longer_than_a_ticket_lives() {
    let mut manual = ManualEngine::new(only(&[]), Harness::new());
    manual.feed(0, Input::Wake);
    assert_eq!(manual.feed(100, Input::Drain), 0);
    assert!(!manual.engine.is_drained());
    let end = manual.engine.deadline().unwrap();
    assert_eq!(end, LocalTime(10_000));
    assert_eq!(manual.feed(end.0, Input::Wake), 0);
    assert!(manual.engine.is_drained());
    let told = manual.facts.iter().filter(|fact| matches!(fact, Observation::Drained)).count();
    assert_eq!(told, 1);
}

#[test]
fn a_scan_that_is_expedited_while_it_runs_runs_again() {
    let mut manual = ManualEngine::new(only(&[]), Harness::new());
    manual.feed(0, Input::Wake);
    // Every scan is under way, and its pages may have been read already.
    manual.feed(1, Input::LibraryLoaded);
    assert_eq!(manual.rest(2), 6, "three partitions, each visited twice, not again in an hour");
}

#[test]
fn a_scan_that_runs_out_of_pages_goes_on_at_its_cursor() {
    let mut config = only(&[ScannerName::DelayedPromoter]);
    config.intervals.insert(ScannerName::DelayedPromoter, Duration::from_secs(1));
    let mut harness = Harness::new();
    harness.start(config);
    harness.run_for(10);
    // More failing items than one scan passes, and behind them one that can be done.
    for n in 0..2_100 {
        harness.run(&format!("SET {} text", core(&execution(n))));
        harness.run(&format!("ZADD {} {n} {}", lane("delayed"), execution(n)));
    }
    let healthy = 5_000;
    plant(&mut harness, ScannerName::DelayedPromoter, healthy);
    harness.run(&format!("ZADD {} 9000 {}", lane("delayed"), execution(healthy)));
    harness.run_for(1_200);
    assert_eq!(
        harness.field(&core(&execution(healthy)), "public_state"),
        "delayed",
        "not its turn"
    );
    harness.run_for(1_200);
    assert_eq!(harness.field(&core(&execution(healthy)), "public_state"), "waiting");
}
