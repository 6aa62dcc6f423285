//! Budgets, and holding back what they do not allow.

mod block_execution_for_admission;
mod create_budget;
mod forget_ledger;
mod reconcile_budget;
mod record_spend;
mod record_usage;
mod release_budget;
mod report_usage_and_check;
mod reset_budget;
mod reset_budget_if_due;
mod unblock_execution;

pub use block_execution_for_admission::{BlockExecutionForAdmission, HoldReason};
pub use create_budget::{BudgetCreation, CreateBudget, DimensionLimits};
pub use forget_ledger::{ForgetLedger, Forgotten};
pub use reconcile_budget::{BreachMark, BudgetState, ReconcileBudget};
pub use record_spend::RecordSpend;
pub use record_usage::RecordUsage;
pub use release_budget::{ReleaseBudget, Released};
pub use report_usage_and_check::{Breach, Delta, ReportUsageAndCheck, UsageVerdict};
pub use reset_budget::ResetBudget;
pub use reset_budget_if_due::{DueReset, ResetBudgetIfDue};
pub use unblock_execution::UnblockExecution;

use super::Signature;

/// The functions of this domain.
pub const SIGNATURES: &[Signature] = &[
    Signature::of::<BlockExecutionForAdmission>(),
    Signature::of::<CreateBudget>(),
    Signature::of::<ForgetLedger>(),
    Signature::of::<ReconcileBudget>(),
    Signature::of::<RecordSpend>(),
    Signature::of::<RecordUsage>(),
    Signature::of::<ReleaseBudget>(),
    Signature::of::<ReportUsageAndCheck>(),
    Signature::of::<ResetBudget>(),
    Signature::of::<ResetBudgetIfDue>(),
    Signature::of::<UnblockExecution>(),
];
