//! Starts a new period of every budget that is due.

use core::time::Duration;

use super::{Candidate, ScanContext, Scanner, ScannerName, ScannerSpec, Source};
use crate::call::budget::{DueReset, ResetBudgetIfDue};
use crate::engine::scanning::{CandidateOutcome, ScanStep};
use crate::key::PartitionIndex;
use crate::partition::Family;

pub(super) struct BudgetReset;

const SPEC: ScannerSpec = ScannerSpec {
    name: ScannerName::BudgetReset,
    interval: Duration::from_secs(15),
    interval_variable: "FF_BUDGET_RESET_INTERVAL_S",
    family: Family::Budget,
    sources: &[Source::Due(PartitionIndex::BudgetResets)],
    batch: 20,
    filtered: false,
};

impl Scanner for BudgetReset {
    fn spec(&self) -> &'static ScannerSpec {
        &SPEC
    }

    fn begin(
        &self,
        context: &ScanContext,
        candidate: &Candidate,
    ) -> Result<ScanStep, CandidateOutcome> {
        let budget_id = candidate.id("not a budget id")?;
        // An entry on another partition would reset the wrong budget, at every scan.
        if context.config.partitions.of_budget(budget_id) != context.partition {
            return Err(CandidateOutcome::unreadable("a budget of another partition"));
        }
        let call = ResetBudgetIfDue { partition: context.partition, budget_id };
        Ok(ScanStep::call(&call, |reply| {
            ScanStep::Done(match reply {
                Ok(DueReset::Reset(_)) => CandidateOutcome::processed(),
                Ok(
                    DueReset::NotYetDue(_)
                    | DueReset::NotScheduled
                    | DueReset::Unknown
                    | DueReset::NotRecurring,
                ) => CandidateOutcome::nothing(),
                Err(error) => CandidateOutcome::error(error),
            })
        }))
    }
}
