//! The codes of the contract's error tuples.

use alloc::string::String;

/// How callers treat a code, as the contract classifies it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetryClass {
    /// Repeating the call cannot help.
    Terminal,
    /// The same call may pass later.
    Retryable,
    /// A normal state of affairs; nothing is wrong.
    Informational,
    /// A caller broke a rule.
    Bug,
}

wire_enum! {
    /// Every code that the library answers with.
    pub enum Code {
        /// An attempt is open already.
        ActiveAttemptExists = "active_attempt_exists",
        /// One binding of an additional waitpoint cannot be read.
        AdditionalWaitpointBindingMalformed = "additional_waitpoint_binding_malformed",
        /// The execution belongs to another flow; the detail is that flow.
        AlreadyMemberOfDifferentFlow = "already_member_of_different_flow",
        /// A suspension is open already.
        AlreadySuspended = "already_suspended",
        /// The worker lacks capabilities; the detail lists them.
        CapabilityMismatch = "capability_mismatch",
        /// The grant's time is over.
        ClaimGrantExpired = "claim_grant_expired",
        /// A stored document cannot be read.
        Corruption = "corruption",
        /// The edge would close a cycle, or the graph is too large to be sure.
        CycleDetected = "cycle_detected",
        /// The edge is there already.
        DependencyAlreadyExists = "dependency_already_exists",
        /// Dependencies are still open; the details count them.
        DepsNotSatisfied = "deps_not_satisfied",
        /// The execution is a member of a flow already.
        ExecutionAlreadyInFlow = "execution_already_in_flow",
        /// The execution is not active; the details say what it is instead.
        ExecutionNotActive = "execution_not_active",
        /// The execution cannot be granted now.
        ExecutionNotEligible = "execution_not_eligible",
        /// No such execution.
        ExecutionNotFound = "execution_not_found",
        /// The execution is not in the eligible index.
        ExecutionNotInEligibleSet = "execution_not_in_eligible_set",
        /// The execution is no member of the flow.
        ExecutionNotInFlow = "execution_not_in_flow",
        /// The execution cannot be leased now.
        ExecutionNotLeaseable = "execution_not_leaseable",
        /// The execution has no lost lease.
        ExecutionNotReclaimable = "execution_not_reclaimable",
        /// The execution is not suspended.
        ExecutionNotSuspended = "execution_not_suspended",
        /// The execution has not ended.
        ExecutionNotTerminal = "execution_not_terminal",
        /// The call needs a fence.
        FenceRequired = "fence_required",
        /// The flow has ended.
        FlowAlreadyTerminal = "flow_already_terminal",
        /// No such flow.
        FlowNotFound = "flow_not_found",
        /// Somebody holds a grant already.
        GrantAlreadyExists = "grant_already_exists",
        /// No signing secret is installed.
        HmacSecretNotInitialized = "hmac_secret_not_initialized",
        /// Arguments are missing.
        InvalidArgs = "invalid_args",
        /// No such block reason.
        InvalidBlockingReason = "invalid_blocking_reason",
        /// A capability list breaks its rules; the detail says how.
        InvalidCapabilities = "invalid_capabilities",
        /// No such grant, or another worker's.
        InvalidClaimGrant = "invalid_claim_grant",
        /// The dependency cannot be read.
        InvalidDependency = "invalid_dependency",
        /// The grace period is no whole number in range.
        InvalidGraceMs = "invalid_grace_ms",
        /// An argument cannot be used; the detail names it.
        InvalidInput = "invalid_input",
        /// The key of the signing secrets is missing.
        InvalidKeysMissingHmac = "invalid_keys_missing_hmac",
        /// A kid is empty or has a colon.
        InvalidKid = "invalid_kid",
        /// The lease does not allow to suspend.
        InvalidLeaseForSuspend = "invalid_lease_for_suspend",
        /// The policy cannot be read; the detail says where.
        InvalidPolicyJson = "invalid_policy_json",
        /// A stored secret is no hex.
        InvalidSecret = "invalid_secret",
        /// The new secret is no hex.
        InvalidSecretHex = "invalid_secret_hex",
        /// A tag key breaks its rule; the detail is the key.
        InvalidTagKey = "invalid_tag_key",
        /// The waitpoint token does not verify.
        InvalidToken = "invalid_token",
        /// The waitpoint belongs to another execution or attempt.
        InvalidWaitpointForExecution = "invalid_waitpoint_for_execution",
        /// Counters of an edge group contradict each other; the detail shows them.
        InvariantViolation = "invariant_violation",
        /// Somebody holds the lease.
        LeaseConflict = "lease_conflict",
        /// The lease's time is over; the execution is marked so.
        LeaseExpired = "lease_expired",
        /// The lease was taken away.
        LeaseRevoked = "lease_revoked",
        /// The execution was replayed as often as it may be.
        MaxReplaysExhausted = "max_replays_exhausted",
        /// The reclaim cap is reached; the execution has ended. The detail is the cap.
        MaxRetriesExhausted = "max_retries_exhausted",
        /// A signal without token.
        MissingToken = "missing_token",
        /// There is no lease to act on.
        NoActiveLease = "no_active_lease",
        /// The execution is not resumed work.
        NotAResumedExecution = "not_a_resumed_execution",
        /// The execution is not held back by dependencies.
        NotBlockedByDeps = "not_blocked_by_deps",
        /// The execution is not runnable.
        NotRunnable = "not_runnable",
        /// Some parts of the fence are missing.
        PartialFenceTriple = "partial_fence_triple",
        /// The pending waitpoint's time is over.
        PendingWaitpointExpired = "pending_waitpoint_expired",
        /// The stream's retention does not allow the frame.
        RetentionLimitExceeded = "retention_limit_exceeded",
        /// The kid is installed with another secret; the detail is the kid.
        RotationConflict = "rotation_conflict",
        /// An edge from an execution to itself.
        SelfReferencingEdge = "self_referencing_edge",
        /// The execution has had as many signals as it may.
        SignalLimitExceeded = "signal_limit_exceeded",
        /// The graph has changed since it was read.
        StaleGraphRevision = "stale_graph_revision",
        /// The lease is not the current one.
        StaleLease = "stale_lease",
        /// A former holder tries to append.
        StaleOwnerCannotAppend = "stale_owner_cannot_append",
        /// The stream is closed.
        StreamClosed = "stream_closed",
        /// The execution cannot take a signal any more.
        TargetNotSignalable = "target_not_signalable",
        /// The execution has ended.
        TerminalExecution = "terminal",
        /// The token's kid has run out.
        TokenExpired = "token_expired",
        /// Interrupted work: claim it as resumed.
        UseClaimResumedExecution = "use_claim_resumed_execution",
        /// A pending waitpoint cannot be used together with additional ones.
        UsePendingWithExtrasUnsupported = "use_pending_with_extras_unsupported",
        /// The waitpoint is there already.
        WaitpointAlreadyExists = "waitpoint_already_exists",
        /// The waitpoint is closed.
        WaitpointClosed = "waitpoint_closed",
        /// No such waitpoint.
        WaitpointNotFound = "waitpoint_not_found",
        /// The waitpoint is not open.
        WaitpointNotOpen = "waitpoint_not_open",
        /// The waitpoint is not pending.
        WaitpointNotPending = "waitpoint_not_pending",
        /// The waitpoint has no token.
        WaitpointNotTokenBound = "waitpoint_not_token_bound",
        /// The waitpoint is still pending: buffer the signal.
        WaitpointPendingUseBufferScript = "waitpoint_pending_use_buffer_script",
    }
}

