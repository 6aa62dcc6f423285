use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::{
    AttemptId, AttemptIndex, ExecutionId, LaneId, LeaseEpoch, LeaseId, WorkerId, WorkerInstanceId,
};
use crate::key::{Key, LaneIndex};
use crate::time::ServerTime;

/// Takes a new lease on the same attempt after a resume.
#[derive(Clone, Debug)]
pub struct ClaimResumedExecution {
    /// The execution.
    pub execution_id: ExecutionId,
    /// Its lane.
    pub lane: LaneId,
    /// The worker that the grant names.
    pub worker_id: WorkerId,
    /// The instance that will hold it.
    pub worker_instance_id: WorkerInstanceId,
    /// The attempt it is at, as its record says.
    pub attempt_index: AttemptIndex,
    /// Id of the new lease.
    pub lease_id: LeaseId,
    /// How long the lease lasts.
    pub lease_ttl_ms: u64,
    /// How long the attempt may still run; what it had left otherwise.
    pub remaining_attempt_timeout_ms: Option<u64>,
}

/// The lease on a resumed attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResumedClaim {
    /// The lease.
    pub lease_id: LeaseId,
    /// Its number.
    pub lease_epoch: LeaseEpoch,
    /// When it ends unless it is renewed.
    pub expires_at: ServerTime,
    /// The attempt that runs on.
    pub attempt_id: AttemptId,
    /// Its index.
    pub attempt_index: AttemptIndex,
}

impl Function for ClaimResumedExecution {
    const NAME: &'static str = "ff_claim_resumed_execution";
    const KEYS: &'static [&'static str] = &[
        "exec_core",
        "claim_grant",
        "eligible",
        "lease_expiry",
        "worker_leases",
        "attempt",
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
        "remaining_attempt_timeout_ms",
    ];

    type Reply = ResumedClaim;

    fn keys(&self) -> Vec<Key> {
        let execution = Key::execution(&self.execution_id);
        let index = Key::index(self.execution_id.partition());
        alloc::vec![
            execution.core(),
            execution.claim_grant(),
            index.lane(&self.lane, LaneIndex::Eligible),
            index.lease_expiry(),
            index.worker_leases(&self.worker_instance_id),
            execution.attempt(self.attempt_index),
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
            self.remaining_attempt_timeout_ms,
        ]
    }

    fn read(envelope: Envelope) -> Result<ResumedClaim, CallError> {
        let mut fields = envelope.ok()?;
        let claim = ResumedClaim {
            lease_id: fields.parse("a lease id")?,
            lease_epoch: fields.parse("a lease epoch")?,
            expires_at: fields.parse("a time")?,
            attempt_id: fields.parse("an attempt id")?,
            attempt_index: fields.parse("an attempt index")?,
        };
        fields.expect("resumed")?;
        Ok(claim)
    }
}
