//! The worker as a pure machine: it claims executions of its lanes, has their handlers run, keeps
//! their leases and reports their outcomes.
//!
//! It has no clock, socket, thread or random source of its own. Give it one input, then take
//! effects until none is left, then sleep until the deadline or the next input:
//!
//! ```
//! use selvedge_core::id::{WorkerId, WorkerInstanceId};
//! use selvedge_core::time::LocalTime;
//! use selvedge_core::worker::{Effect, Input, Worker, WorkerConfig};
//!
//! let config = WorkerConfig::new(WorkerId::new("w"), WorkerInstanceId::new("w-1"));
//! let mut worker = Worker::new(config, [7; 32], LocalTime(0));
//! worker.handle(LocalTime(0), Input::Wake);
//! while let Some(effect) = worker.next_effect() {
//!     match effect {
//!         Effect::Send { ticket, slot, batch } => { /* one slot, one pipeline */ }
//!         Effect::Start { lane, work } => { /* run the handler */ }
//!         Effect::Cancel { lease, reason } => { /* tell the handler to stop */ }
//!         Effect::Abort { lease } => { /* drop the handler */ }
//!         Effect::Answer { id, answer } => { /* what the handler asked for */ }
//!         Effect::Observe(observation) => { /* a log line, a metric, a trace event */ }
//!     }
//! }
//! let wake_at = worker.deadline();
//! ```
//!
//! Each part owns its state and hands back events; [`Worker`] carries them from one to another.
//!
//! | part | what it owns |
//! | --- | --- |
//! | `claiming` | where to claim, claims in flight, backoff by partition; `claim_replies`: what their replies mean; `claim_repeats`: those whose replies were lost; `end_claims`: claims made with reports; `survey`: after a gap in the pushes; `lane_states`: which lanes are paused |
//! | `admissions` | executions whose budgets and quota are being asked |
//! | `attempts` | claimed executions; `leases`: how long their leases last; `reports`: how outcomes are reported |
//! | `handler_requests` | what handlers have asked for |
//! | `quota_releases` | quota slots to give back |
//! | `other_kinds` | kinds that were passed over, and whether a worker handles them |
//! | `drain` | how a drain goes: its phases and what is due in them |
//! | `io` | requests in flight, timers, effects, random numbers |

mod admissions;
mod attempts;
mod claim_queue;
mod claim_repeats;
mod claim_replies;
mod claiming;
mod config;
mod drain;
mod end_claims;
mod handler_requests;
mod inputs_and_effects;
mod io;
mod lane_states;
mod leases;
mod observe;
mod other_kinds;
mod quota_releases;
mod reports;
mod survey;
#[cfg(test)]
mod tests;
mod timers;

use alloc::sync::Arc;
use alloc::vec::Vec;

pub use config::WorkerConfig;
pub use inputs_and_effects::{
    CancelReason, Effect, HandlerOutcome, HandlerReply, HandlerRequest, HandlerRequestError, Input,
    Suspension,
};
pub use observe::{AttemptOutcome, Observation};
pub use reports::{PANIC, PERMANENT, RESULT_BYTES_MAX};

use admissions::Admissions;
use attempts::Attempts;
use claiming::Claiming;
use drain::Phase;
use end_claims::EndClaim;
use handler_requests::HandlerRequests;
use io::{Alarm, Continuation, Io};
use other_kinds::OtherKinds;
use quota_releases::{QuotaReleases, QuotaSlot};
use reports::Reported;

use crate::id::{LaneId, LeaseId};
use crate::partition::Partition;
use crate::requests;
use crate::time::LocalTime;

/// The machine. See the module for how to drive it.
#[derive(Clone)]
pub struct Worker {
    io: Io,
    capacity: usize,
    claiming: Claiming,
    admissions: Admissions,
    attempts: Attempts,
    handler_requests: HandlerRequests,
    releases: QuotaReleases,
    other_kinds: OtherKinds,
    phase: Phase,
}

impl Worker {
    /// A new worker. `seed` feeds its ids, its jitter and the number of its first ticket. Workers
    /// must not share a seed: their leases would have the same ids.
    #[must_use]
    pub fn new(config: WorkerConfig, seed: [u8; 32], now: LocalTime) -> Self {
        let mut io = Io::new(&config, seed, now);
        let config = Arc::new(config);
        Self {
            capacity: config.capacity,
            claiming: Claiming::new(config.clone(), &mut io),
            admissions: Admissions::new(config.clone()),
            attempts: Attempts::new(config.clone()),
            handler_requests: HandlerRequests::new(config.clone()),
            releases: QuotaReleases::new(config.clone()),
            other_kinds: OtherKinds::new(config),
            phase: Phase::Open,
            io,
        }
    }

