use alloc::string::String;
use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::{Envelope, Fields, Function};
use crate::error::CallError;
use crate::id::{
    AttemptId, AttemptIndex, ExecutionId, Fence, LaneId, LeaseId, WorkerId, WorkerInstanceId,
};
use crate::key::{Key, LaneIndex};
use crate::time::ServerTime;

/// Spends a claim grant: opens the next attempt under a new lease.
///
/// Repeating the call with the same lease and attempt id while that lease stands gives the same
/// answer, so a lost reply loses nothing.
#[derive(Clone, Debug)]
pub struct ClaimExecution {
    /// The execution.
    pub execution_id: ExecutionId,
    /// The worker whose grant is used.
    pub worker_id: WorkerId,
    /// The instance that will hold the lease.
    pub worker_instance_id: WorkerInstanceId,
    /// The execution's lane.
    pub lane: LaneId,
    /// The new lease.
    pub lease_id: LeaseId,
    /// How long it is valid.
    pub lease_ttl_ms: u64,
    /// After how long it should be renewed.
    pub renew_before_ms: u64,
    /// The new attempt.
    pub attempt_id: AttemptId,
    /// Policy to freeze for the attempt, as JSON; empty for none.
    pub attempt_policy_json: String,
    /// How long the attempt may take; the execution's policy holds otherwise.
    pub attempt_timeout_ms: Option<u64>,
    /// When the execution must have ended; the execution's policy holds otherwise.
    pub execution_deadline_at: Option<ServerTime>,
}

/// A lease on a running attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// The fence that the holder sends with every call.
    pub fence: Fence,
    /// When the lease ends unless it is renewed.
    pub lease_expires_at: ServerTime,
    /// The attempt.
    pub attempt_index: AttemptIndex,
    /// `initial`, `retry`, `replay`, `reclaim` or `resumed`.
    pub attempt_type: String,
}

impl Claimed {
    pub(crate) fn read(mut fields: Fields) -> Result<Self, CallError> {
        let lease_id = fields.parse("a lease id")?;
        let lease_epoch = fields.parse("a lease epoch")?;
        let lease_expires_at = fields.parse("when the lease ends")?;
        let attempt_id = fields.parse("an attempt id")?;
        Ok(Self {
            fence: Fence { lease_id, lease_epoch, attempt_id },
            lease_expires_at,
            attempt_index: fields.parse("an attempt index")?,
            attempt_type: fields.text()?,
        })
    }
}

impl Function for ClaimExecution {
    const NAME: &'static str = "ff_claim_execution";
    const KEYS: &'static [&'static str] = &[
        "exec_core",
        "claim_grant",
        "eligible",
        "lease_expiry",
        "worker_leases",
        "attempt",
        "attempt_usage",
        "attempt_policy",
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
        "renew_before_ms",
        "attempt_id",
        "attempt_policy_json",
        "attempt_timeout_ms",
        "execution_deadline_at",
    ];

    type Reply = Claimed;

    fn keys(&self) -> Vec<Key> {
        let execution = Key::execution(&self.execution_id);
        let partition = self.execution_id.partition();
        let index = Key::index(partition);
        alloc::vec![
            execution.core(),
            execution.claim_grant(),
            index.lane(&self.lane, LaneIndex::Eligible),
            index.lease_expiry(),
            index.worker_leases(&self.worker_instance_id),
            Key::Noop(partition),
            Key::Noop(partition),
            Key::Noop(partition),
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
            self.renew_before_ms,
            self.attempt_id,
            self.attempt_policy_json,
            self.attempt_timeout_ms,
            self.execution_deadline_at,
        ]
    }

    fn read(envelope: Envelope) -> Result<Claimed, CallError> {
        Claimed::read(envelope.ok()?)
    }
}
