//! Finishes drains that were interrupted: a note without a debt goes. A group whose siblings still
//! run is left to the dispatcher.

use core::time::Duration;

use super::edge_cancel_dispatcher::read_group;
use super::{Candidate, Scanner, ScannerName, Scene, Source, Spec};
use crate::call::flow::{ReconcileSiblingCancelGroup, Reconciliation};
use crate::engine::observe::{Observation, ReconcileAction};
use crate::engine::step::{Step, Verdict};
use crate::key::PartitionIndex;
use crate::partition::Family;

pub(super) struct EdgeCancelReconciler;

const SPEC: Spec = Spec {
    name: ScannerName::EdgeCancelReconciler,
    every: Duration::from_secs(10),
    interval_variable: "FF_EDGE_CANCEL_RECONCILER_INTERVAL_S",
    family: Family::Flow,
    sources: &[Source::Members(PartitionIndex::PendingCancelGroups)],
    batch: 50,
    filtered: false,
};

impl Scanner for EdgeCancelReconciler {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn begin(&self, scene: &Scene, candidate: &Candidate) -> Result<Step, Verdict> {
        let call = ReconcileSiblingCancelGroup(read_group(candidate, scene)?);
        Ok(Step::call(&call, |reply| {
            let (verdict, action) = match reply {
                Ok(Reconciliation::RemovedStale) => {
                    (Verdict::processed(), ReconcileAction::SremmedStale)
                }
                Ok(Reconciliation::CompletedDrain) => {
                    (Verdict::processed(), ReconcileAction::CompletedDrain)
                }
                Ok(Reconciliation::NoOp) => (Verdict::nothing(), ReconcileAction::NoOp),
                Err(error) => return Verdict::error(error).into(),
            };
            Step::Done(verdict.noting(alloc::vec![Observation::SiblingReconciled(action)]))
        }))
    }
}
