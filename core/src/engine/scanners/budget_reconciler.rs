//! Corrects the breach marks of budgets that never reset, and deletes the ledgers of executions
//! that no longer exist. An execution's record is on another partition, so it is read there;
//! without an answer the ledger is kept.

use alloc::vec::Vec;
use core::time::Duration;

use super::{Candidate, ScanContext, Scanner, ScannerName, ScannerSpec, Source};
use crate::call::budget::{BreachMark, BudgetState, ForgetLedger, ReconcileBudget};
use crate::command::Command;
use crate::engine::scanning::{CandidateOutcome, ScanStep};
use crate::id::{BudgetId, ExecutionId};
use crate::key::{Key, PartitionIndex};
use crate::partition::{Family, Partition};
use crate::value::Value;

pub(super) struct BudgetReconciler;

const SPEC: ScannerSpec = ScannerSpec {
    name: ScannerName::BudgetReconciler,
    interval: Duration::from_secs(30),
    interval_variable: "FF_BUDGET_RECONCILER_INTERVAL_S",
    family: Family::Budget,
    sources: &[Source::Members(PartitionIndex::BudgetPolicies)],
    batch: 100,
    filtered: false,
};

/// Ledgers read by one call.
const LEDGERS_PER_STEP: u32 = 100;

impl Scanner for BudgetReconciler {
    fn spec(&self) -> &'static ScannerSpec {
        &SPEC
    }

    fn begin(
        &self,
        context: &ScanContext,
        candidate: &Candidate,
    ) -> Result<ScanStep, CandidateOutcome> {
        let budget = Budget { partition: context.partition, id: candidate.id("not a budget id")? };
        Ok(budget.reconcile(0, 0))
    }
}

#[derive(Clone, Copy)]
struct Budget {
    partition: Partition,
    id: BudgetId,
}

impl Budget {
    /// One page of ledgers; `work` counts the corrections so far.
    fn reconcile(self, cursor: u64, work: u32) -> ScanStep {
        let call = ReconcileBudget {
            partition: self.partition,
            budget_id: self.id,
            cursor,
            count: LEDGERS_PER_STEP,
        };
        ScanStep::call(&call, move |reply| match reply {
            Ok(state) => self.look_at_spenders(&state, work),
            Err(error) => CandidateOutcome::error(error).into(),
        })
    }

    fn look_at_spenders(self, state: &BudgetState, work: u32) -> ScanStep {
        let marked = matches!(state.mark, BreachMark::Marked | BreachMark::Unmarked);
        let (next, work) = (state.next_cursor, work + u32::from(marked));
        let spenders: Vec<ExecutionId> =
            state.spenders.iter().filter_map(|spender| spender.parse().ok()).collect();
        if spenders.is_empty() {
            return self.next_page(next, work);
        }
        let cores =
            spenders.iter().map(|id| Command::read("EXISTS", &Key::execution(id).core(), &[]));
        ScanStep::read(cores.collect(), move |found| {
            let gone: Vec<ForgetLedger> = spenders
                .into_iter()
                .zip(found)
                .filter(|(_, found)| matches!(found, Ok(Value::Int(0))))
                .map(|(execution_id, _)| ForgetLedger {
                    partition: self.partition,
                    budget_id: self.id,
                    execution_id,
                })
                .collect();
            self.forget(&gone, next, work)
        })
    }

    fn forget(self, gone: &[ForgetLedger], next: u64, work: u32) -> ScanStep {
        if gone.is_empty() {
            return self.next_page(next, work);
        }
        ScanStep::calls(gone, move |replies| {
            let mut work = work;
            for reply in replies {
                match reply {
                    Ok(_) => work += 1,
                    Err(error) => return CandidateOutcome::error(error).into(),
                }
            }
            self.next_page(next, work)
        })
    }

    fn next_page(self, next: u64, work: u32) -> ScanStep {
        match (next, work) {
            (0, 0) => CandidateOutcome::nothing().into(),
            (0, work) => CandidateOutcome::processed_times(work).into(),
            (cursor, work) => self.reconcile(cursor, work),
        }
    }
}
