use alloc::string::String;
use alloc::vec::Vec;

use super::Claimed;
use crate::call::args::args;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::{
    AttemptId, AttemptIndex, ExecutionId, LaneId, LeaseId, WorkerId, WorkerInstanceId,
};
use crate::key::{Key, LaneIndex};

/// Takes over an expired or revoked lease with a new attempt, or ends the execution at its cap.
#[derive(Clone, Debug)]
pub struct ReclaimExecution {
    /// The execution.
    pub execution_id: ExecutionId,
    /// The worker whose grant is used.
    pub worker_id: WorkerId,
    /// The instance that will hold the lease.
    pub worker_instance_id: WorkerInstanceId,
    /// The execution's lane.
    pub lane: LaneId,
    /// The attempt that lost its lease.
    pub lost_attempt_index: AttemptIndex,
    /// The new lease.
    pub lease_id: LeaseId,
    /// How long it is valid.
    pub lease_ttl_ms: u64,
    /// The new attempt.
    pub attempt_id: AttemptId,
    /// Policy to freeze for the attempt, as JSON; empty for none.
    pub attempt_policy_json: String,
    /// The cap if the policy sets none.
    pub default_max_reclaim_count: Option<u32>,
}

impl Function for ReclaimExecution {
    const NAME: &'static str = "ff_reclaim_execution";
    const KEYS: &'static [&'static str] = &[
        "exec_core",
        "claim_grant",
        "attempt",
        "stream_meta",
        "new_attempt",
        "new_attempt_usage",
        "attempts",
        "lease_current",
        "lease_history",
        "lease_expiry",
        "worker_leases",
        "active",
        "attempt_timeout",
        "execution_deadline",
    ];
    const ARGS: &'static [&'static str] = &[
        "execution_id",
        "worker_id",
        "worker_instance_id",
        "lane",
        "lease_id",
        "lease_ttl_ms",
        "attempt_id",
        "attempt_policy_json",
        "default_max_reclaim_count",
    ];

    type Reply = Claimed;

    fn keys(&self) -> Vec<Key> {
        let execution = Key::execution(&self.execution_id);
        let partition = self.execution_id.partition();
        let index = Key::index(partition);
        alloc::vec![
            execution.core(),
            execution.claim_grant(),
            execution.attempt(self.lost_attempt_index),
            execution.stream_meta(self.lost_attempt_index),
            Key::Noop(partition),
            Key::Noop(partition),
            execution.attempts(),
            execution.lease(),
            execution.lease_history(),
            index.lease_expiry(),
            index.worker_leases(&self.worker_instance_id),
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
            self.lease_id,
            self.lease_ttl_ms,
            self.attempt_id,
            self.attempt_policy_json,
            self.default_max_reclaim_count,
        ]
    }

    fn read(envelope: Envelope) -> Result<Claimed, CallError> {
        Claimed::read(envelope.ok()?)
    }
}
