//! Cascades: a skipped child is dispatched in its turn, once, and no deeper than the limit,
//! whatever the order in which the reply of the call that skipped it and the push arrive.

use std::fmt::Write as _;

use selvedge_core::engine::{Input, Observation, ScannerName};
use selvedge_core::state::TerminalOutcome;
use selvedge_tests::harness::{Harness, silence};

use crate::dispatch::{chain, dispatcher, dispatcher_with, pushed};
use crate::fixtures::{execution, only};
use crate::flow_builder::{Flows, Graph, member, stage};
use crate::manual_engine::ManualEngine;
use crate::snapshot::assert_snapshot;

/// Members 1 and 2 need member 0; members 3 to 6 need those two, two each.
fn tree() -> Graph {
    (1..7).fold(Graph::new().roots([0]), |graph, n| graph.all_of(n, [(n - 1) / 2]))
}

#[test]
fn a_cascade_goes_breadth_first() {
    let mut harness = Harness::new();
    harness.submit(&tree());
    let engine = dispatcher(&mut harness);
    harness.fail(0);
    harness.tell(engine, pushed(0, TerminalOutcome::Failed));
    let level = |line: &String| match line.split(' ').nth(2) {
        Some("E0") => 0,
        Some("E1" | "E2") => 1,
        _ => 2,
    };
    let levels: Vec<i32> = harness.trace.iter().map(level).collect();
    assert_eq!(levels, [0, 1, 1, 2, 2, 2, 2], "{:#?}", harness.trace);
    for n in 1..7 {
        assert_eq!(harness.state(n), "skipped", "{n}");
    }
}

#[test]
fn d9_a_skipped_subtree_is_dispatched_once() {
    let mut harness = Harness::new();
    harness.submit(&tree());
    dispatcher(&mut harness);
    harness.push = true;
    harness.fail(0);
    harness.run_for(0);
    for n in 0..7 {
        assert_eq!(harness.state(n), if n == 0 { "failed" } else { "skipped" }, "{n}");
        let looks = harness.traced(&[&format!("resolve_outgoing E{n} ")]);
        assert_eq!(looks, 1, "E{n}: {:#?}", harness.trace);
    }
}

#[test]
fn a_cascade_goes_fifty_levels_down_and_the_reconciler_goes_on() {
    let mut harness = Harness::new();
    harness.submit(&chain(120));
    let engine = dispatcher_with(&mut harness, only(&[ScannerName::DependencyReconciler]));
    harness.fail(0);
    harness.tell(engine, pushed(0, TerminalOutcome::Failed));
    assert_eq!(harness.traced(&["resolve_outgoing E50 "]), 1);
    assert_eq!(harness.traced(&["resolve_outgoing E51 "]), 0);
    assert_eq!(
        (harness.state(51), harness.state(52)),
        ("skipped".into(), "waiting_children".into())
    );
    let deep = Observation::DepthReached { execution: member(51) };
    assert!(harness.facts.contains(&(engine, deep)));
    harness.run_for(1_500);
    assert_eq!(harness.state(119), "skipped");
}

/// When the pushes of a call arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PushOrder {
    /// Before the call's reply.
    BeforeReply,
    /// After the call's reply, while the skipped child is dispatched.
    AfterReply,
    /// When everything that the call's reply led to is done.
    AfterAll,
}

/// A chain of four whose first member failed, with what happened in the order in which the engine
/// saw it.
struct Cascade {
    manual: ManualEngine,
    log: String,
}

impl Cascade {
    fn new() -> Self {
        let mut harness = Harness::new();
        harness.submit(&chain(4));
        let mut manual = ManualEngine::new(only(&[]), harness);
        manual.feed(0, Input::Wake);
        manual.rest(0);
        manual.harness.fail(0);
        drop(manual.harness.host.take_published());
        let mut cascade = Self { manual, log: String::new() };
        cascade.feed("push E0", pushed(0, TerminalOutcome::Failed));
        cascade
    }

    fn feed(&mut self, name: &str, input: Input) {
        writeln!(self.log, "  {name}").unwrap();
        self.manual.feed(1, input);
    }

