//! Granting and claiming executions, their order and delays, and the registry of workers.

mod change_priority;
mod claim_many;
mod claim_next;
mod end_and_claim;
mod heartbeat_worker;
mod issue_claim_grant;
mod issue_grant_and_claim;
mod issue_reclaim_grant;
mod promote_delayed;
mod register_worker;
mod set_lane_state;
mod update_progress;

pub use change_priority::{ChangePriority, PriorityChanged};
pub use claim_many::{ClaimMany, ClaimManyReply, ClaimTerms, NewLease, NewLeases, Passed};
pub use claim_next::{ClaimNext, ClaimNextReply, ClaimedWork, NoneClaimable, OtherKind};
pub use end_and_claim::{EndAndClaim, EndAndClaimReply, Ended, RunEnd};
pub use heartbeat_worker::{Heartbeat, HeartbeatWorker};
pub use issue_claim_grant::{GrantTerms, IssueClaimGrant};
pub use issue_grant_and_claim::{IssueGrantAndClaim, OperatorClaim};
pub use issue_reclaim_grant::IssueReclaimGrant;
pub use promote_delayed::{PromoteDelayed, Promotion};
pub use register_worker::{RegisterWorker, Registration};
pub use set_lane_state::{LaneStateSet, SetLaneState};
pub use update_progress::UpdateProgress;

use super::Signature;

/// The functions of this domain.
pub const SIGNATURES: &[Signature] = &[
    Signature::of::<ChangePriority>(),
    Signature::of::<ClaimMany>(),
    Signature::of::<ClaimNext>(),
    Signature::of::<EndAndClaim>(),
    Signature::of::<HeartbeatWorker>(),
    Signature::of::<IssueClaimGrant>(),
    Signature::of::<IssueGrantAndClaim>(),
    Signature::of::<IssueReclaimGrant>(),
    Signature::of::<PromoteDelayed>(),
    Signature::of::<RegisterWorker>(),
    Signature::of::<SetLaneState>(),
    Signature::of::<UpdateProgress>(),
];
