//! The leases that a worker holds, and their renewal: all that are due in one round trip.

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
use crate::observe::work::{self, AttemptOutcome};

/// The leases of one worker.
#[derive(Default)]
pub(super) struct Leases {
    held: Mutex<BTreeMap<LeaseId, Held>>,
    /// Somebody said that a lease is gone: look now.
    doubt: Notify,
}

struct Held {
    execution_id: ExecutionId,
    attempt_index: AttemptIndex,
    fence: Fence,
    loss: Loss,
    renew_at: Instant,
    ends_at: Instant,
}

/// The loss of a lease, which may never come.
#[derive(Clone, Default)]
pub(super) struct Loss {
    /// Fires when the lease is lost.
    pub(super) token: CancellationToken,
    outcome: Arc<OnceLock<AttemptOutcome>>,
}

impl Loss {
    /// What became of the attempt, once its lease is lost.
    pub(super) fn outcome(&self) -> Option<AttemptOutcome> {
        self.outcome.get().copied()
    }

    fn declare(&self, outcome: AttemptOutcome) {
        // The first word counts; nobody loses a lease twice.
        let _ = self.outcome.set(outcome);
        self.token.cancel();
    }
}

impl Leases {
    /// Takes care of a lease from now on.
    pub(super) fn hold(&self, work: &ClaimedWork, since: Instant, ttl: Duration) -> Loss {
        let loss = Loss::default();
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

    /// The lease is given up, or gone.
    pub(super) fn forget(&self, lease: LeaseId) {
        self.lock().remove(&lease);
    }

    /// Somebody else may have taken the lease of this execution.
    pub(super) fn doubt(&self, execution: &ExecutionId) {
        let mut held = self.lock();
        let mut found = false;
        for lease in held.values_mut().filter(|held| held.execution_id == *execution) {
            lease.renew_at = Instant::now();
            found = true;
        }
        if found {
            self.doubt.notify_one();
        }
    }

    /// All leases may have been taken: messages were missed.
    pub(super) fn doubt_all(&self) {
        for lease in self.lock().values_mut() {
            lease.renew_at = Instant::now();
        }
        self.doubt.notify_one();
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

    fn settle(&self, lease: LeaseId, sent: Instant, ttl: Duration, reply: Result<(), CallError>) {
        let mut held = self.lock();
        let Some(entry) = held.get_mut(&lease) else { return };
        work::renewed(reply.is_ok());
        match reply {
            Ok(()) => {
                entry.renew_at = sent + ttl / RENEWALS_PER_TTL;
                entry.ends_at = sent + ttl;
            }
            Err(CallError::Refused(refusal)) => {
                tracing::info!(execution = %entry.execution_id, %refusal, "a lease is lost");
                entry.loss.declare(AttemptOutcome::of_refused(&refusal));
                held.remove(&lease);
            }
            // Nobody knows; it is tried again until its time is over.
            Err(error) => {
                tracing::debug!(execution = %entry.execution_id, %error, "a lease was not renewed");
            }
        }
    }

    /// A lease whose time is over by our clock is over, whether or not a renewal is on its way.
    fn end_those_over(&self, now: Instant) {
        self.lock().retain(|_, held| {
            let over = held.ends_at <= now;
            if over {
                tracing::warn!(execution = %held.execution_id, "a lease ran out");
                held.loss.declare(AttemptOutcome::Timeout);
            }
            !over
        });
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<LeaseId, Held>> {
        // Nobody panics while holding it, and what it holds is whole at any time.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks after the leases, for ever.
pub(super) async fn keep(shared: Arc<Shared>) {
    let watch = async {
        loop {
            sleep(shared.lease_ttl / LOOKS_PER_TTL).await;
            shared.leases.end_those_over(Instant::now());
        }
    };
    // A renewal may wait for its answer longer than a lease lasts.
    tokio::join!(watch, renew(&shared));
}

/// Renews what is due, for ever.
async fn renew(shared: &Shared) {
    let (leases, ttl) = (&shared.leases, shared.lease_ttl);
    loop {
        tokio::select! {
            () = sleep(ttl / LOOKS_PER_TTL) => {}
            () = leases.doubt.notified() => {}
        }
        let sent = Instant::now();
        let due = leases.due(ttl, sent);
        for calls in due.chunks(RENEWALS_AT_ONCE) {
            let replies = shared.client.store().call_all(calls).await;
            for (call, reply) in calls.iter().zip(replies) {
                leases.settle(call.fence.lease_id, sent, ttl, reply.map(drop));
            }
        }
    }
}

/// A lease is renewed this often within its time: two renewals may be lost.
const RENEWALS_PER_TTL: u32 = 3;
/// How often leases are looked through within that time.
const LOOKS_PER_TTL: u32 = 12;
/// Renewals in one round trip.
const RENEWALS_AT_ONCE: usize = 500;
/// How long the record of a lease outlives it.
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
    fn a_lease_ends_in_time_whether_or_not_its_renewal_was_answered() {
        let (leases, start, ttl) = (Leases::default(), Instant::now(), Duration::from_secs(2));
        let loss = leases.hold(&work(), start, ttl);
        leases.end_those_over(start + ttl - Duration::from_millis(1));
        assert!(!loss.token.is_cancelled());
        leases.end_those_over(start + ttl);
        assert!(loss.token.is_cancelled());
        assert_eq!(loss.outcome(), Some(AttemptOutcome::Timeout));
        assert!(leases.due(ttl, start + ttl).is_empty(), "nobody renews what is over");
    }
}
