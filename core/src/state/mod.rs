//! The execution state vector: seven dimensions that always change together.
//!
//! [`table`] holds the legal transitions as one table; whatever is not a row of it is a defect,
//! in us or in the data.

pub mod event;
pub mod flow;
pub mod pattern;
pub mod table;

use crate::key::LaneIndex;

pub use event::Event;
pub use flow::{FlowState, MemberCounts};
pub use table::{TRANSITIONS, Transition};

wire_enum! {
    /// Where in its life an execution is.
    pub enum LifecyclePhase {
        /// Known to readers, never written.
        Submitted = "submitted",
        /// Waits to run.
        Runnable = "runnable",
        /// Runs, or its lease was lost.
        Active = "active",
        /// Waits for a signal.
        Suspended = "suspended",
        /// Ended.
        Terminal = "terminal",
    }
}

wire_enum! {
    /// Who holds it.
    pub enum OwnershipState {
        /// Nobody.
        Unowned = "unowned",
        /// A worker, under a live lease.
        Leased = "leased",
        /// A worker whose lease ran out.
        LeaseExpiredReclaimable = "lease_expired_reclaimable",
        /// A worker whose lease was taken away.
        LeaseRevoked = "lease_revoked",
    }
}

wire_enum! {
    /// Whether it may be claimed.
    pub enum EligibilityState {
        /// Now.
        EligibleNow = "eligible_now",
        /// At a later time.
        NotEligibleUntilTime = "not_eligible_until_time",
        /// When its upstreams have ended.
        BlockedByDependencies = "blocked_by_dependencies",
        /// When a budget allows.
        BlockedByBudget = "blocked_by_budget",
        /// When a quota allows.
        BlockedByQuota = "blocked_by_quota",
        /// When a capable worker is there.
        BlockedByRoute = "blocked_by_route",
        /// When the lane is open again.
        BlockedByLaneState = "blocked_by_lane_state",
        /// When an operator lets it.
        BlockedByOperator = "blocked_by_operator",
        /// The question does not arise.
        NotApplicable = "not_applicable",
    }
}

wire_enum! {
    /// What it waits for.
    pub enum BlockingReason {
        /// Nothing.
        None = "none",
        /// A worker.
        WaitingForWorker = "waiting_for_worker",
        /// The next try.
        WaitingForRetryBackoff = "waiting_for_retry_backoff",
        /// The pause after a resume.
        WaitingForResumeDelay = "waiting_for_resume_delay",
        /// A time.
        WaitingForDelay = "waiting_for_delay",
        /// A signal.
        WaitingForSignal = "waiting_for_signal",
        /// An approval.
        WaitingForApproval = "waiting_for_approval",
        /// A callback.
        WaitingForCallback = "waiting_for_callback",
        /// A tool's result.
        WaitingForToolResult = "waiting_for_tool_result",
        /// Its upstreams or children.
        WaitingForChildren = "waiting_for_children",
        /// A budget.
        WaitingForBudget = "waiting_for_budget",
        /// A quota.
        WaitingForQuota = "waiting_for_quota",
        /// A capable worker.
        WaitingForCapableWorker = "waiting_for_capable_worker",
        /// Known to readers, never written.
        WaitingForLocalityMatch = "waiting_for_locality_match",
        /// An operator.
        PausedByOperator = "paused_by_operator",
        /// A policy.
        PausedByPolicy = "paused_by_policy",
        /// Known to readers, never written.
        PausedByFlowCancel = "paused_by_flow_cancel",
    }
}

wire_enum! {
    /// How it ended.
    #[non_exhaustive]
    pub enum TerminalOutcome {
        /// It has not.
        None = "none",
        /// Completed.
        Success = "success",
        /// Failed for good.
        Failed = "failed",
        /// Cancelled.
        Cancelled = "cancelled",
        /// Ran out of time.
        Expired = "expired",
        /// Its dependencies cannot be met.
        Skipped = "skipped",
    }
}

wire_enum! {
    /// Where its current or next attempt stands.
    pub enum AttemptState {
        /// None.
        None = "none",
        /// The first is to come.
        PendingFirstAttempt = "pending_first_attempt",
        /// One runs.
        RunningAttempt = "running_attempt",
        /// One was interrupted and goes on when claimed as resumed.
        AttemptInterrupted = "attempt_interrupted",
        /// Another try is to come.
        PendingRetryAttempt = "pending_retry_attempt",
        /// A replay is to come.
        PendingReplayAttempt = "pending_replay_attempt",
        /// The last one ended.
        AttemptTerminal = "attempt_terminal",
    }
}

wire_enum! {
    /// The one word that users see.
    #[non_exhaustive]
    pub enum PublicState {
        /// Waits for a worker.
        Waiting = "waiting",
        /// Waits for a time.
        Delayed = "delayed",
        /// Held back by admission.
        RateLimited = "rate_limited",
        /// Waits for upstreams or children.
        WaitingChildren = "waiting_children",
        /// Runs.
        Active = "active",
        /// Waits for a signal.
        Suspended = "suspended",
        /// Known to readers, never written.
        Resumable = "resumable",
        /// Ended well.
        Completed = "completed",
        /// Ended badly.
        Failed = "failed",
        /// Was cancelled.
        Cancelled = "cancelled",
        /// Ran out of time.
        Expired = "expired",
        /// Could never run.
        Skipped = "skipped",
    }
}

