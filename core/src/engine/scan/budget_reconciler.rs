//! Keeps the breach mark of budgets that never reset in step with their usage.

use core::time::Duration;

use super::{Candidate, Scanner, ScannerName, Scene, Source, Spec};
use crate::call::budget::{BreachMark, ReconcileBudget};
use crate::engine::step::{Step, Verdict};
use crate::key::PartitionIndex;
use crate::partition::Family;

pub(super) struct BudgetReconciler;

const SPEC: Spec = Spec {
    name: ScannerName::BudgetReconciler,
    every: Duration::from_secs(30),
    interval_variable: "FF_BUDGET_RECONCILER_INTERVAL_S",
    family: Family::Budget,
    sources: &[Source::Members(PartitionIndex::BudgetPolicies)],
    batch: 100,
    filtered: false,
};

impl Scanner for BudgetReconciler {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn begin(&self, scene: &Scene, candidate: &Candidate) -> Result<Step, Verdict> {
        let budget_id = candidate.id("not a budget id")?;
        let call = ReconcileBudget { partition: scene.partition, budget_id };
        Ok(Step::call(&call, |reply| {
            Step::Done(match reply {
                Ok(BreachMark::Marked | BreachMark::Unmarked) => Verdict::processed(),
                Ok(BreachMark::Unchanged | BreachMark::Unknown) => Verdict::nothing(),
                Err(error) => Verdict::error(error),
            })
        }))
    }
}
