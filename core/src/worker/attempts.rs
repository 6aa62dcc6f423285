//! Attempts: claimed executions from the grant to the acknowledged end, and their leases.
//!
//! ```text
//! granted ──> Waiting ──permit──> Running ──ended──> Reporting ──answered──> gone
//!                │                  │ │ └─suspended──> Suspended ──ended──> gone
//!                └──too long────────┼─┼──────────────> Reporting (put back)
//!                                   └─┴lease lost────> Lost ──────ended──> gone
//! ```
//!
//! Their leases are in `leases`, their reports in `reports`.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::claiming::Granted;
use super::config::WorkerConfig;
use super::end_claims::EndClaim;
use super::inputs_and_effects::{CancelReason, Effect, HandlerOutcome};
use super::io::{Alarm, Io};
use super::observe::{AttemptOutcome, Observation};
use super::quota_releases::QuotaSlot;
use super::reports::Report;
use crate::call::execution::Running;
use crate::call::scheduling::ClaimedWork;
use crate::id::{AttemptIndex, BudgetId, ExecutionId, Fence, LaneId, LeaseId, QuotaPolicyId};
use crate::policy::ExecutionPolicy;
use crate::time::LocalTime;

/// A claimed execution.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) execution: ExecutionId,
    pub(super) lane: LaneId,
    pub(super) fence: Fence,
    pub(super) index: AttemptIndex,
    pub(super) quota: Option<QuotaPolicyId>,
    pub(super) budgets: Vec<BudgetId>,
    /// The retry policy as stored JSON; empty if there is none.
    pub(super) retry_policy_json: String,
    pub(super) stage: Stage,
    /// Since when its permit is with its lane and partition.
    pub(super) turn: LocalTime,
    /// When the lease ends unless it is renewed.
    pub(super) ends_at: LocalTime,
    /// Suspensions in flight: what a renewal says meanwhile is of no interest.
    pub(super) suspending: usize,
    /// Signals had come before a suspension: the lease stayed.
    pub(super) resumed_at_once: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Stage {
    /// It waits for a permit, because its claim was slow.
    Waiting(ClaimedWork),
    /// Its handler runs.
    Running,
    /// Its lease is lost; the handler was told to stop.
    Lost(AttemptOutcome),
    /// The handler has suspended the execution, which gave up the lease.
    Suspended,
    /// The handler has ended, or is not waited for any more.
    Reporting(Report),
}

impl Attempt {
    pub(super) fn running(&self, config: &WorkerConfig) -> Running {
        Running {
            execution_id: self.execution.clone(),
            attempt_index: self.index,
            lane: self.lane.clone(),
            worker_instance_id: config.instance.clone(),
        }
    }

    /// Whether the lease stands, as far as is known.
    pub(super) const fn has_lease(&self) -> bool {
        match self.stage {
            Stage::Waiting(_) | Stage::Running | Stage::Reporting(_) => true,
            Stage::Lost(_) | Stage::Suspended => false,
        }
    }

    /// Whether it has a handler that has not ended.
    const fn has_handler(&self) -> bool {
        match self.stage {
            Stage::Running | Stage::Lost(_) | Stage::Suspended => true,
            Stage::Waiting(_) | Stage::Reporting(_) => false,
        }
    }

    const fn has_permit(&self) -> bool {
        !matches!(self.stage, Stage::Waiting(_))
    }

    pub(super) fn quota_slot(&self, ended: bool) -> Option<QuotaSlot> {
        let execution = self.execution.clone();
        self.quota.map(|quota| QuotaSlot { execution, quota, ended })
    }
}

#[derive(Clone)]
pub(super) struct Attempts {
    pub(super) config: Arc<WorkerConfig>,
    pub(super) by_lease: BTreeMap<LeaseId, Attempt>,
    /// Attempts that wait for a permit, in order.
    waiting: VecDeque<LeaseId>,
    permits: usize,
    draining: bool,
}

impl Attempts {
    pub(super) const fn new(config: Arc<WorkerConfig>) -> Self {
        Self {
            config,
            by_lease: BTreeMap::new(),
            waiting: VecDeque::new(),
            permits: 0,
            draining: false,
        }
    }

    /// Permits that attempts have.
    pub(super) const fn permits(&self) -> usize {
        self.permits
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_lease.is_empty()
    }

    /// Whether attempts may wait for a permit.
    pub(super) fn is_any_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn get(&self, lease: LeaseId) -> Option<&Attempt> {
        self.by_lease.get(&lease)
    }

