use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::{BudgetId, ExecutionId};
use crate::key::Key;
use crate::partition::Partition;

/// Drops the ledger of an execution that is gone. What it spent stays spent. An added function.
#[derive(Clone, Debug)]
pub struct ForgetLedger {
    /// The partition of the budget.
    pub partition: Partition,
    /// The budget.
    pub budget_id: BudgetId,
    /// The execution that spent it.
    pub execution_id: ExecutionId,
}

wire_enum! {
    /// Whether anything was deleted.
    pub enum Forgotten {
        /// There was, and it is gone.
        Forgotten = "forgotten",
        /// There was not.
        Nothing = "nothing",
    }
}

impl Function for ForgetLedger {
    const NAME: &'static str = "ff_forget_ledger";
    const KEYS: &'static [&'static str] = &["by_exec", "by_exec_index"];
    const ARGS: &'static [&'static str] = &["execution_id"];

    type Reply = Forgotten;

    fn keys(&self) -> Vec<Key> {
        let budget = Key::budget(self.partition, self.budget_id);
        alloc::vec![budget.ledger(&self.execution_id), budget.ledger_index()]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![self.execution_id]
    }

    fn read(envelope: Envelope) -> Result<Forgotten, CallError> {
        envelope.ok()?.parse("an outcome of forgetting")
    }
}
