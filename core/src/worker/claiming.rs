//! Claims: where to claim next, claims in flight, and claims whose replies were lost.
//!
//! The claims on one target, a lane of a partition, are sent as one round, and a target has at most
//! one round at a time. Targets do not wait for each other: what fails or stays unanswered delays
//! its own partition only.
//!
//! A claim takes a permit, for the handler of the execution that it may get. If it stays unanswered
//! for long, its permit is lent to others; an execution that it gets then waits for the next permit.
//!
//! A claim that was perhaps applied is repeated with the same lease id until a lease from it could
//! have lapsed: the answer is the same as long as the lease stands.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::claim_queue::{ClaimQueue, ClaimTarget};
use super::config::WorkerConfig;
use super::io::{Alarm, Continuation, Io};
use super::observe::Observation;
use super::rounds::RoundResult;
use crate::call::scheduling::{ClaimNext, ClaimedWork};
use crate::capability::fnv1a;
use crate::command::Command;
use crate::id::{ExecutionId, LaneId, QuotaPolicyId};
use crate::partition::Partition;
use crate::retry::RetryDelays;
use crate::time::LocalTime;

/// Names the claims that are sent together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RoundKey {
    /// Claims on a target.
    Target(LaneId, Partition),
    /// The claim of an execution that was admitted.
    Admitted(ExecutionId),
}

/// What became of claims.
pub(super) enum Event {
    /// An execution was claimed.
    Granted(Granted),
    /// A candidate needs admission.
    NeedsAdmission(Candidate),
    /// Candidates behind one that needs admission can be claimed, unless too many are being
    /// admitted.
    MayLookBehind(ClaimTarget),
    /// An admitted execution was not claimed: its slot may not be needed.
    SlotUnneeded(ExecutionId, QuotaPolicyId),
}

/// A claimed execution.
pub(super) struct Granted {
    pub(super) lane: LaneId,
    pub(super) work: ClaimedWork,
    /// When the claim was first sent: the lease is not older.
    pub(super) since: LocalTime,
    /// Whether the claim had been repeated.
    pub(super) repeated: bool,
    /// Whether it still has the permit of its claim.
    pub(super) has_permit: bool,
}

/// A candidate that needs admission.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) execution_id: ExecutionId,
    pub(super) lane: LaneId,
    pub(super) budget_ids: alloc::string::String,
    pub(super) quota_policy_id: alloc::string::String,
}

/// An admitted execution, to be claimed with the next permit.
#[derive(Clone, Debug)]
pub(super) struct Admitted {
    pub(super) execution_id: ExecutionId,
    pub(super) lane: LaneId,
    pub(super) quota: Option<QuotaPolicyId>,
}

#[derive(Clone, Debug)]
pub(super) struct Round {
    pub(super) target: ClaimTarget,
    pub(super) claims: Vec<Claim>,
    /// Whether others use its permits.
    pub(super) lent: bool,
    /// The quota of an admitted execution.
    pub(super) quota: Option<QuotaPolicyId>,
}

#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) call: ClaimNext,
    pub(super) since: LocalTime,
    pub(super) repeated: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Backoff {
    delays: RetryDelays,
    pub(super) until: LocalTime,
}

#[derive(Clone)]
pub(super) struct Claiming {
    pub(super) config: Arc<WorkerConfig>,
    pub(super) queue: ClaimQueue,
    pub(super) rounds: BTreeMap<RoundKey, Round>,
    pub(super) admitted: VecDeque<Admitted>,
    /// Partitions whose last claims failed.
    pub(super) backoffs: BTreeMap<Partition, Backoff>,
    /// Partitions with rounds that are unanswered for long, and how many.
    pub(super) slow: BTreeMap<Partition, usize>,
    /// Permits that claims have.
    pub(super) permits: usize,
    /// Claims whose permits are lent.
    pub(super) lent: usize,
    /// Partitions whose index sizes are being read.
    pub(super) surveys: usize,
    pub(super) survey_again: bool,
    pub(super) draining: bool,
}

