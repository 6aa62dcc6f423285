use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::BudgetId;
use crate::key::Key;
use crate::partition::Partition;
use crate::time::ServerTime;

/// Starts a new period of a budget, due or not; answers when the next one starts by itself.
#[derive(Clone, Debug)]
pub struct ResetBudget {
    /// The partition of the budget.
    pub partition: Partition,
    /// The budget.
    pub budget_id: BudgetId,
    /// When the period starts.
    pub now: ServerTime,
}

impl Function for ResetBudget {
    const NAME: &'static str = "ff_reset_budget";
    const KEYS: &'static [&'static str] = &["def", "usage", "resets"];
    const ARGS: &'static [&'static str] = &["budget_id", "now_ms"];

    type Reply = Option<ServerTime>;

    fn keys(&self) -> Vec<Key> {
        let budget = Key::budget(self.partition, self.budget_id);
        alloc::vec![budget.record(), budget.usage(), Key::index(self.partition).budget_resets()]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![self.budget_id, self.now]
    }

    fn read(envelope: Envelope) -> Result<Option<ServerTime>, CallError> {
        let next: ServerTime = envelope.ok()?.parse("when the next period starts")?;
        Ok((next.0 != 0).then_some(next))
    }
}
