use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::envelope::broken;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::BudgetId;
use crate::key::Key;
use crate::partition::Partition;
use crate::time::ServerTime;
use crate::value::Value;

/// Starts a new period of a budget whose scheduled reset has come. An added function.
#[derive(Clone, Debug)]
pub struct ResetBudgetIfDue {
    /// The partition of the schedule.
    pub partition: Partition,
    /// The budget.
    pub budget_id: BudgetId,
}

/// What happened to an entry of the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DueReset {
    /// A new period began; the next one begins then.
    Reset(ServerTime),
    /// Not before then.
    NotYetDue(ServerTime),
    /// There is no such entry.
    NotScheduled,
    /// There is no such budget; the entry is gone.
    Unknown,
    /// The budget never resets; the entry is gone.
    NotRecurring,
}

impl Function for ResetBudgetIfDue {
    const NAME: &'static str = "ff_reset_budget_if_due";
    const KEYS: &'static [&'static str] = &["def", "usage", "resets"];
    const ARGS: &'static [&'static str] = &["budget_id"];

    type Reply = DueReset;

    fn keys(&self) -> Vec<Key> {
        let budget = Key::budget(self.partition, self.budget_id);
        alloc::vec![budget.record(), budget.usage(), Key::index(self.partition).budget_resets()]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![self.budget_id]
    }

    fn read(envelope: Envelope) -> Result<DueReset, CallError> {
        let mut fields = envelope.ok()?;
        let word = fields.text()?;
        match word.as_str() {
            "reset" => fields.parse("when the next period starts").map(DueReset::Reset),
            "not_yet_due" => fields.parse("when the next period starts").map(DueReset::NotYetDue),
            "not_scheduled" => Ok(DueReset::NotScheduled),
            "unknown_cleaned" => Ok(DueReset::Unknown),
            "not_recurring_cleaned" => Ok(DueReset::NotRecurring),
            _ => Err(broken("an outcome of a reset", Value::Bulk(word.into_bytes()))),
        }
    }
}
