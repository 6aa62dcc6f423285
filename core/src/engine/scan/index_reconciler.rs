//! Makes index memberships equal to what the records demand. It repairs and counts; a record that
//! does not say where it belongs is the operator's business.

use core::time::Duration;

use super::{Candidate, Scanner, ScannerName, Scene, Source, Spec};
use crate::call::library::{Repair, RepairIndex};
use crate::engine::step::{Step, Verdict};
use crate::id::{ExecutionId, LaneId};
use crate::key::PartitionIndex;
use crate::partition::Family;

pub(super) struct IndexReconciler;

const SPEC: Spec = Spec {
    name: ScannerName::IndexReconciler,
    every: Duration::from_secs(45),
    interval_variable: "FF_INDEX_RECONCILER_INTERVAL_S",
    family: Family::Flow,
    sources: &[Source::Members(PartitionIndex::AllExecutions)],
    batch: 100,
    filtered: true,
};

impl Scanner for IndexReconciler {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn begin(&self, scene: &Scene, candidate: &Candidate) -> Result<Step, Verdict> {
        Ok(repair(candidate.execution(scene)?, None))
    }

    fn is_patient(&self) -> bool {
        true
    }
}

/// Puts an execution's entries right; `lane` is where an entry without any record was found.
pub(super) fn repair(execution_id: ExecutionId, lane: Option<LaneId>) -> Step {
    Step::call(&RepairIndex { execution_id, lane }, |reply| {
        Step::Done(match reply {
            Ok(Repair::Repaired(_)) => Verdict::processed(),
            Ok(Repair::Consistent) => Verdict::nothing().staying(),
            Ok(Repair::Unknown(reason)) => Verdict::unworkable(reason),
            Err(error) => Verdict::error(error),
        })
    })
}
