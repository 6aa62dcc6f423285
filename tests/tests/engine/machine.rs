//! The machine itself: the same inputs give the same outputs, answers may come late, twice or from
//! strangers, and nobody waits for a dead slot.

use std::num::NonZeroU16;
use std::time::Duration;

use selvedge_core::completion::Completion;
use selvedge_core::engine::{
    Answer, Command, Engine, EngineConfig, Filter, Input, Observation, ScannerName,
};
use selvedge_core::error::ServerError;
use selvedge_core::state::TerminalOutcome;
use selvedge_core::time::EngineTime;
use selvedge_core::value::Value;
use selvedge_tests::rig::{Rig, Tape, silence};

use crate::flows::flow;
use crate::hand::Hand;
use crate::kit::{World, core, execution, lane, only};
use crate::rows::{plant, rows};

/// One fault of each kind after the other, and most commands without any.
fn faulty() -> selvedge_tests::rig::Rule {
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

/// A busy, faulty life of an engine on tape: candidates of every scanner, completions, poison,
/// every kind of fault, a dead slot, answers that come twice, and a stop in the middle.
fn recorded() -> Tape {
    let mut rig = Rig::new();
    rig.push = true;
    rig.tape = Some(Tape::default());
    rig.start(busy_config());
    for (at, row) in rows().enumerate() {
        for n in 0..8 {
            row.plant(&mut rig, 100 * at + n);
        }
        row.list(&mut rig, "garbage");
    }
    for n in 2_000..2_060 {
        plant(&mut rig, ScannerName::DelayedPromoter, n);
    }
    rig.run_for(5_000);
    rig.rule = Some(faulty());
    rig.run(&format!("SET {} text", core(&execution(9_000))));
    rig.run(&format!("ZADD {} 1 {}", lane("delayed"), execution(9_000)));
    rig.run_for(40_000);
    let again = rig.tape.as_ref().unwrap().inputs.iter().rev().map(|(_, input)| input);
    let settled = again.filter(|input| matches!(input, Input::Settled { .. })).take(20);
    let settled: Vec<Input> = settled.cloned().collect();
    for input in settled {
        rig.tell(0, input);
    }
    rig.dead_slots.insert(selvedge_core::partition::slot(b"{fp:1}"));
    rig.tell(
        0,
        Input::Completed(Completion {
            execution_id: "{fp:1}:00000000-0000-4000-8000-000000000001".parse().unwrap(),
            flow_id: flow(0),
            outcome: TerminalOutcome::Success,
        }),
    );
    rig.tell(0, Input::PushGap);
    rig.tell(0, Input::LibraryLoaded);
    rig.tell(0, Input::Lanes(vec!["other".parse().unwrap()]));
    rig.run_for(20_000);
    rig.tell(0, Input::Drain);
    rig.run_for(20_000);
    rig.tape.take().unwrap()
}

fn busy_config() -> EngineConfig {
    let mut config = EngineConfig::default();
    config.partitions.flow = NonZeroU16::new(4).unwrap();
    config.partitions.budget = NonZeroU16::MIN;
    config.partitions.quota = NonZeroU16::MIN;
    config.filter = Filter { namespace: Some("ns".into()), instance_tag: None };
    config
}

/// What an engine does when it is told all this.
fn replayed(inputs: &[(EngineTime, Input)], seed: u64) -> Vec<String> {
    let mut engine = Engine::new(busy_config(), seed, EngineTime(0));
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
    let tape = recorded();
    assert!(tape.effects.len() > 1_000, "{} effects", tape.effects.len());
    for fault in [
        "TicketExpired",
        "AnswerIgnored",
        "PoisonSetAside",
        "ItemFailed",
        "LibraryMissing",
        "Denied",
        "PartitionFailed",
        "Dispatched",
        "HandedOver",
        "Drained",
    ] {
        assert!(tape.effects.iter().any(|effect| effect.contains(fault)), "no {fault} on tape");
    }
    let (once, twice) = (replayed(&tape.inputs, 1), replayed(&tape.inputs, 1));
    assert_eq!(once, twice);
    let (mut recorded, mut once) = (tape.effects, once);
    // The bench takes effects later where completions are pushed; the effects are the same.
    recorded.sort();
    once.sort();
    assert_eq!(recorded, once);
    assert_ne!(replayed(&tape.inputs, 2), twice, "the seed matters");
}

#[test]
fn jitter_differs_between_seeds_and_stays_within_a_tenth() {
    let wake_times = |seed| {
        let mut rig = Rig::new();
        let mut config = only(&[]);
        for &name in ScannerName::ALL {
            config.intervals.insert(name, Duration::from_secs(100));
        }
        rig.start_seeded(config, seed);
        rig.run_for(10);
        rig.engine(0).unwrap().deadline().unwrap().0
    };
    let times: Vec<u64> = (1..=8).map(wake_times).collect();
    let mut distinct = times.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert!(distinct.len() >= 6, "{times:?}");
    assert!(times.iter().all(|at| (89_000..=111_000).contains(at)), "{times:?}");
}

#[test]
fn r1_nobody_spins_while_nothing_happens() {
    let mut hand = Hand::new(only(&[]), Rig::new());
    assert!(hand.feed(0, Input::Wake) > 0);
    for _ in 0..100 {
        assert_eq!(hand.feed(1, Input::Wake), 0, "woken early, nothing new");
    }
    // Nobody answers: the next thing that can happen is the end of the tickets' patience.
    assert_eq!(hand.engine.deadline(), Some(EngineTime(10_000)));
    hand.rest(2);
    assert!(hand.engine.deadline().unwrap() > EngineTime(1_000_000), "an hour, not at once");
}

#[test]
fn a_cycle_longer_than_its_interval_does_not_spin() {
    let mut config = only(&[ScannerName::DelayedPromoter]);
    config.intervals.insert(ScannerName::DelayedPromoter, Duration::from_millis(100));
    let mut hand = Hand::new(config, Rig::new());
    hand.feed(0, Input::Wake);
    hand.rest(0);
    let mut visits = 0;
    let mut now = 0;
    for _ in 0..10 {
        now = hand.engine.deadline().unwrap().0;
        visits += hand.feed(now, Input::Wake);
        // The answer takes five intervals, and early wake-ups start nothing in the meantime.
        for later in 1..5 {
            assert_eq!(hand.feed(now + later * 100, Input::Wake), 0);
        }
        hand.rest(now + 500);
        let next = hand.engine.deadline().unwrap().0;
        assert!(next >= now + 500 + 90, "it rests after a long cycle");
    }
    assert_eq!(visits, 10);
    assert!(now >= 10 * 500);
}

#[test]
fn answers_late_twice_or_for_strangers_change_nothing() {
    let mut rig = Rig::new();
    plant(&mut rig, ScannerName::DelayedPromoter, 1);
    let mut hand = Hand::new(only(&[ScannerName::DelayedPromoter]), rig);
    hand.feed(0, Input::Wake);
    let settled = hand.carry_out().unwrap();
    hand.feed(5, settled.clone());
    // Twice.
    let after_once = hand.open.len();
    assert_eq!(hand.feed(6, settled), 0);
    assert!(matches!(hand.facts.last(), Some(Observation::AnswerIgnored(_))));
    // From a stranger: a ticket that only another engine has.
    let mut other = Hand::new(only(&[]), Rig::new());
    other.feed(0, Input::Wake);
    for round in 0..5 {
        other.rest(round);
        other.feed(4_000_000 * (round + 1), Input::Wake);
    }
    let (stranger, ..) = other.open.pop_back().unwrap();
    assert_eq!(hand.feed(7, Input::Settled { ticket: stranger, answers: vec![] }), 0);
    assert!(matches!(hand.facts.last(), Some(Observation::AnswerIgnored(_))));
    assert_eq!(hand.open.len(), after_once);
    // Late: the patience is over, what was asked counts as perhaps done, and the answer is nobody's.
    let late = hand.carry_out().unwrap();
    hand.open.clear();
    hand.feed(10_005, Input::Wake);
    let expired = |fact: &&Observation| matches!(fact, Observation::TicketExpired(_));
    assert_eq!(hand.facts.iter().filter(expired).count(), after_once);
    hand.feed(10_006, late);
    assert!(matches!(hand.facts.last(), Some(Observation::AnswerIgnored(_))));
    // The engine goes on.
    let next = hand.engine.deadline().unwrap().0;
    hand.feed(next, Input::Wake);
    hand.rest(next);
    assert_eq!(hand.rig.field(&core(&execution(1)), "public_state"), "waiting");
}

#[test]
fn answers_that_are_missing_count_as_silence_and_surplus_ones_as_nothing() {
    let mut hand = Hand::new(only(&[ScannerName::DelayedPromoter]), Rig::new());
    hand.feed(0, Input::Wake);
    let Some(Input::Settled { ticket, mut answers }) = hand.carry_out() else { panic!("sent") };
    answers.extend([silence(), silence()]);
    hand.feed(1, Input::Settled { ticket, answers });
    let (ticket, ..) = hand.open.pop_front().unwrap();
    hand.feed(1, Input::Settled { ticket, answers: vec![] });
    let failed = |fact: &Observation| matches!(fact, Observation::PartitionFailed { .. });
    assert!(hand.facts.iter().any(failed));
    hand.rest(2);
    assert_eq!(hand.engine.in_flight(), 0);
}

#[test]
fn the_window_bounds_batches_and_a_dead_slot_has_only_its_share() {
    let mut config = EngineConfig { window: 6, window_per_slot: 2, ..EngineConfig::default() };
    config.partitions.flow = NonZeroU16::new(64).unwrap();
    let mut hand = Hand::new(config, Rig::new());
    hand.feed(0, Input::Wake);
    assert_eq!(hand.engine.in_flight(), 6);
    let dead = hand.open.front().unwrap().1;
    let mut visited = std::collections::BTreeSet::new();
    let mut kept = Vec::new();
    while let Some(batch) = hand.open.pop_front() {
        if batch.1 == dead {
            kept.push(batch);
            continue;
        }
        visited.insert(batch.1);
        hand.open.push_front(batch);
        let settled = hand.carry_out().unwrap();
        hand.feed(1, settled);
        assert!(hand.engine.in_flight() <= 6);
    }
    assert_eq!(visited.len(), 64 + 32 + 32 - 1, "everybody but the dead slot");
    assert!(kept.len() <= 2, "{} batches wait for the dead slot", kept.len());
}

#[test]
fn r3_a_drain_inside_a_partition_ends_in_bounded_time_and_sends_nothing_new() {
    let mut rig = Rig::new();
    for n in 0..400 {
        plant(&mut rig, ScannerName::DelayedPromoter, n);
    }
    // At every point of the scan.
    for steps in 0..12 {
        let mut config = only(&[ScannerName::DelayedPromoter]);
        config.intervals.insert(ScannerName::IndexReconciler, Duration::from_secs(3_600));
        let mut hand = Hand::new(config, std::mem::take(&mut rig));
        hand.feed(0, Input::Wake);
        for _ in 0..steps {
            if let Some(settled) = hand.carry_out() {
                hand.feed(1, settled);
            }
        }
        assert_eq!(hand.feed(2, Input::Drain), 0, "after {steps}");
        while let Some(settled) = hand.carry_out() {
            assert_eq!(hand.feed(3, settled), 0, "after {steps}");
        }
        assert!(hand.engine.is_drained(), "after {steps}");
        assert_eq!(hand.engine.deadline(), None, "nothing more will happen");
        rig = hand.rig;
    }
}

#[test]
fn r3_a_drain_waits_for_no_dead_slot_longer_than_a_ticket_lives() {
    let mut hand = Hand::new(only(&[]), Rig::new());
    hand.feed(0, Input::Wake);
    assert_eq!(hand.feed(100, Input::Drain), 0);
    assert!(!hand.engine.is_drained());
    let end = hand.engine.deadline().unwrap();
    assert_eq!(end, EngineTime(10_000));
    assert_eq!(hand.feed(end.0, Input::Wake), 0);
    assert!(hand.engine.is_drained());
    let told = hand.facts.iter().filter(|fact| matches!(fact, Observation::Drained)).count();
    assert_eq!(told, 1);
}

#[test]
fn a_turn_that_is_hurried_while_it_runs_comes_again() {
    let mut hand = Hand::new(only(&[]), Rig::new());
    hand.feed(0, Input::Wake);
    // Every scan is under way, and its pages may have been read already.
    hand.feed(1, Input::LibraryLoaded);
    assert_eq!(hand.rest(2), 6, "three partitions, each visited twice, not again in an hour");
}

#[test]
fn a_full_scan_remembers_its_place_past_what_stays() {
    let mut config = only(&[ScannerName::DelayedPromoter]);
    config.intervals.insert(ScannerName::DelayedPromoter, Duration::from_secs(1));
    let mut rig = Rig::new();
    rig.start(config);
    rig.run_for(10);
    // More failing items than one go may pass, and one that could be done behind them.
    for n in 0..2_100 {
        rig.run(&format!("SET {} text", core(&execution(n))));
        rig.run(&format!("ZADD {} {n} {}", lane("delayed"), execution(n)));
    }
    let healthy = 5_000;
    plant(&mut rig, ScannerName::DelayedPromoter, healthy);
    rig.run(&format!("ZADD {} 9000 {}", lane("delayed"), execution(healthy)));
    rig.run_for(1_200);
    assert_eq!(rig.field(&core(&execution(healthy)), "public_state"), "delayed", "not its turn");
    rig.run_for(1_200);
    assert_eq!(rig.field(&core(&execution(healthy)), "public_state"), "waiting");
}
