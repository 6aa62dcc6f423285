//! Flows, their members, edges, groups and cancels.

mod ack_cancel_member;
mod add_execution_to_flow;
mod apply_dependency_to_child;
mod cancel_flow;
mod create_flow;
mod evaluate_flow_eligibility;
mod project_flow;
mod promote_blocked_to_eligible;
mod purge_flow;
mod replay_execution;
mod resolve_dependency;
mod resolve_outgoing;
mod set_edge_group_policy;
mod set_flow_tags;
mod sibling_cancel;
mod stage_dependency_edge;
mod submit_flow;
#[cfg(test)]
mod tests;

pub use ack_cancel_member::AckCancelMember;
pub use add_execution_to_flow::{AddExecutionToFlow, Membership};
pub use apply_dependency_to_child::{Application, ApplyDependencyToChild};
pub use cancel_flow::{CancelFlow, CancellationPolicy};
pub use create_flow::{CreateFlow, Novelty};
pub use evaluate_flow_eligibility::{EvaluateFlowEligibility, FlowEligibility};
pub use project_flow::{ProjectFlow, Projection};
pub use promote_blocked_to_eligible::PromoteBlockedToEligible;
pub use purge_flow::{FlowPurge, PurgeFlow};
pub use replay_execution::ReplayExecution;
pub use resolve_dependency::{Resolution, ResolveDependency};
pub use resolve_outgoing::{OutgoingBatch, ResolveOutgoing};
pub use set_edge_group_policy::{GroupPolicy, OnSatisfied, PolicyDeclaration, SetEdgeGroupPolicy};
pub use set_flow_tags::SetFlowTags;
pub use sibling_cancel::{
    CheckedDrain, Drain, DrainSiblingCancelGroup, DrainSiblingCancelGroupChecked,
    GroupReconciliation, ReconcileSiblingCancelGroup, SiblingCancelJob,
};
pub use stage_dependency_edge::{Edge, StageDependencyEdge};
pub use submit_flow::{NewMember, Submission, SubmitFlow};

use super::Signature;

/// The functions of this domain.
pub const SIGNATURES: &[Signature] = &[
    Signature::of::<AckCancelMember>(),
    Signature::of::<AddExecutionToFlow>(),
    Signature::of::<ApplyDependencyToChild>(),
    Signature::of::<CancelFlow>(),
    Signature::of::<CreateFlow>(),
    Signature::of::<DrainSiblingCancelGroup>(),
    Signature::of::<DrainSiblingCancelGroupChecked>(),
    Signature::of::<EvaluateFlowEligibility>(),
    Signature::of::<ProjectFlow>(),
    Signature::of::<PromoteBlockedToEligible>(),
    Signature::of::<PurgeFlow>(),
    Signature::of::<ReconcileSiblingCancelGroup>(),
    Signature::of::<ReplayExecution>(),
    Signature::of::<ResolveDependency>(),
    Signature::of::<ResolveOutgoing>(),
    Signature::of::<SetEdgeGroupPolicy>(),
    Signature::of::<SetFlowTags>(),
    Signature::of::<StageDependencyEdge>(),
    Signature::of::<SubmitFlow>(),
];
