//! Any inputs to the engine, unknown and repeated ones included: it never panics, never exceeds its
//! bounds, and does the same on the same inputs.
//!
//! Answers come from a host that holds one of the keyspaces of the spec files, or are made up.

mod neighbour;
mod scanner_examples;
mod story;

use std::collections::{BTreeMap, BTreeSet};

use arbitrary::{Arbitrary as _, Unstructured};
use selvedge_core::command::{Answer, Command, Ticket};
use selvedge_core::engine::{Effect, Engine, Input, Observation, ScanCounts, ScannerName};
use selvedge_core::id::ExecutionId;
use selvedge_core::partition::Partition;
use selvedge_core::time::LocalTime;
use selvedge_lua::host::Host;

use self::neighbour::Neighbour;
pub use self::scanner_examples::{examples, name, work};
use self::story::{Event, Story, completion, config};
use super::lua_call;
use super::machine_run::{MachineRun, check_batch};
use super::responses::{Response, answers};
use crate::hostile::HostileRunner;

/// Tells an engine a story.
///
/// # Panics
/// When the engine exceeds a bound, sends what it must not, or does not do the same twice.
pub fn run(data: &[u8]) {
    let Ok(story) = Story::arbitrary_take_rest(Unstructured::new(data)) else { return };
    lua_call::with_runner(|runner| {
        prepare(runner, story.keyspace);
        StoryRun::new(&story, &mut runner.host).play(&story);
    });
}

/// Puts one of the recorded keyspaces into the host.
pub(super) fn prepare(runner: &mut HostileRunner, which: u16) {
    runner.host.reseed(0);
    let functions = runner.corpus.functions();
    let function = &functions[usize::from(which) % functions.len()];
    let calls = runner.corpus.calls(function);
    let call = &calls[usize::from(which) / functions.len() % calls.len()];
    call.keyspace.put(&mut runner.host);
}

/// The engine, its twin, and what is known of its batches.
struct StoryRun<'a> {
    host: &'a mut Host,
    engine: Engine,
    /// Gets the same inputs, and must do the same.
    twin: Engine,
    window: usize,
    window_per_slot: usize,
    now: LocalTime,
    open: BTreeMap<Ticket, (u16, Vec<Command>)>,
    closed: Vec<Ticket>,
    seen: BTreeSet<Ticket>,
    /// An engine of another seed.
    other: Neighbour,
    /// An engine of the same seed, which is ahead: its tickets are those that are to come.
    forerunner: Neighbour,
    draining: bool,
    /// How many ended executions it may have in mind.
    dispatch_queue: usize,
    /// Those that it was told of and did not hand over, since it last got to know of anything else.
    in_mind: BTreeSet<ExecutionId>,
    /// What its scanners did.
    counts: BTreeMap<ScannerName, ScanCounts>,
}

impl<'a> StoryRun<'a> {
    fn new(story: &Story, host: &'a mut Host) -> Self {
        let config = config(story);
        let now = LocalTime(1_000);
        Self {
            host,
            window: config.window,
            window_per_slot: config.window_per_slot,
            engine: Engine::new(config.clone(), story.seed, now),
            twin: Engine::new(config.clone(), story.seed, now),
            other: Neighbour::new(config.clone(), story.seed.wrapping_add(1), now),
            forerunner: Neighbour::new(config, story.seed, now),
            now,
            open: BTreeMap::new(),
            closed: Vec::new(),
            seen: BTreeSet::new(),
            draining: false,
            // Without any room nothing would ever be dispatched.
            dispatch_queue: usize::from(story.dispatch_queue % 8).max(1),
            in_mind: BTreeSet::new(),
            counts: BTreeMap::new(),
        }
    }

    /// Lets everything happen, and the engine stop in the end.
    fn play(mut self, story: &Story) -> Self {
        for event in story.events.iter().take(EVENTS_MAX) {
            self.happen(event);
        }
        self.end();
        self
    }

    fn happen(&mut self, event: &Event) {
        match event {
            Event::Wake { after_ms, back } => self.wake((*after_ms).into(), *back),
            Event::Deadline => self.wake_at_deadline(),
            Event::AnswerAll => self.answer_all(),
            Event::Answer { which, answers } => self.answer_one(*which, answers),
            Event::AnswerStranger { which, answers } => {
                if let Some(ticket) = self.stranger(*which) {
                    let answers = answers.iter().map(|said| said.to(self.host, None)).collect();
                    self.feed_stranger(ticket, answers);
                }
            }
            Event::Completed { partition, number, outcome } => {
                let ended = completion(*partition, *number, *outcome);
                if !self.draining {
                    self.in_mind.insert(ended.execution_id.clone());
                }
                self.feed(Input::Completed(ended));
            }
            Event::Held { partition } => {
                self.feed(Input::Held(Partition::flow(u16::from(*partition))));
            }
            Event::Freed { quota } => {
                self.feed(Input::Freed(uuid::Uuid::from_u128(u128::from(*quota)).into()));
            }
            Event::PushGap => self.feed(Input::PushGap),
            Event::LibraryLoaded => self.feed(Input::LibraryLoaded),
            Event::Lanes(names) => {
                let names = names.iter().take(LANES_MAX);
                let lanes = names.filter_map(|name| format!("lane-{name}").parse().ok());
                self.feed(Input::Lanes(lanes.collect()));
            }
            Event::Drain => {
                self.draining = true;
                self.feed(Input::Drain);
            }
        }
    }

