//! Lease renewal: tracks the leases a worker holds and renews all that are due in one round trip.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use selvedge_core::call::lease::RenewLease;
use selvedge_core::call::scheduling::ClaimedWork;
use selvedge_core::error::CallError;
use selvedge_core::id::{AttemptIndex, ExecutionId, Fence, LeaseId};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::Shared;
use crate::client::millis;
use crate::observe::worker_metrics::{self, AttemptOutcome};

/// The leases held by one worker.
#[derive(Default)]
pub(super) struct Leases {
    held: Mutex<BTreeMap<LeaseId, Held>>,
    /// Wakes the renewal loop: a lease may be lost.
    renew_now: Notify,
}

struct Held {
    execution_id: ExecutionId,
    attempt_index: AttemptIndex,
    fence: Fence,
    loss: LeaseLoss,
    renew_at: Instant,
    ends_at: Instant,
}

/// Tells an attempt that its lease is lost.
#[derive(Clone, Default)]
pub(super) struct LeaseLoss {
    /// Fires when the lease is lost.
    pub(super) token: CancellationToken,
    outcome: Arc<OnceLock<AttemptOutcome>>,
}

impl LeaseLoss {
    /// The outcome of the attempt; `None` while its lease is held.
    pub(super) fn outcome(&self) -> Option<AttemptOutcome> {
        self.outcome.get().copied()
    }

    fn set(&self, outcome: AttemptOutcome) {
        // A lease is lost once; the first outcome counts.
        let _ = self.outcome.set(outcome);
        self.token.cancel();
    }
}

impl Leases {
    /// Renews this lease from now on, until it is lost or [untracked](Self::untrack).
    pub(super) fn track(&self, work: &ClaimedWork, since: Instant, ttl: Duration) -> LeaseLoss {
        let loss = LeaseLoss::default();
        let held = Held {
            execution_id: work.execution_id.clone(),
            attempt_index: work.attempt_index,
            fence: work.fence,
            loss: loss.clone(),
            renew_at: since + ttl / RENEWALS_PER_TTL,
            ends_at: since + ttl,
        };
        self.lock().insert(work.fence.lease_id, held);
        loss
    }

    /// Stops renewing a lease.
    pub(super) fn untrack(&self, lease: LeaseId) {
        self.lock().remove(&lease);
    }

    /// Renews the lease of this execution now: it may be lost.
    pub(super) fn renew_now(&self, execution: &ExecutionId) {
        let mut held = self.lock();
        let mut found = false;
        for lease in held.values_mut().filter(|held| held.execution_id == *execution) {
            lease.renew_at = Instant::now();
            found = true;
        }
        if found {
            self.renew_now.notify_one();
        }
    }

    /// Renews all leases now: pushes about lost ones may have been missed.
    pub(super) fn renew_all_now(&self) {
        for lease in self.lock().values_mut() {
            lease.renew_at = Instant::now();
        }
        self.renew_now.notify_one();
    }

    fn due(&self, ttl: Duration, now: Instant) -> Vec<RenewLease> {
        let held = self.lock();
        let due = held.values().filter(|held| held.renew_at <= now);
        due.map(|held| RenewLease {
            execution_id: held.execution_id.clone(),
            attempt_index: held.attempt_index,
            fence: held.fence,
            lease_ttl_ms: millis(ttl),
            lease_history_grace_ms: HISTORY_GRACE_MS,
        })
        .collect()
    }

    fn on_renewal(
        &self,
        lease: LeaseId,
        sent: Instant,
        ttl: Duration,
        reply: Result<(), CallError>,
    ) {
        let mut held = self.lock();
        let Some(entry) = held.get_mut(&lease) else { return };
        worker_metrics::renewed(reply.is_ok());
        match reply {
            Ok(()) => {
                entry.renew_at = sent + ttl / RENEWALS_PER_TTL;
                entry.ends_at = sent + ttl;
            }
            Err(CallError::Refused(refusal)) => {
                tracing::info!(execution = %entry.execution_id, %refusal, "lease lost");
                entry.loss.set(AttemptOutcome::of_refused(&refusal));
                held.remove(&lease);
            }
            // Unknown whether it was renewed: try again until the lease expires.
            Err(error) => {
                let execution = &entry.execution_id;
                tracing::debug!(%execution, %error, "lease renewal failed, retrying");
            }
        }
    }