impl PublicState {
    /// Whether it is the state of something that has ended.
    #[must_use]
    pub const fn is_end(self) -> bool {
        match self {
            Self::Completed | Self::Failed | Self::Cancelled | Self::Expired | Self::Skipped => {
                true
            }
            Self::Waiting
            | Self::Delayed
            | Self::RateLimited
            | Self::WaitingChildren
            | Self::Active
            | Self::Suspended
            | Self::Resumable => false,
        }
    }
}

/// The whole vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StateVector {
    /// Where in its life the execution is.
    pub phase: LifecyclePhase,
    /// Who holds it.
    pub ownership: OwnershipState,
    /// Whether it may be claimed.
    pub eligibility: EligibilityState,
    /// What it waits for.
    pub reason: BlockingReason,
    /// How it ended.
    pub outcome: TerminalOutcome,
    /// Where its attempt stands.
    pub attempt: AttemptState,
    /// What users see.
    pub public: PublicState,
}

impl StateVector {
    /// Names of the fields that hold the vector, in the order of the struct.
    pub const FIELDS: [&'static str; 7] = [
        "lifecycle_phase",
        "ownership_state",
        "eligibility_state",
        "blocking_reason",
        "terminal_outcome",
        "attempt_state",
        "public_state",
    ];

    /// Reads the seven fields, in the order of [`Self::FIELDS`].
    ///
    /// # Errors
    /// The first field that is no word of its dimension.
    pub fn read(fields: [&str; 7]) -> Result<Self, crate::error::UnknownWord> {
        let [phase, ownership, eligibility, reason, outcome, attempt, public] = fields;
        Ok(Self {
            phase: phase.parse()?,
            ownership: ownership.parse()?,
            eligibility: eligibility.parse()?,
            reason: reason.parse()?,
            outcome: outcome.parse()?,
            attempt: attempt.parse()?,
            public: public.parse()?,
        })
    }

    /// Whether the execution has ended.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        self.phase == LifecyclePhase::Terminal
    }

    /// The public state that follows from the other dimensions. The stored one differs in a single
    /// case: whatever admission holds back is stored as `rate_limited`.
    #[must_use]
    pub fn derived_public(&self) -> PublicState {
        match self.phase {
            LifecyclePhase::Terminal => match self.outcome {
                TerminalOutcome::Success => PublicState::Completed,
                TerminalOutcome::Failed | TerminalOutcome::None => PublicState::Failed,
                TerminalOutcome::Cancelled => PublicState::Cancelled,
                TerminalOutcome::Expired => PublicState::Expired,
                TerminalOutcome::Skipped => PublicState::Skipped,
            },
            LifecyclePhase::Suspended => PublicState::Suspended,
            LifecyclePhase::Active => PublicState::Active,
            LifecyclePhase::Submitted => PublicState::Waiting,
            LifecyclePhase::Runnable => match self.eligibility {
                EligibilityState::NotEligibleUntilTime => PublicState::Delayed,
                EligibilityState::BlockedByDependencies => PublicState::WaitingChildren,
                EligibilityState::BlockedByBudget | EligibilityState::BlockedByQuota => {
                    PublicState::RateLimited
                }
                EligibilityState::EligibleNow
                | EligibilityState::BlockedByRoute
                | EligibilityState::BlockedByLaneState
                | EligibilityState::BlockedByOperator
                | EligibilityState::NotApplicable => PublicState::Waiting,
            },
        }
    }

    /// The one lane index that an execution in this state must be in. None where the contract
    /// defines none: held by its lane's state, or a vector that is not legal.
    #[must_use]
    pub fn home(&self) -> Option<LaneIndex> {
        match self.phase {
            LifecyclePhase::Active => Some(LaneIndex::Active),
            LifecyclePhase::Suspended => Some(LaneIndex::Suspended),
            LifecyclePhase::Terminal => Some(LaneIndex::Terminal),
            LifecyclePhase::Submitted => None,
            LifecyclePhase::Runnable => match self.eligibility {
                EligibilityState::EligibleNow => Some(LaneIndex::Eligible),
                EligibilityState::NotEligibleUntilTime => Some(LaneIndex::Delayed),
                EligibilityState::BlockedByDependencies => Some(LaneIndex::BlockedDependencies),
                EligibilityState::BlockedByBudget => Some(LaneIndex::BlockedBudget),
                EligibilityState::BlockedByQuota => Some(LaneIndex::BlockedQuota),
                EligibilityState::BlockedByRoute => Some(LaneIndex::BlockedRoute),
                EligibilityState::BlockedByOperator => Some(LaneIndex::BlockedOperator),
                EligibilityState::BlockedByLaneState | EligibilityState::NotApplicable => None,
            },
        }
    }
}
