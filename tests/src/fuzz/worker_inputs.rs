//! Any inputs to the worker, unknown and repeated ones included: it never panics, never exceeds its
//! bounds, and does the same on the same inputs.
//!
//! Answers come from a host that holds one of the keyspaces of the spec files, and executions that
//! are created on the way, or are made up.

mod story;

use std::collections::{BTreeMap, BTreeSet};

use arbitrary::{Arbitrary as _, Unstructured};
use selvedge_core::command::{Answer, Command, Ticket};
use selvedge_core::id::LeaseId;
use selvedge_core::partition::Partition;
use selvedge_core::time::LocalTime;
use selvedge_core::worker::{Effect, Input, Observation, Worker};
use selvedge_lua::host::Host;

use self::story::{Event, Story, config, creation, execution, handler_request, lane, outcome};
use super::machine_run::{MachineRun, check_batch};
use super::responses::{Response, answers};
use super::{engine_inputs, lua_call};

/// Tells a worker a story.
///
/// # Panics
/// When the worker exceeds a bound, sends what it must not, or does not do the same twice.
pub fn run(data: &[u8]) {
    let Ok(story) = Story::arbitrary_take_rest(Unstructured::new(data)) else { return };
    lua_call::with_runner(|runner| {
        engine_inputs::prepare(runner, story.keyspace);
        StoryRun::new(&story, &mut runner.host).play(&story);
    });
}

/// The worker, its twin, and what is known of its batches and handlers.
struct StoryRun<'a> {
    host: &'a mut Host,
    worker: Worker,
    /// Gets the same inputs, and must do the same.
    twin: Worker,
    /// A worker of another seed, which gets no answers: only its tickets matter.
    other: Worker,
    now: LocalTime,
    open: BTreeMap<Ticket, Vec<Command>>,
    closed: Vec<Ticket>,
    seen: BTreeSet<Ticket>,
    running: BTreeSet<LeaseId>,
    /// Leases of all handlers that were ever started.
    started: Vec<LeaseId>,
    open_requests: BTreeSet<u64>,
    next_request: u64,
    /// The largest capacity so far.
    capacity_max: usize,
    draining: bool,
}

impl<'a> StoryRun<'a> {
    fn new(story: &Story, host: &'a mut Host) -> Self {
        let (config, now) = (config(story), LocalTime(1_000));
        let worker = Worker::new(config.clone(), [story.seed; 32], now);
        Self {
            host,
            twin: worker.clone(),
            worker,
            other: Worker::new(config.clone(), [story.seed.wrapping_add(1); 32], now),
            now,
            open: BTreeMap::new(),
            closed: Vec::new(),
            seen: BTreeSet::new(),
            running: BTreeSet::new(),
            started: Vec::new(),
            open_requests: BTreeSet::new(),
            next_request: 0,
            capacity_max: config.capacity,
            draining: false,
        }
    }

    /// Lets everything happen, and the worker stop in the end.
    fn play(mut self, story: &Story) {
        for event in story.events.iter().take(EVENTS_MAX) {
            self.happen(event);
        }
        self.end();
    }

    fn happen(&mut self, event: &Event) {
        match event {
            Event::Wake { after_ms, back } => self.wake((*after_ms).into(), *back),
            Event::Deadline => self.wake_at_deadline(),
            Event::AnswerAll => self.answer_all(),
            Event::Answer { which, answers } => self.answer_one(*which, answers),
            Event::AnswerStranger { which, answers } => self.answer_stranger(*which, answers),
            Event::Create { number, lane: of, policy } => {
                let call = creation(*number, lane(*of), *policy);
                self.host.call(&Command::call(&call).argv);
            }
            Event::Ready { lane: of, partition } => {
                self.feed(Input::Ready(lane(*of), Partition::flow(u16::from(*partition))));
            }
            Event::Lost { number } => self.feed(Input::Lost(execution(*number))),
            Event::PushGap => self.feed(Input::PushGap),
            Event::Ended { which, how } => {
                if let Some(lease) = self.handler(*which) {
                    self.running.remove(&lease);
                    self.feed(Input::Ended { lease, outcome: outcome(*how) });
                }
            }
            Event::HandlerRequested { which, what } => {
                if let Some(lease) = self.handler(*which) {
                    let id = self.next_request;
                    self.next_request += 1;
                    self.open_requests.insert(id);
                    self.feed(Input::HandlerRequested {
                        lease,
                        id,
                        request: handler_request(*what),
                    });
                }
            }
            Event::Capacity(capacity) => {
                let capacity = usize::from(*capacity % 32);
                self.capacity_max = self.capacity_max.max(capacity);
                self.feed(Input::Capacity(capacity));
            }
            Event::Drain => {
                self.draining = true;
                self.feed(Input::Drain);
            }
        }
    }

    /// Stops the worker: when everything is answered and its handlers have had their time, it must
    /// say that it is done.
    fn end(&mut self) {
        self.happen(&Event::Drain);
        for _ in 0..STEPS_MAX {
            if self.worker.is_drained() {
                break;
            }
            self.happen(&Event::AnswerAll);
            self.happen(&Event::Deadline);
        }
        assert!(self.worker.is_drained(), "it is never drained");
        assert_eq!(self.worker.deadline(), None, "a drained worker waits for something");
        assert_eq!(self.running.len(), 0, "handlers were forgotten");
        assert_eq!(self.worker.permits_used(), 0, "permits were forgotten");
    }