    /// Stops the engine: when nothing is open any more, it must say that it is done.
    fn end(&mut self) {
        self.happen(&Event::Drain);
        self.happen(&Event::AnswerAll);
        assert!(self.open.is_empty(), "batches were sent after the drain");
        assert!(self.engine.is_drained(), "nothing is open, and yet it is not drained");
        assert_eq!(self.engine.deadline(), None, "a drained engine waits for something");
    }

    /// A ticket that is not open.
    fn stranger(&mut self, which: u8) -> Option<Ticket> {
        let neighbour = match which % 3 {
            0 => {
                let at = usize::from(which / 3) % self.closed.len().max(1);
                return self.closed.get(at).copied();
            }
            1 => &mut self.other,
            _ => &mut self.forerunner,
        };
        (0..=self.seen.len()).find_map(|_| {
            let ticket = neighbour.next_ticket()?;
            (!self.seen.contains(&ticket)).then_some(ticket)
        })
    }

    fn close(&mut self, ticket: Ticket) {
        if self.open.remove(&ticket).is_some() {
            self.closed.push(ticket);
        }
    }

    fn feed(&mut self, input: Input) {
        self.feed_at(self.now, input);
    }

    fn feed_at(&mut self, now: LocalTime, input: Input) {
        self.twin.handle(now, input.clone());
        self.engine.handle(now, input);
        self.carry_out();
    }

    /// An answer to nobody's question is told of, and does no more than a look at the clock, which
    /// is all that the twin gets.
    fn feed_stranger(&mut self, ticket: Ticket, answers: Vec<Answer>) {
        self.twin.handle(self.now, Input::Wake);
        self.engine.handle(self.now, Input::Settled { ticket, answers });
        let told = self.engine.next_effect();
        assert!(
            matches!(told, Some(Effect::Observe(Observation::AnswerIgnored(of))) if of == ticket),
            "{ticket:?} is not open, and its answer was met with {told:?}"
        );
        self.carry_out();
    }

    fn carry_out(&mut self) {
        let mut effects = 0;
        while let Some(effect) = self.engine.next_effect() {
            let same = self.twin.next_effect().map(|twin| format!("{twin:?}"));
            assert_eq!(same, Some(format!("{effect:?}")), "the same inputs had another effect");
            effects += 1;
            assert!(effects < EFFECTS_MAX, "effects without end");
            match effect {
                Effect::Send { ticket, slot, batch } => self.sent(ticket, slot, batch),
                Effect::Observe(Observation::BatchTimedOut(ticket)) => {
                    self.close(ticket);
                    self.in_mind.clear();
                }
                Effect::Observe(Observation::HandedOver { execution, .. }) => {
                    self.in_mind.remove(&execution);
                }
                Effect::Observe(Observation::ScanDone { scanner, counts, .. }) => {
                    self.counts.entry(scanner).or_default().add(&counts);
                }
                Effect::Observe(_) => {}
            }
        }
        assert!(self.twin.next_effect().is_none(), "the same inputs had another effect");
        self.within_bounds();
    }

    fn sent(&mut self, ticket: Ticket, to: u16, batch: Vec<Command>) {
        assert!(!self.draining, "sent while it drains");
        check_batch(&mut self.seen, ticket, to, &batch);
        self.open.insert(ticket, (to, batch));
    }

    fn within_bounds(&self) {
        assert_eq!(self.engine.in_flight(), self.open.len(), "it counts its tickets otherwise");
        assert!(self.open.len() <= self.window, "{} batches in flight", self.open.len());
        let mut by_slot = BTreeMap::<u16, usize>::new();
        self.open.values().for_each(|(slot, _)| *by_slot.entry(*slot).or_default() += 1);
        let most = by_slot.values().max().copied().unwrap_or(0);
        assert!(most <= self.window_per_slot, "{most} batches in flight to one slot");
        let in_mind = self.in_mind.len();
        assert!(in_mind <= self.dispatch_queue, "{in_mind} ended executions in mind");
        assert!(self.engine.deadline().is_some() || self.draining, "nothing will ever wake it");
    }
}

impl MachineRun for StoryRun<'_> {
    fn now(&self) -> LocalTime {
        self.now
    }

    fn deadline(&self) -> Option<LocalTime> {
        self.engine.deadline()
    }

    fn open_tickets(&self) -> Vec<Ticket> {
        self.open.keys().copied().collect()
    }

    fn pass(&mut self, ms: u64) {
        self.now = LocalTime(self.now.0.saturating_add(ms));
        self.host.set_now_us(self.host.now_us().saturating_add(ms.saturating_mul(1_000)));
    }

    fn wake_at(&mut self, now: LocalTime) {
        self.feed_at(now, Input::Wake);
    }

    fn answer(&mut self, ticket: Ticket, said: Option<&Vec<Response>>) {
        let Some((_, batch)) = self.open.get(&ticket).cloned() else { return };
        let answers = answers(self.host, &batch, said);
        self.close(ticket);
        // What it does with an answer may end what it has in mind.
        self.in_mind.clear();
        self.feed(Input::Settled { ticket, answers });
    }
}

const EVENTS_MAX: usize = 48;
const LANES_MAX: usize = 4;

/// Far more than a visit to every partition can cause.
const EFFECTS_MAX: usize = 50_000;
