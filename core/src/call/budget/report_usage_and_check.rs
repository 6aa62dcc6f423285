use alloc::string::String;
use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::{Envelope, Fields, Function, ToArg};
use crate::error::CallError;
use crate::id::BudgetId;
use crate::key::Key;
use crate::partition::Partition;
use crate::time::ServerTime;

/// How much of one dimension was used.
#[derive(Clone, Debug)]
pub struct Delta {
    /// What is counted.
    pub dimension: String,
    /// How much more; a negative one takes back.
    pub delta: i64,
}

/// Adds usage to a budget, unless one dimension would pass its hard limit.
#[derive(Clone, Debug)]
pub struct ReportUsageAndCheck {
    /// The partition of the budget.
    pub partition: Partition,
    /// The budget.
    pub budget_id: BudgetId,
    /// What was used.
    pub deltas: Vec<Delta>,
    /// When.
    pub now: ServerTime,
    /// Idempotency key: a repeated report within a day is counted once.
    pub dedup_id: Option<String>,
}

/// The result of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UsageVerdict {
    /// It was added.
    Added,
    /// It had been added before.
    AlreadyAdded,
    /// It was added, and a soft limit is passed.
    SoftBreach(Breach),
    /// A hard limit is passed. Usage that has happened was added all the same; what was only asked
    /// for was not.
    HardBreach(Breach),
}

/// A limit that was met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// What is counted.
    pub dimension: String,
    /// How much is used now, after the report if it was added.
    pub current: i64,
    /// The limit as it is stored.
    pub limit: String,
}

impl UsageVerdict {
    pub(super) fn read(mut envelope: Envelope) -> Result<Self, CallError> {
        match envelope.status.as_str() {
            "OK" => Ok(Self::Added),
            "ALREADY_APPLIED" => Ok(Self::AlreadyAdded),
            "SOFT_BREACH" => Breach::read(&mut envelope.fields).map(Self::SoftBreach),
            "HARD_BREACH" => Breach::read(&mut envelope.fields).map(Self::HardBreach),
            _ => Err(envelope.unexpected()),
        }
    }
}

impl Breach {
    fn read(fields: &mut Fields) -> Result<Self, CallError> {
        Ok(Self {
            dimension: fields.text()?,
            current: fields.parse("an amount")?,
            limit: fields.text()?,
        })
    }
}

/// The full key of a report's dedup id, which stands in ARGV.
pub(super) fn dedup_key(partition: Partition, dedup_id: Option<&String>) -> Vec<u8> {
    dedup_id
        .map(|id| alloc::string::ToString::to_string(&Key::UsageDedup(partition, id.clone())))
        .to_arg()
}

impl Function for ReportUsageAndCheck {
    const NAME: &'static str = "ff_report_usage_and_check";
    const KEYS: &'static [&'static str] = &["usage", "limits", "def"];
    const ARGS: &'static [&'static str] = &["dim_count"];

    type Reply = UsageVerdict;

    fn keys(&self) -> Vec<Key> {
        let budget = Key::budget(self.partition, self.budget_id);
        alloc::vec![budget.usage(), budget.limits(), budget.record()]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        let mut args = args![self.deltas.len()];
        args.extend(self.deltas.iter().map(|entry| entry.dimension.to_arg()));
        args.extend(self.deltas.iter().map(|entry| entry.delta.to_arg()));
        args.push(self.now.to_arg());
        args.push(dedup_key(self.partition, self.dedup_id.as_ref()));
        args
    }

    fn read(envelope: Envelope) -> Result<UsageVerdict, CallError> {
        UsageVerdict::read(envelope)
    }
}
