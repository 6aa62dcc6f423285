//! Makes index memberships equal to what the records demand. It repairs and counts; a record that
//! does not say where it belongs is the operator's business. As it looks at everybody, it also finds
//! who is suspended and has edges to resolve: those are not among the blocked.

use core::time::Duration;

use super::dependency_reconciler::resolve_edges;
use super::{Candidate, Scanner, ScannerName, Scene, Source, Spec};
use crate::call::library::{Repair, RepairIndex};
use crate::engine::step::{Step, Verdict};
use crate::error::CallError;
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
        let (execution_id, scene) = (candidate.execution(scene)?, scene.clone());
        let call = RepairIndex { execution_id: execution_id.clone(), lane: None };
        Ok(Step::call(&call, move |reply| match reply {
            Ok(Repair::Awaits) => resolve_edges(execution_id, scene),
            reply => verdict(reply).into(),
        }))
    }

    fn is_patient(&self) -> bool {
        true
    }
}

/// Puts an execution's entries right; `lane` is where an entry without any record was found.
pub(super) fn repair(execution_id: ExecutionId, lane: Option<LaneId>) -> Step {
    Step::call(&RepairIndex { execution_id, lane }, |reply| verdict(reply).into())
}

fn verdict(reply: Result<Repair, CallError>) -> Verdict {
    match reply {
        Ok(Repair::Repaired(_)) => Verdict::processed(),
        Ok(Repair::Consistent | Repair::Awaits) => Verdict::nothing().staying(),
        Ok(Repair::Unknown(reason)) => Verdict::unworkable(reason),
        Err(error) => Verdict::error(error),
    }
}
