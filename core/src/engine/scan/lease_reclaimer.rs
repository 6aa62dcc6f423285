//! Brings a dead worker's work back: whatever lost its lease, by time or by revocation, is put back
//! in line within its reclaim cap. Revoked leases are in no expiry index, so the active index is
//! looked through as well.

use core::time::Duration;

use super::index_reconciler::repair;
use super::{Candidate, Scanner, ScannerName, Scene, Source, Spec};
use crate::call::lease::{Requeue, RequeueLostLease};
use crate::engine::step::{Step, Verdict};
use crate::key::{LaneIndex, PartitionIndex};
use crate::partition::Family;

pub(super) struct LeaseReclaimer;

/// How long the expiry index has, before the active index is asked for the same lease.
const SECOND_LOOK_MS: u64 = 3_000;

const SPEC: Spec = Spec {
    name: ScannerName::LeaseReclaimer,
    every: Duration::from_millis(1_500),
    interval_variable: "SELVEDGE_LEASE_RECLAIMER_INTERVAL_MS",
    family: Family::Flow,
    sources: &[
        Source::Due(PartitionIndex::LeaseExpiry),
        Source::DueInLane(LaneIndex::Active, SECOND_LOOK_MS),
    ],
    batch: 50,
    filtered: true,
};

impl Scanner for LeaseReclaimer {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn begin(&self, scene: &Scene, candidate: &Candidate) -> Result<Step, Verdict> {
        let execution_id = candidate.execution(scene)?;
        let lane = candidate.lane.clone();
        let call = RequeueLostLease {
            execution_id: execution_id.clone(),
            default_max_reclaim_count: None,
        };
        Ok(Step::call(&call, move |reply| match reply {
            Ok(Requeue::Requeued(_) | Requeue::Ended(_)) => Verdict::processed().into(),
            // What the active index still lists has no business there.
            Ok(Requeue::NotLost) if lane.is_some() => repair(execution_id, lane),
            // The entries have the lease's true end now, or are gone.
            Ok(Requeue::NotDue(_) | Requeue::NotLost) => Verdict::nothing().into(),
            Err(error) => Verdict::error(error).into(),
        }))
    }
}