    pub(super) fn get_mut(&mut self, lease: LeaseId) -> Option<&mut Attempt> {
        self.by_lease.get_mut(&lease)
    }

    /// Takes over a claimed execution. It runs at once if it has a permit.
    pub(super) fn granted(&mut self, io: &mut Io, granted: Granted) {
        let Granted { lane, work, since, turn, repeated, has_permit } = granted;
        let (lease, execution) = (work.fence.lease_id, work.execution_id.clone());
        if self.by_lease.contains_key(&lease) {
            // A late answer to a claim that was repeated.
            return;
        }
        io.observe(Observation::Claimed {
            execution: execution.clone(),
            lane: lane.clone(),
            kind: work.execution_kind.clone(),
            took_ms: io.now.0.saturating_sub(since.0),
            waited_ms: work.waited_ms,
            repeated,
        });
        // A policy that cannot be parsed was stored by another program; the library ignores it too.
        let policy = ExecutionPolicy::read(&work.policy_json).unwrap_or_default();
        let attempt = Attempt {
            execution: execution.clone(),
            lane,
            fence: work.fence,
            index: work.attempt_index,
            quota: policy.quota_policy_id.map(QuotaPolicyId::from),
            budgets: policy.budget_ids.into_iter().map(BudgetId::from).collect(),
            retry_policy_json: retry_policy(&work.policy_json),
            stage: Stage::Waiting(work),
            turn,
            ends_at: since.after(self.config.lease_ttl),
            suspending: 0,
            resumed_at_once: false,
        };
        io.set(Alarm::Expire(lease), attempt.ends_at);
        io.set(Alarm::Renew(lease), self.renew_at(since));
        self.by_lease.insert(lease, attempt);
        if self.draining {
            return self.put_back(io, lease);
        }
        if has_permit {
            return self.start(io, lease);
        }
        self.waiting.push_back(lease);
        io.observe(Observation::NoPermit(execution));
        let patience = self.config.lease_ttl / WAITS_PER_TTL;
        io.set(Alarm::PutBack(lease), io.now.after(patience));
    }

    /// Starts attempts that wait, for as many permits as are free.
    pub(super) fn start_waiting(&mut self, io: &mut Io, mut free: usize) {
        while free > 0
            && let Some(lease) = self.waiting.pop_front()
        {
            let waits = |attempt: &Attempt| matches!(attempt.stage, Stage::Waiting(_));
            if self.by_lease.get(&lease).is_some_and(waits) {
                self.start(io, lease);
                free -= 1;
            }
        }
    }

    fn start(&mut self, io: &mut Io, lease: LeaseId) {
        let Some(attempt) = self.by_lease.get_mut(&lease) else { return };
        let Stage::Waiting(work) = core::mem::replace(&mut attempt.stage, Stage::Running) else {
            return;
        };
        io.alarms.clear(&Alarm::PutBack(lease));
        self.permits += 1;
        io.effect(Effect::Start { lane: attempt.lane.clone(), work });
    }

    /// Gives an execution back that was not started, or whose handler does not stop.
    pub(super) fn put_back(&mut self, io: &mut Io, lease: LeaseId) {
        let Some(attempt) = self.by_lease.get(&lease) else { return };
        match attempt.stage {
            // A report counts as work, for which it gets a permit.
            Stage::Waiting(_) => self.permits += 1,
            Stage::Running => {}
            Stage::Lost(_) | Stage::Suspended | Stage::Reporting(_) => return,
        }
        io.observe(Observation::PutBack(attempt.execution.clone()));
        self.report(io, lease, HandlerOutcome::Later(Duration::ZERO), None);
    }

    /// The handler has suspended its execution, which gave up the lease. Returns the slot to give
    /// back.
    pub(super) fn suspended(&mut self, io: &mut Io, lease: LeaseId) -> Option<QuotaSlot> {
        let attempt = self.by_lease.get_mut(&lease)?;
        match attempt.stage {
            Stage::Running | Stage::Lost(_) => {
                attempt.stage = Stage::Suspended;
                clear_alarms(io, lease);
                io.observe(Observation::Suspended(attempt.execution.clone()));
                attempt.quota_slot(false)
            }
            Stage::Waiting(_) | Stage::Suspended | Stage::Reporting(_) => None,
        }
    }

