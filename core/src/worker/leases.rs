//! The leases of attempts: renewed three times within their duration, and over by the local clock
//! one duration after the last acknowledged renewal was sent, which is not later than by the
//! server's. A renewal that is not answered is repeated.

use alloc::vec::Vec;

use super::attempts::{Attempts, Stage, clear_alarms};
use super::inputs_and_effects::{CancelReason, Effect};
use super::io::{Alarm, Continuation, Io, only};
use super::observe::{AttemptOutcome, Observation};
use super::quota_releases::QuotaSlot;
use crate::call::lease::RenewLease;
use crate::command::Reply;
use crate::error::CallError;
use crate::id::{ExecutionId, LeaseId};
use crate::time::LocalTime;

impl Attempts {
    /// A renewal is due, or is due again because the last one was not answered.
    pub(super) fn renew(&mut self, io: &mut Io, lease: LeaseId) {
        let Some(attempt) = self.by_lease.get(&lease).filter(|attempt| attempt.has_lease()) else {
            return;
        };
        io.set(Alarm::Renew(lease), io.now.after(self.config.lease_ttl / RETRIES_PER_TTL));
        if attempt.suspending > 0 {
            return;
        }
        let call = RenewLease {
            execution_id: attempt.execution.clone(),
            attempt_index: attempt.index,
            fence: attempt.fence,
            lease_ttl_ms: self.config.lease_ttl_ms(),
            lease_history_grace_ms: HISTORY_GRACE_MS,
        };
        io.call(&call, Continuation::Renewal { lease, sent: io.now });
    }

    /// Renews the lease of this execution now: it may be lost.
    pub(super) fn renew_now(&mut self, io: &mut Io, execution: &ExecutionId) {
        let leases = self.by_lease.iter().filter(|(_, attempt)| attempt.execution == *execution);
        for lease in leases.map(|(lease, _)| *lease).collect::<Vec<_>>() {
            self.renew(io, lease);
        }
    }

    /// Renews all leases now: pushes about lost ones may have been missed.
    pub(super) fn renew_all(&mut self, io: &mut Io) {
        for lease in self.by_lease.keys().copied().collect::<Vec<_>>() {
            self.renew(io, lease);
        }
    }

    pub(super) fn on_renewal(
        &mut self,
        io: &mut Io,
        lease: LeaseId,
        sent: LocalTime,
        replies: Vec<Reply>,
    ) -> Option<QuotaSlot> {
        let (renew_at, ends_at) = (self.renew_at(sent), sent.after(self.config.lease_ttl));
        let attempt = self.by_lease.get_mut(&lease).filter(|attempt| attempt.has_lease())?;
        let reply = only::<RenewLease>(replies);
        io.observe(Observation::Renewed { ok: reply.is_ok() });
        match reply {
            Ok(_) if ends_at > attempt.ends_at => {
                attempt.ends_at = ends_at;
                io.set(Alarm::Expire(lease), ends_at);
                io.set(Alarm::Renew(lease), renew_at);
            }
            // A later renewal was acknowledged before.
            Ok(_) => {}
            Err(CallError::Refused(refusal)) => {
                // The answer to a report or a suspension in flight says more.
                if attempt.suspending > 0 || matches!(attempt.stage, Stage::Reporting(_)) {
                    return None;
                }
                let outcome = AttemptOutcome::of_refused(&refusal);
                let execution = attempt.execution.clone();
                io.observe(Observation::LeaseLost { execution, refusal: Some(refusal) });
                return self.lose(io, lease, outcome, CancelReason::LeaseLost);
            }
            // Unknown whether it was renewed: it is repeated until the lease ends.
            Err(error) => {
                let execution = attempt.execution.clone();
                io.observe(Observation::RenewalFailed { execution, error });
            }
        }
        None
    }

    /// A lease has ended by the local clock. Returns the slot to give back.
    pub(super) fn expire(&mut self, io: &mut Io, lease: LeaseId) -> Option<QuotaSlot> {
        let attempt = self.by_lease.get(&lease).filter(|attempt| attempt.has_lease())?;
        let claimed_at = attempt.claim().map(|claim| claim.since);
        if let Some(until) = claimed_at.map(|since| since.after(self.config.lease_ttl))
            && until > io.now
        {
            // Its report may have claimed an execution, and is repeated as long as that is held.
            io.set(Alarm::Expire(lease), until);
            return None;
        }
        let execution = attempt.execution.clone();
        io.observe(Observation::LeaseLost { execution: execution.clone(), refusal: None });
        if matches!(attempt.stage, Stage::Running) {
            return self.lose(io, lease, AttemptOutcome::Timeout, CancelReason::LeaseExpired);
        }
        // Nobody waits for a handler: its outcome is not acknowledged, or it was never started.
        io.observe(Observation::OutcomeDiscarded { execution, outcome: None });
        self.finish(io, lease, Some(AttemptOutcome::Timeout), false)
    }

    /// A lease is lost. Returns the slot to give back, if no handler runs.
    fn lose(
        &mut self,
        io: &mut Io,
        lease: LeaseId,
        outcome: AttemptOutcome,
        reason: CancelReason,
    ) -> Option<QuotaSlot> {
        let attempt = self.by_lease.get_mut(&lease)?;
        match attempt.stage {
            Stage::Running => {
                attempt.stage = Stage::Lost(outcome);
                clear_alarms(io, lease);
                io.effect(Effect::Cancel { lease, reason });
                None
            }
            Stage::Waiting(_) => self.finish(io, lease, Some(outcome), false),
            Stage::Lost(_) | Stage::Suspended | Stage::Reporting(_) => None,
        }
    }

    /// When to renew a lease that stands since then, rounded so that several become due together.
    pub(super) fn renew_at(&self, since: LocalTime) -> LocalTime {
        let ttl = self.config.lease_ttl;
        let tick_ms = u64::try_from((ttl / TICKS_PER_TTL).as_millis()).unwrap_or(1).max(1);
        let at = since.after(ttl / RENEWALS_PER_TTL);
        LocalTime(at.0 - at.0 % tick_ms)
    }
}

/// Renewals per lease duration: two of three may be lost.
const RENEWALS_PER_TTL: u32 = 3;
/// How often per lease duration a renewal is sent that is not answered.
const RETRIES_PER_TTL: u32 = 6;
/// Renewals are due at multiples of this part of the lease duration.
const TICKS_PER_TTL: u32 = 12;
/// How long the history of a lease is kept after it ends.
const HISTORY_GRACE_MS: u64 = 60_000;
