use alloc::string::String;
use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::{
    AttemptId, AttemptIndex, ExecutionId, LaneId, LeaseEpoch, LeaseId, WorkerId, WorkerInstanceId,
};
use crate::key::{Key, LaneIndex};
use crate::time::ServerTime;

/// An operator's claim: grant and claim in one call.
#[derive(Clone, Debug)]
pub struct IssueGrantAndClaim {
    /// The execution.
    pub execution_id: ExecutionId,
    /// Who claims it.
    pub worker_id: WorkerId,
    /// The instance that claims it.
    pub worker_instance_id: WorkerInstanceId,
    /// The execution's lane.
    pub lane: LaneId,
    /// The new lease.
    pub lease_id: LeaseId,
    /// How long the lease is valid.
    pub lease_ttl_ms: u64,
    /// The new attempt; an interrupted execution keeps its own.
    pub attempt_id: AttemptId,
    /// Policy to freeze for the attempt, as JSON; empty for none.
    pub attempt_policy_json: String,
    /// How long the attempt may take; the execution's policy holds otherwise.
    pub attempt_timeout_ms: Option<u64>,
    /// When the execution must have ended; the execution's policy holds otherwise.
    pub execution_deadline_at: Option<ServerTime>,
}

/// The result of an operator's claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperatorClaim {
    /// The lease.
    pub lease_id: LeaseId,
    /// Its epoch.
    pub lease_epoch: LeaseEpoch,
    /// The attempt that runs under it.
    pub attempt_index: AttemptIndex,
}

impl Function for IssueGrantAndClaim {
    const NAME: &'static str = "ff_issue_grant_and_claim";
    const KEYS: &'static [&'static str] = &[
        "exec_core",
        "claim_grant",
        "eligible",
        "lease_expiry",
        "worker_leases",
        "attempts",
        "lease_current",
        "lease_history",
        "active",
        "attempt_timeout",
        "execution_deadline",
    ];
    const ARGS: &'static [&'static str] = &[
        "execution_id",
        "worker_id",
        "worker_instance_id",
        "lane",
        "capability_snapshot_hash",
        "lease_id",
        "lease_ttl_ms",
        "attempt_id",
        "attempt_policy_json",
        "attempt_timeout_ms",
        "execution_deadline_at",
    ];

    type Reply = OperatorClaim;

    fn keys(&self) -> Vec<Key> {
        let execution = Key::execution(&self.execution_id);
        let index = Key::index(self.execution_id.partition());
        alloc::vec![
            execution.core(),
            execution.claim_grant(),
            index.lane(&self.lane, LaneIndex::Eligible),
            index.lease_expiry(),
            index.worker_leases(&self.worker_instance_id),
            execution.attempts(),
            execution.lease(),
            execution.lease_history(),
            index.lane(&self.lane, LaneIndex::Active),
            index.attempt_timeout(),
            index.execution_deadline(),
        ]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![
            self.execution_id,
            self.worker_id,
            self.worker_instance_id,
            self.lane,
            "",
            self.lease_id,
            self.lease_ttl_ms,
            self.attempt_id,
            self.attempt_policy_json,
            self.attempt_timeout_ms,
            self.execution_deadline_at,
        ]
    }

    fn read(envelope: Envelope) -> Result<OperatorClaim, CallError> {
        let mut fields = envelope.ok()?;
        Ok(OperatorClaim {
            lease_id: fields.parse("a lease id")?,
            lease_epoch: fields.parse("a lease epoch")?,
            attempt_index: fields.parse("an attempt index")?,
        })
    }
}
