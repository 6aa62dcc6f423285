use alloc::string::String;
use alloc::vec::Vec;

use super::Running;
use crate::call::args::args;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::{LeaseEpoch, LeaseId, WaitpointId};
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
