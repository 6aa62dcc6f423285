use alloc::string::String;
use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::{Envelope, Function, ToArg};
use crate::error::CallError;
use crate::id::BudgetId;
use crate::key::Key;
use crate::partition::Partition;
use crate::time::ServerTime;

/// The limits of one dimension; zero means none.
#[derive(Clone, Debug)]
pub struct DimensionLimits {
    /// What is counted.
    pub dimension: String,
    /// Never passed.
    pub hard: u64,
    /// Passed with a warning.
    pub soft: u64,
}

/// Defines a budget.
#[derive(Clone, Debug)]
pub struct CreateBudget {
    /// The partition of the budget.
    pub partition: Partition,
    /// The budget.
    pub budget_id: BudgetId,
    /// Stored for readers; nothing decides by it.
    pub scope_type: String,
    /// Stored for readers; nothing decides by it.
    pub scope_id: String,
    /// Stored for readers; nothing decides by it.
    pub enforcement_mode: String,
    /// Stored for readers; nothing decides by it.
    pub on_hard_limit: String,
    /// Stored for readers; nothing decides by it.
    pub on_soft_limit: String,
    /// How long a period lasts; zero: for ever.
    pub reset_interval_ms: u64,
    /// When the first period starts.
    pub now: ServerTime,
    /// What is limited.
    pub limits: Vec<DimensionLimits>,
}

/// Whether the budget is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetCreation {
    /// It is.
    Created,
    /// It existed; its first definition is kept.
    AlreadyThere,
}

impl Function for CreateBudget {
    const NAME: &'static str = "ff_create_budget";
    const KEYS: &'static [&'static str] = &["def", "limits", "usage", "resets", "policies"];
    const ARGS: &'static [&'static str] = &[
        "budget_id",
        "scope_type",
        "scope_id",
        "enforcement_mode",
        "on_hard_limit",
        "on_soft_limit",
        "reset_interval_ms",
        "now_ms",
        "dim_count",
    ];

    type Reply = BudgetCreation;

    fn keys(&self) -> Vec<Key> {
        let budget = Key::budget(self.partition, self.budget_id);
        let index = Key::index(self.partition);
        alloc::vec![
            budget.record(),
            budget.limits(),
            budget.usage(),
            index.budget_resets(),
            index.budget_policies(),
        ]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        let mut args = args![
            self.budget_id,
            self.scope_type,
            self.scope_id,
            self.enforcement_mode,
            self.on_hard_limit,
            self.on_soft_limit,
            self.reset_interval_ms,
            self.now,
            self.limits.len(),
        ];
        args.extend(self.limits.iter().map(|limit| limit.dimension.to_arg()));
        args.extend(self.limits.iter().map(|limit| limit.hard.to_arg()));
        args.extend(self.limits.iter().map(|limit| limit.soft.to_arg()));
        args
    }

    fn read(envelope: Envelope) -> Result<BudgetCreation, CallError> {
        match envelope.status.as_str() {
            "OK" => Ok(BudgetCreation::Created),
            "ALREADY_SATISFIED" => Ok(BudgetCreation::AlreadyThere),
            _ => Err(envelope.unexpected()),
        }
    }
}