    /// A handler ended; `claim` is made with its report. Returns the slot to give back, if nothing
    /// has to be reported.
    pub(super) fn ended(
        &mut self,
        io: &mut Io,
        lease: LeaseId,
        outcome: HandlerOutcome,
        claim: Option<EndClaim>,
    ) -> Option<QuotaSlot> {
        let attempt = self.by_lease.get(&lease)?;
        let execution = attempt.execution.clone();
        match attempt.stage {
            Stage::Running => {
                self.report(io, lease, outcome, claim);
                None
            }
            Stage::Lost(lost) => {
                let outcome = Some(outcome);
                io.observe(Observation::OutcomeDiscarded { execution, outcome });
                self.finish(io, lease, Some(lost), false)
            }
            Stage::Suspended => {
                if outcome != HandlerOutcome::Suspended {
                    let outcome = Some(outcome);
                    io.observe(Observation::OutcomeDiscarded { execution, outcome });
                }
                // Its slot was given back when it was suspended.
                drop(self.finish(io, lease, None, false));
                None
            }
            Stage::Waiting(_) | Stage::Reporting(_) => None,
        }
    }

    /// Removes an attempt. Returns its slot, to be given back.
    pub(super) fn finish(
        &mut self,
        io: &mut Io,
        lease: LeaseId,
        outcome: Option<AttemptOutcome>,
        ended: bool,
    ) -> Option<QuotaSlot> {
        let attempt = self.by_lease.remove(&lease)?;
        clear_alarms(io, lease);
        if attempt.has_permit() {
            self.permits = self.permits.saturating_sub(1);
        }
        if let Some(outcome) = outcome {
            let (execution, lane) = (attempt.execution.clone(), attempt.lane.clone());
            io.observe(Observation::AttemptEnded { execution, lane, outcome });
        }
        attempt.quota_slot(ended)
    }

    /// From now on, what is granted is put back.
    pub(super) fn drain(&mut self, io: &mut Io) {
        self.draining = true;
        for lease in core::mem::take(&mut self.waiting) {
            self.put_back(io, lease);
        }
    }

    /// The drain time is over: tells all handlers to stop.
    pub(super) fn stop_handlers(&mut self, io: &mut Io) {
        for (lease, attempt) in &self.by_lease {
            if matches!(attempt.stage, Stage::Running) {
                io.effect(Effect::Cancel { lease: *lease, reason: CancelReason::Draining });
            }
        }
    }

    /// Drops handlers that have not stopped, and puts their executions back. Returns slots to give
    /// back.
    pub(super) fn abort_handlers(&mut self, io: &mut Io) -> Vec<QuotaSlot> {
        let mut slots = Vec::new();
        let leases = self.by_lease.iter().filter(|(_, attempt)| attempt.has_handler());
        for lease in leases.map(|(lease, _)| *lease).collect::<Vec<_>>() {
            io.effect(Effect::Abort { lease });
            match self.by_lease.get(&lease).map(|attempt| &attempt.stage) {
                Some(Stage::Running) => self.put_back(io, lease),
                Some(Stage::Lost(outcome)) => {
                    let outcome = Some(*outcome);
                    slots.extend(self.finish(io, lease, outcome, false));
                }
                Some(Stage::Suspended) => drop(self.finish(io, lease, None, false)),
                Some(Stage::Waiting(_) | Stage::Reporting(_)) | None => {}
            }
        }
        slots
    }

    /// Drops everything: leases that are left lapse.
    pub(super) fn clear(&mut self, io: &mut Io) {
        for (lease, attempt) in core::mem::take(&mut self.by_lease) {
            clear_alarms(io, lease);
            if attempt.has_handler() {
                io.effect(Effect::Abort { lease });
            }
        }
        self.permits = 0;
    }
}

pub(super) fn clear_alarms(io: &mut Io, lease: LeaseId) {
    for alarm in
        [Alarm::Expire(lease), Alarm::Renew(lease), Alarm::PutBack(lease), Alarm::Report(lease)]
    {
        io.alarms.clear(&alarm);
    }
}

/// The retry policy of a stored policy.
fn retry_policy(policy_json: &[u8]) -> String {
    let policy: serde_json::Value = serde_json::from_slice(policy_json).unwrap_or_default();
    match policy.get("retry_policy") {
        Some(retry) if retry.is_object() => alloc::format!("{retry}"),
        Some(_) | None => String::new(),
    }
}

/// An execution waits for a permit for this part of the lease duration.
const WAITS_PER_TTL: u32 = 3;