    /// Feeds one thing that happened. `now` never runs backwards; if it does, the latest time so
    /// far counts. Being woken early changes nothing.
    pub fn handle(&mut self, now: LocalTime, input: Input) {
        self.io.now = self.io.now.max(now);
        // An answer may have come in time for a lease that seems to be over. Nothing else has.
        let settled = matches!(input, Input::Settled { .. });
        if !settled {
            self.on_alarms();
        }
        match input {
            Input::Wake => {}
            Input::Settled { ticket, answers } => {
                let events = self.io.requests.settle(ticket, answers);
                self.on_requests(events);
            }
            Input::Ready(lane, partition) => self.on_ready(lane, partition),
            Input::LaneChanged(_) => self.claiming.read_lane_states(&mut self.io),
            Input::Lost(execution) => self.attempts.renew_now(&mut self.io, &execution),
            Input::PushGap => {
                self.claiming.survey(&mut self.io);
                self.claiming.read_lane_states(&mut self.io);
                self.attempts.renew_all(&mut self.io);
            }
            Input::Ended { lease, outcome } => {
                let claim = self.claim_with_end(lease);
                let quota_slot = self.attempts.ended(&mut self.io, lease, outcome, claim);
                self.release(quota_slot);
            }
            Input::HandlerRequested { lease, id, request } => {
                let Self { io, attempts, handler_requests, .. } = self;
                handler_requests.open(io, attempts, lease, id, request);
            }
            Input::Capacity(capacity) => self.capacity = capacity,
            Input::Drain => self.begin_drain(),
        }
        if settled {
            self.on_alarms();
        }
        while let Some(events) = self.io.requests.expire_next(self.io.now) {
            self.on_requests(events);
        }
        if self.phase.is_open() {
            let free = self.free_permits();
            self.attempts.start_waiting(&mut self.io, free);
            let free = self.free_permits();
            self.claiming.claim(&mut self.io, free);
        }
        self.io.send();
        self.check_drained();
    }

    /// Takes the next effect. Commands of one ticket are to be carried out in their order.
    #[must_use]
    pub fn next_effect(&mut self) -> Option<Effect> {
        self.io.effects.pop_front()
    }

    /// When to feed [`Input::Wake`]. May change after every [`Self::handle`].
    #[must_use]
    pub fn deadline(&self) -> Option<LocalTime> {
        if self.is_drained() {
            return None;
        }
        [self.io.alarms.next(), self.io.requests.deadline()].into_iter().flatten().min()
    }

