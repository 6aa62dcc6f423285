//! Makes index memberships match the records. A record that does not say where it belongs is
//! reported as a failure. Because the audit passes every execution, it also finds suspended ones
//! with edges to resolve, which are not in the index of blocked executions.

use core::time::Duration;

use super::dependency_reconciler::resolve_edges;
use super::{Candidate, ScanContext, Scanner, ScannerName, ScannerSpec, Source};
use crate::call::library::{Repair, RepairIndex};
use crate::engine::scanning::{CandidateOutcome, ScanStep};
use crate::error::CallError;
use crate::id::{ExecutionId, LaneId};
use crate::key::PartitionIndex;
use crate::partition::Family;
use crate::requests::Priority;

pub(super) struct IndexReconciler;

const SPEC: ScannerSpec = ScannerSpec {
    name: ScannerName::IndexReconciler,
    interval: Duration::from_secs(45),
    interval_variable: "FF_INDEX_RECONCILER_INTERVAL_S",
    family: Family::Flow,
    sources: &[Source::Audit(PartitionIndex::AllExecutions)],
    batch: 250,
    filtered: true,
};

impl Scanner for IndexReconciler {
    fn spec(&self) -> &'static ScannerSpec {
        &SPEC
    }

    fn begin(
        &self,
        context: &ScanContext,
        candidate: &Candidate,
    ) -> Result<ScanStep, CandidateOutcome> {
        let (execution_id, context) = (candidate.execution(context)?, context.clone());
        let call = RepairIndex { execution_id: execution_id.clone(), lane: None };
        Ok(ScanStep::call(&call, move |reply| match reply {
            Ok(Repair::Awaits) => resolve_edges(execution_id, context),
            reply => outcome(reply).into(),
        }))
    }

    fn priority(&self) -> Priority {
        Priority::Background
    }
}

/// Corrects an execution's entries; `lane` is where an entry without a record was found.
pub(super) fn repair(execution_id: ExecutionId, lane: Option<LaneId>) -> ScanStep {
    ScanStep::call(&RepairIndex { execution_id, lane }, |reply| outcome(reply).into())
}

fn outcome(reply: Result<Repair, CallError>) -> CandidateOutcome {
    match reply {
        Ok(Repair::Repaired(_)) => CandidateOutcome::processed(),
        Ok(Repair::Consistent | Repair::Awaits) => CandidateOutcome::nothing().remaining(),
        Ok(Repair::Unknown(reason)) => CandidateOutcome::unworkable(reason),
        Err(error) => CandidateOutcome::error(error),
    }
}
