use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::{BudgetId, ExecutionId};
use crate::key::Key;
use crate::partition::Partition;

/// Gives back what one execution spent in the current period, and drops its ledger.
#[derive(Clone, Debug)]
pub struct ReleaseBudget {
    /// The partition of the budget.
    pub partition: Partition,
    /// The budget.
    pub budget_id: BudgetId,
    /// The execution that spent it.
    pub execution_id: ExecutionId,
}

wire_enum! {
    /// Whether anything was released.
    pub enum Released {
        /// There was a ledger, and it is gone.
        Released = "released",
        /// There was none.
        Nothing = "noop",
    }
}

impl Function for ReleaseBudget {
    const NAME: &'static str = "ff_release_budget";
    const KEYS: &'static [&'static str] = &["usage", "by_exec", "by_exec_index"];
    const ARGS: &'static [&'static str] = &["budget_id", "execution_id"];

    type Reply = Released;

    fn keys(&self) -> Vec<Key> {
        let budget = Key::budget(self.partition, self.budget_id);
        alloc::vec![budget.usage(), budget.ledger(&self.execution_id), budget.ledger_index()]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![self.budget_id, self.execution_id]
    }

    fn read(envelope: Envelope) -> Result<Released, CallError> {
        envelope.ok()?.parse("an outcome of a release")
    }
}