    /// Treats leases as lost that have expired by the local clock, even if a renewal is in flight.
    fn expire_leases(&self, now: Instant) {
        self.lock().retain(|_, held| {
            let over = held.ends_at <= now;
            if over {
                let execution = &held.execution_id;
                tracing::warn!(%execution, "lease expired before it could be renewed");
                held.loss.set(AttemptOutcome::Timeout);
            }
            !over
        });
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<LeaseId, Held>> {
        // No code panics while holding the lock, and the map is valid after every step.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Renews and expires leases; never returns.
pub(super) async fn maintain(shared: Arc<Shared>) {
    let watch = async {
        loop {
            sleep(shared.lease_ttl / CHECKS_PER_TTL).await;
            shared.leases.expire_leases(Instant::now());
        }
    };
    // Run side by side: a renewal may wait for its reply longer than a lease lasts.
    tokio::join!(watch, renew(&shared));
}

/// Renews the leases that are due; never returns.
async fn renew(shared: &Shared) {
    let (leases, ttl) = (&shared.leases, shared.lease_ttl);
    loop {
        tokio::select! {
            () = sleep(ttl / CHECKS_PER_TTL) => {}
            () = leases.renew_now.notified() => {}
        }
        let sent = Instant::now();
        let due = leases.due(ttl, sent);
        for calls in due.chunks(RENEWALS_PER_ROUND_TRIP) {
            let replies = shared.client.store().call_all(calls).await;
            for (call, reply) in calls.iter().zip(replies) {
                leases.on_renewal(call.fence.lease_id, sent, ttl, reply.map(drop));
            }
        }
    }
}

/// Renewals per lease duration: two of three may be lost.
const RENEWALS_PER_TTL: u32 = 3;
/// How often per lease duration the leases are checked.
const CHECKS_PER_TTL: u32 = 12;
/// Most renewals in one round trip.
const RENEWALS_PER_ROUND_TRIP: usize = 500;
/// How long the history of a lease is kept after it ends.
const HISTORY_GRACE_MS: u64 = 60_000;

#[cfg(test)]
mod tests {
    use selvedge_core::id::{AttemptId, LeaseEpoch};
    use selvedge_core::time::ServerTime;
    use uuid::Uuid;

    use super::*;

    fn work() -> ClaimedWork {
        ClaimedWork {
            execution_id: "{fp:1}:11111111-1111-4111-8111-111111111111".parse().unwrap(),
            fence: Fence {
                lease_id: LeaseId::from(Uuid::nil()),
                lease_epoch: LeaseEpoch(1),
                attempt_id: AttemptId::from(Uuid::nil()),
            },
            lease_expires_at: ServerTime(0),
            attempt_index: AttemptIndex(0),
            attempt_type: "initial".to_owned(),
            execution_kind: "any".to_owned(),
            flow_id: None,
            payload: Vec::new(),
            policy_json: Vec::new(),
            waited_ms: None,
        }
    }

    #[test]
    fn a_lease_expires_by_the_local_clock_while_a_renewal_is_in_flight() {
        let (leases, start, ttl) = (Leases::default(), Instant::now(), Duration::from_secs(2));
        let loss = leases.track(&work(), start, ttl);
        leases.expire_leases(start + ttl - Duration::from_millis(1));
        assert!(!loss.token.is_cancelled());
        leases.expire_leases(start + ttl);
        assert!(loss.token.is_cancelled());
        assert_eq!(loss.outcome(), Some(AttemptOutcome::Timeout));
        assert!(leases.due(ttl, start + ttl).is_empty(), "an expired lease is not renewed");
    }
}
