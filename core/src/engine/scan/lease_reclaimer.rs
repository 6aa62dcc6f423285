//! Brings a dead worker's work back: whatever lost its lease, by time or by revocation, is put back
//! in line within its reclaim cap. Revoked leases are in no expiry index, so the active index is
//! looked through as well.

use core::time::Duration;

use super::{Candidate, Scanner, ScannerName, Scene, Source, Spec};
use crate::call::lease::{Requeue, RequeueLostLease};
use crate::engine::step::{Step, Verdict};
use crate::key::{LaneIndex, PartitionIndex};
use crate::partition::Family;

pub(super) struct LeaseReclaimer;

const SPEC: Spec = Spec {
    name: ScannerName::LeaseReclaimer,
    every: Duration::from_millis(1_500),
    interval_variable: "SELVEDGE_LEASE_RECLAIMER_INTERVAL_MS",
    family: Family::Flow,
    sources: &[Source::Due(PartitionIndex::LeaseExpiry), Source::DueInLane(LaneIndex::Active, 0)],
    batch: 50,
    filtered: true,
};

impl Scanner for LeaseReclaimer {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn begin(&self, scene: &Scene, candidate: &Candidate) -> Result<Step, Verdict> {
        let call = RequeueLostLease {
            execution_id: candidate.execution(scene)?,
            default_max_reclaim_count: None,
        };
        Ok(Step::call(&call, |reply| {
            Step::Done(match reply {
                Ok(Requeue::Requeued(_) | Requeue::Ended(_)) => Verdict::processed(),
                // The entries have the lease's true end now, or are gone.
                Ok(Requeue::NotDue(_) | Requeue::NotLost) => Verdict::nothing(),
                Err(error) => Verdict::error(error),
            })
        }))
    }
}
