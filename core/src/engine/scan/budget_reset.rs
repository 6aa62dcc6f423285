//! Starts a new period of every budget whose time came.

use core::time::Duration;

use super::{Candidate, Scanner, ScannerName, Scene, Source, Spec};
use crate::call::budget::{DueReset, ResetBudgetIfDue};
use crate::engine::step::{Step, Verdict};
use crate::key::PartitionIndex;
use crate::partition::Family;

pub(super) struct BudgetReset;

const SPEC: Spec = Spec {
    name: ScannerName::BudgetReset,
    every: Duration::from_secs(15),
    interval_variable: "FF_BUDGET_RESET_INTERVAL_S",
    family: Family::Budget,
    sources: &[Source::Due(PartitionIndex::BudgetResets)],
    batch: 20,
    filtered: false,
};

impl Scanner for BudgetReset {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn begin(&self, scene: &Scene, candidate: &Candidate) -> Result<Step, Verdict> {
        let budget_id = candidate.id("not a budget id")?;
        // An entry on another budget's partition would reset a stranger, again and again.
        if scene.config.partitions.of_budget(budget_id) != scene.partition {
            return Err(Verdict::poison("a budget of another partition"));
        }
        let call = ResetBudgetIfDue { partition: scene.partition, budget_id };
        Ok(Step::call(&call, |reply| {
            Step::Done(match reply {
                Ok(DueReset::Reset(_)) => Verdict::processed(),
                Ok(
                    DueReset::NotYetDue(_)
                    | DueReset::NotScheduled
                    | DueReset::Unknown
                    | DueReset::NotRecurring,
                ) => Verdict::nothing(),
                Err(error) => Verdict::error(error),
            })
        }))
    }
}
