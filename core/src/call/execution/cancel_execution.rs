use alloc::string::String;
use alloc::vec::Vec;

use super::Running;
use crate::call::args::args;
use crate::call::{Envelope, Function};
use crate::command::Command;
use crate::error::CallError;
use crate::id::{
    AttemptIndex, ExecutionId, LaneId, LeaseEpoch, LeaseId, WaitpointId, WorkerInstanceId,
};
use crate::key::{Key, LaneIndex};
use crate::state::LifecyclePhase;

/// Cancels an execution in any phase but the last.
#[derive(Clone, Debug)]
pub struct CancelExecution {
    /// What is cancelled, as far as the caller knows it.
    pub running: Running,
    /// The waitpoint that it is suspended on, if any.
    pub waitpoint_id: Option<WaitpointId>,
    /// Why.
    pub reason: String,
    /// Who asks: `operator_override`, `lease_holder`, `flow_cascade`, `system_timeout` or any text.
    pub source: String,
    /// The lease that the caller holds, if it does.
    pub lease: Option<(LeaseId, LeaseEpoch)>,
}

impl CancelExecution {
    /// The fields of an execution's record that [`of_record`](Self::of_record) needs, in order.
    pub const RECORD_FIELDS: [&'static str; 4] =
        ["lane_id", "current_attempt_index", "current_waitpoint_id", "current_worker_instance_id"];

    /// The read of these fields.
    #[must_use]
    pub fn record_read(execution_id: &ExecutionId) -> Command {
        let names = Self::RECORD_FIELDS.map(str::as_bytes);
        Command::read("HMGET", &Key::execution(execution_id).core(), &names)
    }

    /// The call that cancels an execution with this record, without a lease. What cannot be read is
    /// filled in: the function goes by the record that it finds.
    #[must_use]
    pub fn of_record(
        execution_id: ExecutionId,
        record: [&str; 4],
        reason: &str,
        source: &str,
    ) -> Self {
        let [lane, attempt, waitpoint, worker] = record;
        Self {
            running: Running {
                execution_id,
                attempt_index: attempt.parse().unwrap_or(AttemptIndex(0)),
                lane: lane.parse().unwrap_or_else(|_| LaneId::default_lane()),
                worker_instance_id: WorkerInstanceId::new(worker),
            },
            waitpoint_id: waitpoint.parse().ok(),
            reason: reason.into(),
            source: source.into(),
            lease: None,
        }
    }
}

impl Function for CancelExecution {
    const NAME: &'static str = "ff_cancel_execution";
    const KEYS: &'static [&'static str] = &[
        "exec_core",
        "attempt",
        "stream_meta",
        "lease_current",
        "lease_history",
        "lease_expiry",
        "worker_leases",
        "suspension_current",
        "waitpoint",
        "wp_condition",
        "suspension_timeout",
        "terminal",
        "attempt_timeout",
        "execution_deadline",
        "eligible",
        "delayed",
        "blocked_dependencies",
        "blocked_budget",
        "blocked_quota",
        "blocked_route",
        "blocked_operator",
    ];
    const ARGS: &'static [&'static str] =
        &["execution_id", "reason", "source", "lease_id", "lease_epoch"];

    /// The phase that it was cancelled in.
    type Reply = LifecyclePhase;

    fn keys(&self) -> Vec<Key> {
        let (execution, index) = (self.running.execution(), self.running.index());
        let partition = self.running.execution_id.partition();
        let waitpoint = |build: fn(_, _) -> Key| {
            self.waitpoint_id.map_or(Key::Noop(partition), |id| build(partition, id))
        };
        let mut keys = alloc::vec![
            execution.core(),
            self.running.attempt(),
            self.running.stream_meta(),
            execution.lease(),
            execution.lease_history(),
            index.lease_expiry(),
            self.running.worker_leases(),
            execution.suspension(),
            waitpoint(Key::waitpoint),
            waitpoint(Key::waitpoint_condition),
            index.suspension_timeout(),
            self.running.lane(LaneIndex::Terminal),
            index.attempt_timeout(),
            index.execution_deadline(),
        ];
        keys.extend(
            [
                LaneIndex::Eligible,
                LaneIndex::Delayed,
                LaneIndex::BlockedDependencies,
                LaneIndex::BlockedBudget,
                LaneIndex::BlockedQuota,
                LaneIndex::BlockedRoute,
                LaneIndex::BlockedOperator,
            ]
            .map(|index| self.running.lane(index)),
        );
        keys
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![
            self.running.execution_id,
            self.reason,
            self.source,
            self.lease.map(|(id, _)| id),
            self.lease.map(|(_, epoch)| epoch),
        ]
    }

    fn read(envelope: Envelope) -> Result<LifecyclePhase, CallError> {
        let mut fields = envelope.ok()?;
        fields.expect("cancelled")?;
        fields.parse("a phase")
    }
}
