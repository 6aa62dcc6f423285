//! Makes index memberships equal to what the records demand. It repairs and counts; a record that
//! does not say where it belongs is the operator's business.

use core::time::Duration;

use super::{Candidate, Scanner, ScannerName, Scene, Source, Spec};
use crate::call::library::{Repair, RepairIndex};
use crate::engine::step::{Step, Verdict};
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
        let call = RepairIndex { execution_id: candidate.execution(scene)?, lane: None };
        Ok(Step::call(&call, |reply| {
            Step::Done(match reply {
                Ok(Repair::Repaired(_)) => Verdict::processed(),
                Ok(Repair::Consistent) => Verdict::nothing(),
                Ok(Repair::Unknown(reason)) => Verdict::unworkable(reason),
                Err(error) => Verdict::error(error),
            })
        }))
    }
}