impl Claiming {
    pub(super) fn new(config: Arc<WorkerConfig>, io: &mut Io) -> Self {
        let start = fnv1a(config.instance.as_str().as_bytes()) % u64::from(u32::MAX);
        io.set(Alarm::Poll, io.now);
        Self {
            queue: ClaimQueue::new(config.lanes.clone(), config.partitions.flow.get(), start),
            config,
            rounds: BTreeMap::new(),
            admitted: VecDeque::new(),
            backoffs: BTreeMap::new(),
            slow: BTreeMap::new(),
            permits: 0,
            lent: 0,
            surveys: 0,
            survey_again: false,
            draining: false,
        }
    }

    /// Permits that claims have.
    pub(super) const fn permits(&self) -> usize {
        self.permits
    }

    /// Whether claims are in flight or to be repeated.
    pub(super) fn is_busy(&self) -> bool {
        !self.rounds.is_empty()
    }

    /// Something became ready on a target.
    pub(super) fn mark_ready(&mut self, lane: LaneId, partition: Partition) {
        if !self.draining && self.queue.serves(&lane, partition) {
            self.queue.mark_ready(lane, partition);
        }
    }

    /// Claims from this target when it is its turn.
    pub(super) fn queue(&mut self, target: ClaimTarget) {
        if !self.draining {
            self.queue.push(target);
        }
    }

    /// Claims this execution with the next permit.
    pub(super) fn add_admitted(&mut self, admitted: Admitted) {
        self.admitted.push_back(admitted);
    }

    /// A claim cannot be decided now: its partition is left alone for a while.
    pub(super) fn back_off(&mut self, io: &mut Io, partition: Partition) {
        let delays = RetryDelays::new(DELAY_FIRST, DELAY_LONGEST);
        let backoff =
            self.backoffs.entry(partition).or_insert(Backoff { delays, until: LocalTime(0) });
        backoff.until = io.now.after(backoff.delays.next(io.bits()));
        io.set(Alarm::Partition(partition), backoff.until);
    }

    /// Sends claims for as many permits as are free.
    pub(super) fn claim(&mut self, io: &mut Io, mut free: usize) {
        while free > 0
            && let Some(Admitted { execution_id, lane, quota }) = self.admitted.pop_front()
        {
            let partition = execution_id.partition();
            let target = ClaimTarget { lane, partition, claims_at_once: 1, offset: 0 };
            let claims = alloc::vec![self.new_claim(io, &target, Some(execution_id.clone()))];
            self.start(io, RoundKey::Admitted(execution_id), target, claims, quota);
            free -= 1;
        }
        while free > 0
            && let Some(target) = self.next_target(io.now)
        {
            let count = target.claims_at_once.clamp(1, free);
            let claims = (0..count).map(|_| self.new_claim(io, &target, None)).collect();
            let (lane, partition) = target.key();
            self.start(io, RoundKey::Target(lane, partition), target, claims, None);
            free -= count;
        }
    }

    fn next_target(&mut self, now: LocalTime) -> Option<ClaimTarget> {
        let Self { queue, rounds, backoffs, slow, .. } = self;
        queue.pop(|target| {
            let (lane, partition) = target.key();
            !rounds.contains_key(&RoundKey::Target(lane, partition))
                && !slow.contains_key(&partition)
                && backoffs.get(&partition).is_none_or(|backoff| backoff.until <= now)
        })
    }

    fn new_claim(&self, io: &mut Io, target: &ClaimTarget, admitted: Option<ExecutionId>) -> Claim {
        let call = ClaimNext {
            partition: target.partition,
            lane: target.lane.clone(),
            worker_id: self.config.worker.clone(),
            worker_instance_id: self.config.instance.clone(),
            capabilities: self.config.capabilities.clone(),
            lease_id: io.id().into(),
            lease_ttl_ms: self.config.lease_ttl_ms(),
            attempt_id: io.id().into(),
            window: None,
            offset: target.offset,
            admitted,
        };
        Claim { call, since: io.now, repeated: false }
    }

