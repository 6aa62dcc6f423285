//! Finishes interrupted drains: removes entries of groups without siblings to cancel. A group whose
//! siblings are running is left to the edge cancel dispatcher.

use core::time::Duration;

use super::edge_cancel_dispatcher::read_group;
use super::{Candidate, ScanContext, Scanner, ScannerName, ScannerSpec, Source};
use crate::call::flow::{GroupReconciliation, ReconcileSiblingCancelGroup};
use crate::engine::observe::{Observation, ReconcileAction};
use crate::engine::scanning::{CandidateOutcome, ScanStep};
use crate::key::PartitionIndex;
use crate::partition::Family;

pub(super) struct EdgeCancelReconciler;

const SPEC: ScannerSpec = ScannerSpec {
    name: ScannerName::EdgeCancelReconciler,
    interval: Duration::from_secs(10),
    interval_variable: "FF_EDGE_CANCEL_RECONCILER_INTERVAL_S",
    family: Family::Flow,
    sources: &[Source::Members(PartitionIndex::PendingCancelGroups)],
    batch: 50,
    filtered: false,
};

impl Scanner for EdgeCancelReconciler {
    fn spec(&self) -> &'static ScannerSpec {
        &SPEC
    }

    fn begin(
        &self,
        context: &ScanContext,
        candidate: &Candidate,
    ) -> Result<ScanStep, CandidateOutcome> {
        let call = ReconcileSiblingCancelGroup(read_group(candidate, context)?);
        Ok(ScanStep::call(&call, |reply| {
            let (outcome, action) = match reply {
                Ok(GroupReconciliation::RemovedStale) => {
                    (CandidateOutcome::processed(), ReconcileAction::SremmedStale)
                }
                Ok(GroupReconciliation::CompletedDrain) => {
                    (CandidateOutcome::processed(), ReconcileAction::CompletedDrain)
                }
                Ok(GroupReconciliation::NoOp) => {
                    (CandidateOutcome::nothing(), ReconcileAction::NoOp)
                }
                Err(error) => return CandidateOutcome::error(error).into(),
            };
            ScanStep::Done(
                outcome.with_observations(alloc::vec![Observation::SiblingReconciled(action)]),
            )
        }))
    }
}
