use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::BudgetId;
use crate::key::Key;
use crate::partition::Partition;

/// Brings the mark of a breach in step with usage and limits. An added function.
#[derive(Clone, Debug)]
pub struct ReconcileBudget {
    /// Where the budget lives.
    pub partition: Partition,
    /// The budget.
    pub budget_id: BudgetId,
}

words! {
    /// What became of the mark.
    pub enum BreachMark {
        /// It was set.
        Marked = "marked",
        /// It was taken away.
        Unmarked = "unmarked",
        /// It was right.
        Unchanged = "unchanged",
        /// There is no such budget; its index entry is gone.
        Unknown = "unknown_cleaned",
    }
}

impl Function for ReconcileBudget {
    const NAME: &'static str = "ff_reconcile_budget";
    const KEYS: &'static [&'static str] = &["def", "limits", "usage", "policies"];
    const ARGS: &'static [&'static str] = &["budget_id"];

    type Reply = BreachMark;

    fn keys(&self) -> Vec<Key> {
        let budget = Key::budget(self.partition, self.budget_id);
        let policies = Key::index(self.partition).budget_policies();
        alloc::vec![budget.record(), budget.limits(), budget.usage(), policies]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![self.budget_id]
    }

    fn read(envelope: Envelope) -> Result<BreachMark, CallError> {
        envelope.ok()?.parse("an outcome of a reconciliation")
    }
}