    fn start(
        &mut self,
        io: &mut Io,
        key: RoundKey,
        target: ClaimTarget,
        claims: Vec<Claim>,
        quota: Option<QuotaPolicyId>,
    ) {
        self.permits += claims.len();
        io.set(Alarm::Slow(key.clone()), io.now.after(SLOW_AFTER));
        let round = Round { target, claims, lent: false, quota };
        send(io, &key, &round);
        self.rounds.insert(key, round);
    }

    /// The claims of a round are unanswered for long.
    pub(super) fn on_slow(&mut self, io: &mut Io, key: RoundKey) {
        let Some(round) = self.rounds.get_mut(&key).filter(|round| !round.lent) else { return };
        if self.lent + round.claims.len() > self.config.capacity {
            // Enough is lent. Everything that is claimed may have to be run some time.
            return io.set(Alarm::Slow(key), io.now.after(SLOW_AFTER));
        }
        io.observe(Observation::ClaimSlow(round.target.partition));
        self.lend(&key);
    }

    pub(super) fn lend(&mut self, key: &RoundKey) {
        let Some(round) = self.rounds.get_mut(key).filter(|round| !round.lent) else { return };
        round.lent = true;
        self.lent += round.claims.len();
        self.permits = self.permits.saturating_sub(round.claims.len());
        *self.slow.entry(round.target.partition).or_default() += 1;
    }

    /// Repeats the claims of a round whose replies were lost.
    pub(super) fn repeat(&mut self, io: &mut Io, key: &RoundKey) -> Vec<Event> {
        let Some(round) = self.rounds.get_mut(key) else { return Vec::new() };
        let (ttl, now) = (self.config.lease_ttl, io.now);
        let before = round.claims.len();
        round.claims.retain(|claim| claim.since.after(ttl) > now);
        let given_up = before - round.claims.len();
        self.lent = self.lent.saturating_sub(given_up);
        let partition = round.target.partition;
        if given_up > 0 {
            io.observe(Observation::ClaimGivenUp(partition));
        }
        if !round.claims.is_empty() {
            io.observe(Observation::ClaimRepeated(partition));
            send(io, key, round);
            return Vec::new();
        }
        match self.remove(io, key) {
            Some(round) => {
                self.requeue(key, round, &RoundResult { failed: true, ..RoundResult::default() })
            }
            None => Vec::new(),
        }
    }

    /// Claims nothing more. Claims whose replies were lost are repeated at once: what they got is
    /// put back. Returns admitted executions whose slots may not be needed.
    pub(super) fn drain(&mut self, io: &mut Io) -> Vec<Event> {
        self.draining = true;
        self.queue.clear();
        io.alarms.clear(&Alarm::Poll);
        for key in self.rounds.keys() {
            if io.alarms.is_set(&Alarm::Repeat(key.clone())) {
                io.set(Alarm::Repeat(key.clone()), io.now);
            }
        }
        core::mem::take(&mut self.admitted)
            .into_iter()
            .filter_map(|admitted| Some((admitted.execution_id, admitted.quota?)))
            .map(|(execution, quota)| Event::SlotUnneeded(execution, quota))
            .collect()
    }
}

fn send(io: &mut Io, key: &RoundKey, round: &Round) {
    let calls = round.claims.iter().map(|claim| Command::call(&claim.call)).collect();
    io.request(calls, Continuation::Round(key.clone()));
}

/// After this time without an answer the permits of claims are lent: much longer than a round trip.
const SLOW_AFTER: Duration = Duration::from_millis(300);
/// Pauses before a partition is tried again.
const DELAY_FIRST: Duration = Duration::from_millis(50);
const DELAY_LONGEST: Duration = Duration::from_secs(2);