    /// A handler that runs, or one that has ended.
    fn handler(&self, which: u8) -> Option<LeaseId> {
        let at = usize::from(which) % self.started.len().max(1);
        self.started.get(at).copied()
    }

    /// An answer to nobody's request is told of, and does no more than a look at the clock, which
    /// is all that the twin gets.
    fn answer_stranger(&mut self, which: u8, answers: &[Response]) {
        let Some(ticket) = self.stranger(which) else { return };
        let answers: Vec<Answer> = answers.iter().map(|said| said.to(self.host, None)).collect();
        self.worker.handle(self.now, Input::Settled { ticket, answers });
        self.twin.handle(self.now, Input::Wake);
        let ignored = |effect: &Effect| {
            let Effect::Observe(Observation::AnswerIgnored(of)) = effect else { return false };
            *of == ticket
        };
        let mut effects: Vec<Effect> = std::iter::from_fn(|| self.worker.next_effect()).collect();
        let told = effects.iter().position(ignored);
        assert!(told.is_some(), "{ticket:?} is not open, and its answer was met with {effects:?}");
        told.map(|at| effects.remove(at));
        let twin: Vec<Effect> = std::iter::from_fn(|| self.twin.next_effect()).collect();
        assert_eq!(format!("{effects:?}"), format!("{twin:?}"), "it did more than look");
        effects.into_iter().for_each(|effect| self.carry_out(effect));
    }

    /// A ticket that is not open.
    fn stranger(&mut self, which: u8) -> Option<Ticket> {
        if which.is_multiple_of(2) {
            let at = usize::from(which / 2) % self.closed.len().max(1);
            return self.closed.get(at).copied();
        }
        self.other.handle(self.now, Input::PushGap);
        let tickets = std::iter::from_fn(|| self.other.next_effect());
        let sent = tickets.filter_map(|effect| {
            if let Effect::Send { ticket, .. } = effect { Some(ticket) } else { None }
        });
        sent.collect::<Vec<_>>().into_iter().find(|ticket| !self.seen.contains(ticket))
    }

    fn feed(&mut self, input: Input) {
        self.feed_at(self.now, input);
    }

    fn feed_at(&mut self, now: LocalTime, input: Input) {
        self.twin.handle(now, input.clone());
        self.worker.handle(now, input);
        let mut effects = 0;
        while let Some(effect) = self.worker.next_effect() {
            let same = self.twin.next_effect().map(|twin| format!("{twin:?}"));
            assert_eq!(same, Some(format!("{effect:?}")), "the same inputs had another effect");
            effects += 1;
            assert!(effects < EFFECTS_MAX, "effects without end");
            self.carry_out(effect);
        }
        assert!(self.twin.next_effect().is_none(), "the same inputs had another effect");
        assert_eq!(self.worker.deadline(), self.twin.deadline(), "another deadline");
        assert!(self.open.len() <= OPEN_MAX, "{} batches in flight", self.open.len());
        let waits = self.worker.deadline().is_some() || self.worker.is_drained();
        assert!(waits, "nothing will ever wake it");
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Send { ticket, slot, batch } => self.sent(ticket, slot, batch),
            Effect::Start { work, .. } => {
                let lease = work.fence.lease_id;
                assert!(!self.draining, "a handler was started while it drains");
                assert!(self.running.insert(lease), "a handler was started twice");
                self.started.push(lease);
                let (running, most) = (self.running.len(), self.capacity_max);
                assert!(running <= most, "{running} handlers, the capacity was at most {most}");
            }
            Effect::Cancel { lease, .. } => {
                assert!(self.running.contains(&lease), "told to stop, and it does not run");
            }
            Effect::Abort { lease } => {
                assert!(self.running.remove(&lease), "dropped, and it does not run");
            }
            Effect::Answer { id, .. } => {
                assert!(self.open_requests.remove(&id), "answered twice, or nobody asked");
            }
            Effect::Observe(Observation::BatchTimedOut(ticket)) => {
                if self.open.remove(&ticket).is_some() {
                    self.closed.push(ticket);
                }
            }
            Effect::Observe(_) => {}
        }
    }

    fn sent(&mut self, ticket: Ticket, to: u16, batch: Vec<Command>) {
        check_batch(&mut self.seen, ticket, to, &batch);
        self.open.insert(ticket, batch);
    }
}

impl MachineRun for StoryRun<'_> {
    fn now(&self) -> LocalTime {
        self.now
    }

    fn deadline(&self) -> Option<LocalTime> {
        self.worker.deadline()
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
        let Some(batch) = self.open.remove(&ticket) else { return };
        self.closed.push(ticket);
        let answers = answers(self.host, &batch, said);
        self.feed(Input::Settled { ticket, answers });
    }
}

const EVENTS_MAX: usize = 48;

/// Far more than any input can cause.
const EFFECTS_MAX: usize = 20_000;

/// More than all partitions, handlers and admissions can have in flight.
const OPEN_MAX: usize = 2_000;

/// Every repeat of every call within the time of a drain.
const STEPS_MAX: usize = 5_000;