    /// Carries out the oldest batch; answers its reply and the pushes that it led to.
    fn carry_out(&mut self) -> Option<(String, Input, Vec<Input>)> {
        let (_, _, batch) = self.manual.open.front()?;
        let subjects: Vec<String> = batch.iter().map(|call| subject(&call.argv)).collect();
        let subjects = subjects.join(" ");
        writeln!(self.log, "  call {subjects}").unwrap();
        let settled = self.manual.carry_out()?;
        let published = self.manual.harness.host.take_published();
        let pushes = published.into_iter().filter_map(|message| {
            let channel = String::from_utf8_lossy(&message.channel).into_owned();
            Input::pushed(&channel, &message.payload).unwrap()
        });
        Some((format!("reply {subjects}"), settled, pushes.collect()))
    }

    /// Runs until nothing is left to do.
    fn run(&mut self, order: PushOrder) {
        let mut late = Vec::new();
        loop {
            let Some((name, reply, mut pushes)) = self.carry_out() else {
                if late.is_empty() {
                    return;
                }
                for push in late.drain(..) {
                    self.feed(&name_of(&push), push);
                }
                continue;
            };
            if order == PushOrder::BeforeReply {
                for push in pushes.drain(..) {
                    self.feed(&name_of(&push), push);
                }
            }
            self.feed(&name, reply);
            if order == PushOrder::AfterAll {
                late.append(&mut pushes);
            }
            for push in pushes {
                self.feed(&name_of(&push), push);
            }
        }
    }

    /// How often the edges of a member were resolved.
    fn calls(&self, number: usize) -> usize {
        let member = format!("E{number}");
        let calls = self.log.lines().filter_map(|line| line.strip_prefix("  call "));
        calls.flat_map(str::split_whitespace).filter(|subject| *subject == member).count()
    }
}

fn name_of(push: &Input) -> String {
    match push {
        Input::Completed(completion) => {
            format!("push {}", short(&completion.execution_id.to_string()))
        }
        other => format!("push {other:?}"),
    }
}

/// The execution that a call of `ff_resolve_outgoing` is about.
fn subject(argv: &[Vec<u8>]) -> String {
    let words: Vec<String> =
        argv.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    assert_eq!(words[1], "ff_resolve_outgoing");
    let keys: usize = words[2].parse().unwrap();
    short(&words[3 + keys])
}

fn short(id: &str) -> String {
    let number = (0..10).find(|&number| execution(number) == id).unwrap();
    format!("E{number}")
}

#[test]
fn d9_a_child_that_is_reported_by_reply_and_by_push_is_dispatched_once() {
    let mut told = String::new();
    for order in [PushOrder::BeforeReply, PushOrder::AfterReply, PushOrder::AfterAll] {
        let mut cascade = Cascade::new();
        cascade.run(order);
        writeln!(told, "{order:?}").unwrap();
        told.push_str(&cascade.log);
        for number in 0..4 {
            assert_eq!(cascade.calls(number), 1, "{order:?}, E{number}:\n{}", cascade.log);
        }
        assert_eq!(cascade.manual.harness.state(3), "skipped");
    }
    assert_snapshot("stories/cascade.txt", &told);
}

#[test]
fn d2_a_push_that_is_not_an_echo_of_a_reply_is_one_more_look() {
    let mut cascade = Cascade::new();
    let (name, reply, pushes) = cascade.carry_out().unwrap();
    cascade.feed(&name, reply);
    // The echo, and while E1 is being dispatched, word of an edge that was added to it.
    for push in pushes {
        cascade.feed("push E1", push);
    }
    cascade.feed("push E1", pushed(1, TerminalOutcome::Skipped));
    cascade.run(PushOrder::AfterReply);
    assert_eq!(cascade.calls(1), 2, "{}", cascade.log);
    assert_eq!((cascade.calls(2), cascade.calls(3)), (1, 1), "{}", cascade.log);
}

#[test]
fn d9_pushes_do_not_reset_the_depth_of_a_cascade() {
    let mut harness = Harness::new();
    harness.submit(&chain(120));
    let engine = dispatcher_with(&mut harness, only(&[ScannerName::DependencyReconciler]));
    harness.push = true;
    harness.fail(0);
    harness.run_for(0);
    let deep = Observation::DepthReached { execution: member(51) };
    assert!(harness.facts.contains(&(engine, deep)), "{:#?}", harness.trace);
    assert_eq!(harness.traced(&["resolve_outgoing E50 "]), 1);
    assert_eq!(harness.traced(&["resolve_outgoing E51 "]), 0);
    harness.run_for(1_500);
    assert_eq!(harness.state(119), "skipped");
}

