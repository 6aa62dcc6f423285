//! What every part of a worker uses: the time, requests, timers, effects and random numbers.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use uuid::Uuid;

use super::claim_queue::TargetKey;
use super::claiming::ClaimKey;
use super::inputs_and_effects::Effect;
use super::observe::Observation;
use crate::call::Function;
use crate::command::{Command, Reply};
use crate::error::CallError;
use crate::id::{ExecutionId, LeaseId};
use crate::partition::Partition;
use crate::reply::{self, value};
use crate::requests::{Priority, ReadyBatch, RequestLimits, Requests};
use crate::retry::RetryDelays;
use crate::time::{DURATION_MAX, LocalTime, ServerTime};

use super::config::WorkerConfig;
use super::timers::Timers;

/// Which part goes on when the replies of a request are there.
#[derive(Clone, Debug)]
pub(super) enum Continuation {
    Survey(Partition),
    LaneStates,
    Claim(ClaimKey),
    Admission(ExecutionId),
    Renewal { lease: LeaseId, sent: LocalTime },
    Report(LeaseId),
    HandlerRequest(u64),
    Release(u64),
    OtherKind,
}

/// What is due at a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Alarm {
    /// Leases expire before anything else that is due at the same time.
    Expire(LeaseId),
    Renew(LeaseId),
    PutBack(LeaseId),
    Report(LeaseId),
    Poll,
    LaneStates,
    /// The backoff of a partition is over.
    Partition(Partition),
    /// Claims are unanswered for long.
    Slow(ClaimKey),
    Repeat(ClaimKey),
    /// A target may be claimed from again.
    Rest(TargetKey),
    Admission(ExecutionId),
    HandlerRequest(u64),
    Release(u64),
    Drain(super::drain::Step),
}

#[derive(Clone)]
pub(super) struct Io {
    pub(super) now: LocalTime,
    pub(super) requests: Requests<Continuation>,
    pub(super) alarms: Timers<Alarm>,
    pub(super) effects: VecDeque<Effect>,
    random: ChaCha8Rng,
}

impl Io {
    pub(super) fn new(config: &WorkerConfig, seed: [u8; 32], now: LocalTime) -> Self {
        let mut random = ChaCha8Rng::from_seed(seed);
        let limits = RequestLimits {
            window: WINDOW,
            window_per_slot: WINDOW_PER_SLOT,
            timeout: config.batch_timeout,
        };
        Self {
            now,
            requests: Requests::new(limits, random.next_u64()),
            alarms: Timers::new(),
            effects: VecDeque::new(),
            random,
        }
    }

    pub(super) fn request(&mut self, commands: Vec<Command>, continuation: Continuation) {
        self.requests.add(commands, Priority::Due, continuation);
    }

    /// Requests one call.
    pub(super) fn call<F: Function>(&mut self, call: &F, continuation: Continuation) {
        self.request(alloc::vec![Command::call(call)], continuation);
    }

    pub(super) fn request_in_background(
        &mut self,
        commands: Vec<Command>,
        continuation: Continuation,
    ) {
        self.requests.add(commands, Priority::Background, continuation);
    }

    /// Sends what was requested.
    pub(super) fn send(&mut self) {
        let send =
            |ReadyBatch { ticket, slot, commands }| Effect::Send { ticket, slot, batch: commands };
        self.effects.extend(self.requests.send(self.now).into_iter().map(send));
    }

    pub(super) fn effect(&mut self, effect: Effect) {
        self.effects.push_back(effect);
    }

    pub(super) fn observe(&mut self, observation: Observation) {
        self.effect(Effect::Observe(observation));
    }

    pub(super) fn set(&mut self, alarm: Alarm, at: LocalTime) {
        self.alarms.set(alarm, at);
    }

    /// Sets an alarm after the next delay of a backoff.
    pub(super) fn back_off(&mut self, alarm: Alarm, delays: &mut RetryDelays) {
        let at = self.now.after(delays.next(self.random.next_u64()));
        self.alarms.set(alarm, at);
    }

    pub(super) fn bits(&mut self) -> u64 {
        self.random.next_u64()
    }

    pub(super) fn id(&mut self) -> Uuid {
        let mut bytes = [0; 16];
        self.random.fill_bytes(&mut bytes);
        uuid::Builder::from_random_bytes(bytes).into_uuid()
    }
}

/// Most batches in flight: more than one for every partition of a large deployment.
const WINDOW: usize = 8_192;
/// Most batches in flight for one slot. Unanswered claims must leave room for renewals and reports.
const WINDOW_PER_SLOT: usize = 16;

/// Reads the only reply of a call.
pub(super) fn only<F: Function>(replies: Vec<Reply>) -> Result<F::Reply, CallError> {
    parse::<F>(replies.into_iter().next())
}

pub(super) fn parse<F: Function>(reply: Option<Reply>) -> Result<F::Reply, CallError> {
    F::parse(value(reply)?)
}

/// The time in the reply to [`Command::time`].
pub(super) fn read_time(reply: Option<Reply>) -> Result<ServerTime, CallError> {
    Ok(reply::time(&value(reply)?)?)
}

/// A server's time plus a duration, never past the end of time.
pub(super) fn later(time: ServerTime, by: Duration) -> ServerTime {
    let ms = i64::try_from(by.min(DURATION_MAX).as_millis()).unwrap_or(i64::MAX);
    ServerTime(time.0.saturating_add(ms))
}