    /// Whether nothing is left to do, after a drain.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.phase == Phase::Drained
    }

    /// Permits that are in use: handlers that run, reports and claims that are not answered.
    #[must_use]
    pub const fn permits_used(&self) -> usize {
        self.attempts.permits() + self.claiming.permits()
    }

    const fn free_permits(&self) -> usize {
        self.capacity.saturating_sub(self.permits_used())
    }

    /// The claim that goes with the report of an end: the permit stays with its target, unless it
    /// is wanted elsewhere.
    fn claim_with_end(&mut self, lease: LeaseId) -> Option<EndClaim> {
        let is_wanted = self.permits_used() > self.capacity || self.attempts.is_any_waiting();
        if is_wanted || !self.phase.is_open() {
            return None;
        }
        let attempt = self.attempts.get(lease)?;
        let target = (attempt.lane.clone(), attempt.execution.partition());
        self.claiming.claim_with_end(&mut self.io, target, attempt.turn)
    }

    fn on_ready(&mut self, lane: LaneId, partition: Partition) {
        if self.free_permits() == 0 {
            self.io.observe(Observation::AtCapacity);
        }
        self.claiming.mark_ready(lane, partition);
    }

    fn on_alarms(&mut self) {
        while let Some(alarm) = self.io.alarms.take_due(self.io.now) {
            let io = &mut self.io;
            match alarm {
                Alarm::Expire(lease) => {
                    let quota_slot = self.attempts.expire(io, lease);
                    self.release(quota_slot);
                }
                Alarm::Renew(lease) => self.attempts.renew(io, lease),
                Alarm::PutBack(lease) => self.attempts.put_back(io, lease),
                Alarm::Report(lease) => self.attempts.send_report(io, lease),
                Alarm::Poll => self.claiming.poll(io),
                Alarm::LaneStates => self.claiming.read_lane_states(io),
                // What waits for it is claimed at the end of every input.
                Alarm::Partition(_) => {}
                Alarm::Rest(key) => drop(self.claiming.resting.remove(&key)),
                Alarm::Slow(key) => self.claiming.on_slow(io, key),
                Alarm::Repeat(key) => {
                    let events = self.claiming.repeat(io, &key);
                    self.on_claiming(events);
                }
                Alarm::Admission(id) => {
                    let event = self.admissions.on_alarm(io, &id);
                    self.on_admission(event);
                }
                Alarm::HandlerRequest(request) => self.handler_requests.send(io, request),
                Alarm::Release(number) => self.releases.send(io, number),
                Alarm::Drain(step) => self.on_drain_step(step),
            }
        }
    }

    fn on_requests(&mut self, events: Vec<requests::Event<Continuation>>) {
        for event in events {
            match event {
                requests::Event::Replied(continuation, replies) => {
                    self.on_replies(continuation, replies);
                }
                requests::Event::AnswerIgnored(ticket) => {
                    self.io.observe(Observation::AnswerIgnored(ticket));
                }
                requests::Event::TicketExpired(ticket) => {
                    self.io.observe(Observation::BatchTimedOut(ticket));
                }
            }
        }
    }

    fn on_replies(&mut self, continuation: Continuation, replies: Vec<crate::command::Reply>) {
        let io = &mut self.io;
        match continuation {
            Continuation::Survey(partition) => self.claiming.on_survey(io, partition, &replies),
            Continuation::LaneStates => {
                let events = self.claiming.on_lane_states(io, replies.into_iter().next());
                self.on_claiming(events);
            }
            Continuation::Claim(key) => {
                let events = self.claiming.on_claim_reply(io, &key, replies);
                self.on_claiming(events);
            }
            Continuation::Admission(id) => {
                let event = self.admissions.on_replies(io, &id, replies);
                self.on_admission(event);
            }
            Continuation::Renewal { lease, sent } => {
                let quota_slot = self.attempts.on_renewal(io, lease, sent, replies);
                self.release(quota_slot);
            }
            Continuation::Report(lease) => {
                let Reported { quota_slot, claim } = self.attempts.on_report(io, lease, replies);
                self.release(quota_slot);
                if let Some((claim, reply)) = claim {
                    let events = self.claiming.on_end(&mut self.io, claim, reply);
                    self.on_claiming(events);
                }
            }
            Continuation::HandlerRequest(request) => {
                let quota_slot =
                    self.handler_requests.on_replies(io, &mut self.attempts, request, replies);
                self.release(quota_slot);
            }
            Continuation::Release(number) => self.releases.on_replies(io, number, replies),
            Continuation::OtherKind => self.other_kinds.on_replies(io, replies),
        }
    }

    fn on_claiming(&mut self, events: Vec<claiming::Event>) {
        for event in events {
            match event {
                claiming::Event::Granted(granted) => self.attempts.granted(&mut self.io, granted),
                claiming::Event::NeedsAdmission(candidate) if self.phase.is_open() => {
                    self.admissions.begin(&mut self.io, candidate);
                }
                claiming::Event::NeedsAdmission(_) => {}
                claiming::Event::MayLookBehind(target) => {
                    if self.admissions.has_room(&target.key()) {
                        self.claiming.queue(target);
                    }
                }
                claiming::Event::PassedOver(lane, other) if self.phase.is_open() => {
                    self.other_kinds.passed_over(&mut self.io, lane, other);
                }
                claiming::Event::PassedOver(..) => {}
                claiming::Event::QuotaSlotUnneeded(execution, quota) => {
                    self.release(Some(QuotaSlot { execution, quota, ended: false }));
                }
            }
        }
    }

    fn on_admission(&mut self, event: Option<admissions::Event>) {
        match event {
            Some(admissions::Event::Admitted(admitted)) => {
                self.claiming.add_admitted(admitted);
                let events = self.claiming.give_up_paused();
                self.on_claiming(events);
            }
            Some(admissions::Event::Held((lane, partition))) => {
                self.claiming.mark_ready(lane, partition);
            }
            Some(admissions::Event::GivenUp((lane, partition), quota_slot)) => {
                self.claiming.back_off(&mut self.io, partition);
                self.claiming.mark_ready(lane, partition);
                let quota_slot = quota_slot.map(|(execution, quota)| QuotaSlot {
                    execution,
                    quota,
                    ended: false,
                });
                self.release(quota_slot);
            }
            None => {}
        }
    }

    fn release(&mut self, quota_slot: Option<QuotaSlot>) {
        if let Some(quota_slot) = quota_slot {
            self.releases.begin(&mut self.io, quota_slot);
        }
    }
}

// The shell moves it between threads.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Worker>();
};
