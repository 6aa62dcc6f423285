//! Requeues executions that lost their lease, because it expired or because it was revoked, within
//! their reclaim limit. The call marks an expired lease itself, so a lost lease costs one call.
//!
//! A revoked lease is not in the expiry index, so the active index of each lane is read as well.

use core::time::Duration;

use super::index_reconciler::repair;
use super::{Age, Candidate, ScanContext, Scanner, ScannerName, ScannerSpec, Source};
use crate::call::lease::{Requeue, RequeueLostLease};
use crate::engine::scanning::{CandidateOutcome, ScanStep};
use crate::key::{LaneIndex, PartitionIndex};
use crate::partition::Family;

pub(super) struct LeaseExpiry;

/// How long after its end a lease is looked for in the active index. The expiry index offers it
/// first.
const ACTIVE_LAG_MS: u64 = 3_000;

const SPEC: ScannerSpec = ScannerSpec {
    name: ScannerName::LeaseExpiry,
    interval: Duration::from_millis(1_500),
    interval_variable: "FF_LEASE_EXPIRY_INTERVAL_MS",
    family: Family::Flow,
    sources: &[
        Source::Due(PartitionIndex::LeaseExpiry),
        Source::DueInLane(LaneIndex::Active, Age::Ms(ACTIVE_LAG_MS)),
    ],
    batch: 50,
    filtered: true,
};

impl Scanner for LeaseExpiry {
    fn spec(&self) -> &'static ScannerSpec {
        &SPEC
    }

    fn begin(
        &self,
        context: &ScanContext,
        candidate: &Candidate,
    ) -> Result<ScanStep, CandidateOutcome> {
        let execution_id = candidate.execution(context)?;
        let lane = candidate.lane.clone();
        let call = RequeueLostLease {
            execution_id: execution_id.clone(),
            default_max_reclaim_count: None,
        };
        Ok(ScanStep::call(&call, move |reply| match reply {
            Ok(Requeue::Requeued(_) | Requeue::Ended(_)) => CandidateOutcome::processed().into(),
            // An entry of the active index without a lease does not belong there.
            Ok(Requeue::NotLost) if lane.is_some() => repair(execution_id, lane),
            // The entry has the lease's real end now, or is gone.
            Ok(Requeue::NotDue(_) | Requeue::NotLost) => CandidateOutcome::nothing().into(),
            Err(error) => CandidateOutcome::error(error).into(),
        }))
    }
}