/// This code carries its detail in its own text, after a colon.
const MEMBER_ELSEWHERE: &str = "already_member_of_different_flow:";

impl Code {
    /// The code in `text`, and the detail that is part of the text for the one code that has it.
    #[must_use]
    pub fn read(text: &str) -> Option<(Self, Option<String>)> {
        if let Some(flow) = text.strip_prefix(MEMBER_ELSEWHERE) {
            return Some((Self::AlreadyMemberOfDifferentFlow, Some(flow.into())));
        }
        text.parse().ok().map(|code| (code, None))
    }

    /// How callers treat this code.
    #[must_use]
    pub const fn retry_class(self) -> RetryClass {
        match self {
            Self::ActiveAttemptExists => RetryClass::Bug,
            Self::NoActiveLease
            | Self::ExecutionNotEligible
            | Self::ExecutionNotInEligibleSet
            | Self::ExecutionNotReclaimable
            | Self::GrantAlreadyExists
            | Self::ExecutionNotSuspended
            | Self::AlreadySuspended
            | Self::WaitpointClosed
            | Self::WaitpointNotPending
            | Self::PendingWaitpointExpired
            | Self::WaitpointNotOpen
            | Self::WaitpointAlreadyExists
            | Self::DepsNotSatisfied
            | Self::NotBlockedByDeps => RetryClass::Informational,
            Self::UseClaimResumedExecution
            | Self::NotAResumedExecution
            | Self::ExecutionNotLeaseable
            | Self::LeaseConflict
            | Self::InvalidClaimGrant
            | Self::ClaimGrantExpired
            | Self::WaitpointNotFound
            | Self::WaitpointPendingUseBufferScript
            | Self::StaleGraphRevision
            | Self::CapabilityMismatch => RetryClass::Retryable,
            Self::AdditionalWaitpointBindingMalformed
            | Self::AlreadyMemberOfDifferentFlow
            | Self::Corruption
            | Self::CycleDetected
            | Self::DependencyAlreadyExists
            | Self::ExecutionAlreadyInFlow
            | Self::ExecutionNotActive
            | Self::ExecutionNotFound
            | Self::ExecutionNotInFlow
            | Self::ExecutionNotTerminal
            | Self::FenceRequired
            | Self::FlowAlreadyTerminal
            | Self::FlowNotFound
            | Self::HmacSecretNotInitialized
            | Self::InvalidArgs
            | Self::InvalidBlockingReason
            | Self::InvalidCapabilities
            | Self::InvalidDependency
            | Self::InvalidGraceMs
            | Self::InvalidInput
            | Self::InvalidKeysMissingHmac
            | Self::InvalidKid
            | Self::InvalidLeaseForSuspend
            | Self::InvalidPolicyJson
            | Self::InvalidSecret
            | Self::InvalidSecretHex
            | Self::InvalidTagKey
            | Self::InvalidToken
            | Self::InvalidWaitpointForExecution
            | Self::InvariantViolation
            | Self::LeaseExpired
            | Self::LeaseRevoked
            | Self::MaxReplaysExhausted
            | Self::MaxRetriesExhausted
            | Self::MissingToken
            | Self::NotRunnable
            | Self::PartialFenceTriple
            | Self::RetentionLimitExceeded
            | Self::RotationConflict
            | Self::SelfReferencingEdge
            | Self::SignalLimitExceeded
            | Self::StaleLease
            | Self::StaleOwnerCannotAppend
            | Self::StreamClosed
            | Self::TargetNotSignalable
            | Self::TerminalExecution
            | Self::TokenExpired
            | Self::UsePendingWithExtrasUnsupported
            | Self::WaitpointNotTokenBound => RetryClass::Terminal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_reads_back() {
        for &code in Code::ALL {
            assert_eq!(Code::read(code.as_str()), Some((code, None)));
        }
        assert_eq!(Code::read("no_such_code"), None);
    }

    #[test]
    fn a_code_may_carry_its_detail() {
        assert_eq!(
            Code::read("already_member_of_different_flow:f-2"),
            Some((Code::AlreadyMemberOfDifferentFlow, Some("f-2".into())))
        );
    }
}
