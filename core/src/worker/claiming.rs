//! Claims: where to claim next, and claims in flight.
//!
//! A claim is one call for several executions of a target, a lane of a partition, and a target has
//! at most one claim in flight. Targets do not wait for each other: what fails or stays unanswered
//! delays its own partition only. Most executions are claimed by the call that reports an end
//! (`end_claims`).
//!
//! A claim takes a permit for the handler of each execution that it may get.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::claim_queue::{ClaimQueue, ClaimTarget, TargetKey};
use super::claim_repeats::SLOW_AFTER;
use super::config::WorkerConfig;
use super::io::{Alarm, Continuation, Io};
use super::lane_states::KnownStates;
use crate::call::scheduling::{ClaimMany, ClaimTerms, ClaimedWork, NewLease, NewLeases, OtherKind};
use crate::capability::fnv1a;
use crate::id::{ExecutionId, LaneId, QuotaPolicyId};
use crate::lane_state::LaneStates;
use crate::partition::Partition;
use crate::retry::RetryDelays;
use crate::time::LocalTime;

/// Names a claim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ClaimKey {
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
    /// An execution of a kind that this worker does not take was passed over in this lane.
    PassedOver(LaneId, OtherKind),
    /// An admitted execution was not claimed: its slot may not be needed.
    QuotaSlotUnneeded(ExecutionId, QuotaPolicyId),
}

