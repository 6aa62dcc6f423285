use alloc::string::String;
use alloc::vec::Vec;

use super::report_usage_and_check::dedup_key;
use super::{Delta, UsageVerdict};
use crate::call::args::args;
use crate::call::{Envelope, Function, ToArg};
use crate::error::CallError;
use crate::id::{BudgetId, ExecutionId};
use crate::key::Key;
use crate::partition::Partition;
use crate::time::ServerTime;

/// Adds usage that has happened to a budget, whatever its limits say, and notes in a ledger what
/// this execution spent. A breach in the reply was counted.
#[derive(Clone, Debug)]
pub struct RecordUsage {
    /// The partition of the budget.
    pub partition: Partition,
    /// The budget.
    pub budget_id: BudgetId,
    /// The execution that spent it; none, no ledger.
    pub execution_id: Option<ExecutionId>,
    /// What was spent.
    pub deltas: Vec<Delta>,
    /// When.
    pub now: ServerTime,
    /// Idempotency key: a repeated report within a day is counted once.
    pub dedup_id: Option<String>,
}

impl Function for RecordUsage {
    const NAME: &'static str = "ff_record_usage";
    const KEYS: &'static [&'static str] = &["usage", "limits", "def", "by_exec", "by_exec_index"];
    const ARGS: &'static [&'static str] = &["pair_count"];

    type Reply = UsageVerdict;

    fn keys(&self) -> Vec<Key> {
        let budget = Key::budget(self.partition, self.budget_id);
        let mut keys = alloc::vec![budget.usage(), budget.limits(), budget.record()];
        if let Some(execution_id) = &self.execution_id {
            keys.extend([budget.ledger(execution_id), budget.ledger_index()]);
        }
        keys
    }

    fn args(&self) -> Vec<Vec<u8>> {
        let mut args = args![self.deltas.len()];
        for entry in &self.deltas {
            args.push(entry.dimension.to_arg());
            args.push(entry.delta.to_arg());
        }
        args.push(self.now.to_arg());
        args.push(dedup_key(self.partition, self.dedup_id.as_ref()));
        args.push(self.execution_id.to_arg());
        args
    }

    fn read(envelope: Envelope) -> Result<UsageVerdict, CallError> {
        UsageVerdict::read(envelope)
    }
}