/// A child that a scanner skips is also dispatched once when its push overtakes the reply, and has
/// been dispatched when that comes: what counts is when the call was sent, not when its reply came.
#[test]
fn d9_a_push_that_overtakes_the_reply_of_a_scanner_is_an_echo() {
    let mut harness = Harness::new();
    harness.submit(&chain(3));
    harness.fail(0);
    drop(harness.host.take_published());
    let mut manual = ManualEngine::new(only(&[ScannerName::DependencyReconciler]), harness);
    let (mut now, mut resolved, mut late) = (0, Vec::new(), None);
    manual.feed(now, Input::Wake);
    loop {
        let Some((_, _, batch)) = manual.open.front() else {
            let Some(reply) = late.take() else { break };
            now += 1;
            manual.feed(now, reply);
            continue;
        };
        let dispatches = batch.iter().filter(|call| call.argv[1] == b"ff_resolve_outgoing");
        resolved.extend(dispatches.map(|call| subject(&call.argv)));
        let settled = manual.carry_out().unwrap();
        let published = manual.harness.host.take_published();
        let is_scanners = resolved.len() == 1 && !published.is_empty();
        for message in published {
            let channel = String::from_utf8_lossy(&message.channel).into_owned();
            now += 1;
            if let Some(push) = Input::pushed(&channel, &message.payload).unwrap() {
                manual.feed(now, push);
            }
        }
        if is_scanners {
            late = Some(settled);
            continue;
        }
        now += 1;
        manual.feed(now, settled);
    }
    assert_eq!(manual.harness.state(2), "skipped");
    assert_eq!(resolved, ["E0", "E1", "E2"], "the scanner resolves E0, then each child once");
}

/// A push may be the echo of a reply from before a gap, or tell of an edge that was added since. It
/// is taken for the latter: the echo was probably missed.
#[test]
fn d5_after_a_gap_a_push_is_not_taken_for_the_echo_of_an_earlier_reply() {
    let mut harness = Harness::new();
    harness.submit(&chain(2).roots([5]));
    let engine = dispatcher(&mut harness);
    harness.fail(0);
    harness.tell(engine, pushed(0, TerminalOutcome::Failed));
    assert_eq!(harness.state(1), "skipped", "known by the reply, and the push is lost");
    harness.tell(engine, Input::PushGap);
    let apply = stage(&mut harness, 1, 5);
    harness.push = true;
    harness.fcall(&apply);
    harness.run_for(0);
    assert_eq!(harness.state(5), "skipped", "{:#?}", harness.trace);
}

/// What the reconciler finds for the execution whose dispatch failed are its own edges. Children
/// that were skipped before are no longer among them.
#[test]
fn a_dispatch_that_fails_half_way_still_dispatches_the_children_it_has_skipped() {
    let mut harness = Harness::new();
    let children = 1..=150;
    let graph = children
        .clone()
        .fold(Graph::new().roots([0]), |graph, n| graph.all_of(n, [0]).all_of(n + 1_000, [n]));
    harness.submit(&graph.nameless());
    let engine = dispatcher(&mut harness);
    let (root, mut chunks) = (execution(0).into_bytes(), 0);
    harness.rule = Some(Box::new(move |command| {
        let resolves = command.argv.get(1).is_some_and(|word| word == b"ff_resolve_outgoing");
        chunks += usize::from(resolves && command.argv.contains(&root));
        (resolves && command.argv.contains(&root) && chunks == 2).then(silence)
    }));
    harness.fail(0);
    harness.tell(engine, pushed(0, TerminalOutcome::Failed));
    let skipped: Vec<usize> = children.filter(|&n| harness.state(n) == "skipped").collect();
    assert_eq!(skipped.len(), 100, "one chunk");
    for n in skipped {
        assert_eq!(harness.state(n + 1_000), "skipped", "{n}");
    }
}
