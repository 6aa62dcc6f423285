//! Repairs of damaged records by those that are left, for operators.

mod accept_loss;
mod repair_execution;
mod repair_flow;

pub use accept_loss::{AcceptLoss, Acceptance};
pub use repair_execution::{ExecutionRepair, RepairExecution};
pub use repair_flow::{FlowRepair, FoundEdge, RepairFlow};

use super::Signature;

/// The functions of this domain.
pub const SIGNATURES: &[Signature] = &[
    Signature::of::<AcceptLoss>(),
    Signature::of::<RepairExecution>(),
    Signature::of::<RepairFlow>(),
];