/// A claimed execution.
pub(super) struct Granted {
    pub(super) lane: LaneId,
    pub(super) work: ClaimedWork,
    /// When the claim was first sent: the lease is not older.
    pub(super) since: LocalTime,
    /// Since when its permit is with this target.
    pub(super) turn: LocalTime,
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

/// A claim whose reply is not known yet.
#[derive(Clone, Debug)]
pub(super) struct PendingClaim {
    pub(super) target: ClaimTarget,
    pub(super) call: ClaimMany,
    /// When it was first sent.
    pub(super) since: LocalTime,
    pub(super) repeated: bool,
    /// Whether others use its permits.
    pub(super) lent: bool,
    /// The quota of an admitted execution.
    pub(super) quota: Option<QuotaPolicyId>,
}

impl PendingClaim {
    /// How many executions it claims at most, each with a permit.
    pub(super) const fn wanted(&self) -> usize {
        self.call.leases.count()
    }
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
    /// Claims in flight, and claims to be repeated.
    pub(super) pending: BTreeMap<ClaimKey, PendingClaim>,
    pub(super) admitted: VecDeque<Admitted>,
    /// Targets where the last call found nothing for this worker: an end does not claim there.
    pub(super) unsuited: BTreeSet<TargetKey>,
    /// Targets that are left alone after a long pass over candidates of others.
    pub(super) resting: BTreeSet<TargetKey>,
    /// Partitions whose last claims failed.
    pub(super) backoffs: BTreeMap<Partition, Backoff>,
    /// Partitions with claims that are unanswered for long, and how many.
    pub(super) slow: BTreeMap<Partition, usize>,
    /// Permits that claims have.
    pub(super) permits: usize,
    /// Permits of claims that are lent.
    pub(super) lent: usize,
    /// Partitions whose index sizes are being read.
    pub(super) surveys: usize,
    pub(super) survey_again: bool,
    pub(super) draining: bool,
    pub(super) lane_states: KnownStates,
}

impl Claiming {
    pub(super) fn new(config: Arc<WorkerConfig>, io: &mut Io) -> Self {
        let start = fnv1a(config.instance.as_str().as_bytes()) % u64::from(u32::MAX);
        io.set(Alarm::Poll, io.now);
        io.set(Alarm::LaneStates, io.now.after(LaneStates::FRESH_FOR));
        Self {
            queue: ClaimQueue::new(config.lanes.clone(), config.partitions.flow.get(), start),
            lane_states: KnownStates::new(config.lane_states.clone()),
            config,
            pending: BTreeMap::new(),
            admitted: VecDeque::new(),
            unsuited: BTreeSet::new(),
            resting: BTreeSet::new(),
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
        !self.pending.is_empty()
    }

    /// Something became ready on a target.
    pub(super) fn mark_ready(&mut self, lane: LaneId, partition: Partition) {
        if !self.draining && self.queue.serves(&lane, partition) {
            let target = (lane, partition);
            self.unsuited.remove(&target);
            self.queue.mark_ready(target);
        }
    }

    /// The last candidate of a target was looked at. Whether it is looked at once more, since
    /// something became ready meanwhile.
    pub(super) fn end_pass(&mut self, io: &mut Io, key: &TargetKey) -> bool {
        let Some((rest, again)) = self.queue.end_pass(key) else { return false };
        if !rest.is_zero() {
            self.resting.insert(key.clone());
            io.set(Alarm::Rest(key.clone()), io.now.after(rest));
        }
        again
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

    /// Whether this execution was admitted, and is being claimed or will be.
    pub(super) fn is_admitted(&self, id: &ExecutionId) -> bool {
        self.pending.contains_key(&ClaimKey::Admitted(id.clone()))
            || self.admitted.iter().any(|admitted| admitted.execution_id == *id)
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
            let target = ClaimTarget::one((lane, partition));
            let call = self.claims(io, &target, 1, Some(execution_id.clone()));
            self.start(io, ClaimKey::Admitted(execution_id), target, call, quota);
            free -= 1;
        }
        while free > 0
            && let Some(target) = self.next_target(io.now)
        {
            let wanted = target.claims_at_once.clamp(1, free);
            let call = self.claims(io, &target, wanted, None);
            let (lane, partition) = target.key();
            self.start(io, ClaimKey::Target(lane, partition), target, call, None);
            free -= wanted;
        }
    }

    fn next_target(&mut self, now: LocalTime) -> Option<ClaimTarget> {
        let Self { queue, pending, resting, backoffs, slow, lane_states, .. } = self;
        queue.pop(|target| {
            !lane_states.is_paused(&target.lane)
                && is_open(pending, resting, target)
                && is_well(backoffs, slow, target.partition, now)
        })
    }

    /// Whether a target other than this one waits for a permit.
    pub(super) fn others_wait(&self, than: &TargetKey, now: LocalTime) -> bool {
        self.queue.any(|target| {
            (target.partition != than.1 || target.lane != than.0)
                && !self.lane_states.is_paused(&target.lane)
                && is_open(&self.pending, &self.resting, target)
                && self.is_well(target.partition, now)
        })
    }

    /// Whether claims on a partition are answered, as far as is known.
    pub(super) fn is_well(&self, partition: Partition, now: LocalTime) -> bool {
        is_well(&self.backoffs, &self.slow, partition, now)
    }

    fn claims(
        &self,
        io: &mut Io,
        target: &ClaimTarget,
        wanted: usize,
        admitted: Option<ExecutionId>,
    ) -> ClaimMany {
        // What is admitted need not be searched for.
        let after = if admitted.is_some() { None } else { self.queue.after(&target.key()) };
        let first = new_lease(io);
        let more = (1..wanted).map(|_| new_lease(io)).collect();
        ClaimMany {
            partition: target.partition,
            terms: terms(&self.config, target.lane.clone(), after),
            admitted,
            leases: NewLeases { first, more },
        }
    }

    fn start(
        &mut self,
        io: &mut Io,
        key: ClaimKey,
        target: ClaimTarget,
        call: ClaimMany,
        quota: Option<QuotaPolicyId>,
    ) {
        self.permits += call.leases.count();
        io.set(Alarm::Slow(key.clone()), io.now.after(SLOW_AFTER));
        io.call(&call, Continuation::Claim(key.clone()));
        let claim =
            PendingClaim { target, call, since: io.now, repeated: false, lent: false, quota };
        self.pending.insert(key, claim);
    }

    /// Claims nothing more. Rounds whose replies were lost are repeated at once: what they got is
    /// put back. Returns admitted executions whose slots may not be needed.
    pub(super) fn drain(&mut self, io: &mut Io) -> Vec<Event> {
        self.draining = true;
        self.queue.clear();
        io.alarms.clear(&Alarm::Poll);
        io.alarms.clear(&Alarm::LaneStates);
        for key in self.pending.keys() {
            if io.alarms.is_set(&Alarm::Repeat(key.clone())) {
                io.set(Alarm::Repeat(key.clone()), io.now);
            }
        }
        core::mem::take(&mut self.admitted)
            .into_iter()
            .filter_map(|admitted| Some((admitted.execution_id, admitted.quota?)))
            .map(|(execution, quota)| Event::QuotaSlotUnneeded(execution, quota))
            .collect()
    }
}

/// Whether no claim on a target is pending, and it is not left alone.
fn is_open(
    pending: &BTreeMap<ClaimKey, PendingClaim>,
    resting: &BTreeSet<TargetKey>,
    target: &ClaimTarget,
) -> bool {
    if pending.is_empty() && resting.is_empty() {
        return true;
    }
    let key = target.key();
    !resting.contains(&key) && !pending.contains_key(&ClaimKey::Target(key.0, key.1))
}

fn is_well(
    backoffs: &BTreeMap<Partition, Backoff>,
    slow: &BTreeMap<Partition, usize>,
    partition: Partition,
    now: LocalTime,
) -> bool {
    !slow.contains_key(&partition)
        && backoffs.get(&partition).is_none_or(|backoff| backoff.until <= now)
}

/// Who claims, and on which terms.
pub(super) fn terms(config: &WorkerConfig, lane: LaneId, after: Option<ExecutionId>) -> ClaimTerms {
    ClaimTerms {
        lane,
        worker_id: config.worker.clone(),
        worker_instance_id: config.instance.clone(),
        capabilities: config.capabilities.clone(),
        lease_ttl_ms: config.lease_ttl_ms(),
        window: None,
        after,
        filter: config.filter.clone(),
    }
}

pub(super) fn new_lease(io: &mut Io) -> NewLease {
    NewLease { lease_id: io.id().into(), attempt_id: io.id().into() }
}

/// Pauses before a partition is tried again.
const DELAY_FIRST: Duration = Duration::from_millis(50);
const DELAY_LONGEST: Duration = Duration::from_secs(2);
