//! Executions: made, claimed, ended, expired, purged.

mod cancel_execution;
mod claim_execution;
mod complete_execution;
mod create_execution;
mod delay_execution;
mod expire_execution;
mod expire_if_due;
mod fail_execution;
mod move_to_waiting_children;
mod purge_execution;
mod purge_executions;
mod reclaim_execution;
mod running;
mod set_execution_tags;

pub use cancel_execution::CancelExecution;
pub use claim_execution::{ClaimExecution, Claimed};
pub use complete_execution::CompleteExecution;
pub use create_execution::{CreateExecution, CreateIdempotency, Creation};
pub use delay_execution::DelayExecution;
pub use expire_execution::{ExpireExecution, ExpireReason, Expiry};
pub use expire_if_due::{DueExpiry, ExpireIfDue};
pub use fail_execution::{FailExecution, Failure};
pub use move_to_waiting_children::MoveToWaitingChildren;
pub use purge_execution::{Purge, PurgeExecution};
pub(crate) use purge_executions::JoinKey;
pub use purge_executions::PurgeExecutions;
pub use reclaim_execution::ReclaimExecution;
pub use running::{Authority, Running};
pub use set_execution_tags::SetExecutionTags;

use super::Signature;

/// The functions of this domain.
pub const SIGNATURES: &[Signature] = &[
    Signature::of::<CancelExecution>(),
    Signature::of::<ClaimExecution>(),
    Signature::of::<CompleteExecution>(),
    Signature::of::<CreateExecution>(),
    Signature::of::<DelayExecution>(),
    Signature::of::<ExpireExecution>(),
    Signature::of::<ExpireIfDue>(),
    Signature::of::<FailExecution>(),
    Signature::of::<MoveToWaitingChildren>(),
    Signature::of::<PurgeExecution>(),
    Signature::of::<PurgeExecutions>(),
    Signature::of::<ReclaimExecution>(),
    Signature::of::<SetExecutionTags>(),
];

#[cfg(test)]
mod tests;
