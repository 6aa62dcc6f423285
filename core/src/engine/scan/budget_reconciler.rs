//! Keeps the breach mark of budgets that never reset in step with their usage, and drops the ledgers
//! of executions that are gone. Whether one is gone is written on another partition, so it is asked
//! there; no answer means that it keeps its ledger.

use alloc::vec::Vec;
use core::time::Duration;

use super::{Candidate, Scanner, ScannerName, Scene, Source, Spec};
use crate::call::budget::{BreachMark, BudgetState, ForgetLedger, ReconcileBudget};
use crate::engine::step::{Step, Verdict};
use crate::engine::wire::Command;
use crate::id::{BudgetId, ExecutionId};
use crate::key::{Key, PartitionIndex};
use crate::partition::{Family, Partition};
use crate::value::Value;

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

/// Ledgers looked at in one step.
const LEDGERS_PER_STEP: u32 = 100;

impl Scanner for BudgetReconciler {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn begin(&self, scene: &Scene, candidate: &Candidate) -> Result<Step, Verdict> {
        let budget = Budget { partition: scene.partition, id: candidate.id("not a budget id")? };
        Ok(budget.reconcile(0, 0))
    }
}

#[derive(Clone, Copy)]
struct Budget {
    partition: Partition,
    id: BudgetId,
}

impl Budget {
    /// One page of ledgers; `work` counts what was put right so far.
    fn reconcile(self, cursor: u64, work: u32) -> Step {
        let call = ReconcileBudget {
            partition: self.partition,
            budget_id: self.id,
            cursor,
            count: LEDGERS_PER_STEP,
        };
        Step::call(&call, move |reply| match reply {
            Ok(state) => self.look_at_spenders(&state, work),
            Err(error) => Verdict::error(error).into(),
        })
    }

    fn look_at_spenders(self, state: &BudgetState, work: u32) -> Step {
        let marked = matches!(state.mark, BreachMark::Marked | BreachMark::Unmarked);
        let (next, work) = (state.next_cursor, work + u32::from(marked));
        let spenders: Vec<ExecutionId> =
            state.spenders.iter().filter_map(|spender| spender.parse().ok()).collect();
        if spenders.is_empty() {
            return self.go_on(next, work);
        }
        let cores =
            spenders.iter().map(|id| Command::read("EXISTS", &Key::execution(id).core(), &[]));
        Step::read(cores.collect(), move |found| {
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

    fn forget(self, gone: &[ForgetLedger], next: u64, work: u32) -> Step {
        if gone.is_empty() {
            return self.go_on(next, work);
        }
        Step::calls(gone, move |replies| {
            let mut work = work;
            for reply in replies {
                match reply {
                    Ok(_) => work += 1,
                    Err(error) => return Verdict::error(error).into(),
                }
            }
            self.go_on(next, work)
        })
    }

    fn go_on(self, next: u64, work: u32) -> Step {
        match (next, work) {
            (0, 0) => Verdict::nothing().into(),
            (0, work) => Verdict::processed().times(work).into(),
            (cursor, work) => self.reconcile(cursor, work),
        }
    }
}
