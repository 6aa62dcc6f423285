use alloc::string::String;
use alloc::vec::Vec;

use super::waitpoint::{BoundWaitpoint, NewWaitpoint, count_arg, read_counted};
use crate::call::args::args;
use crate::call::{Envelope, Fields, Function, ToArg};
use crate::error::CallError;
use crate::id::{
    AttemptIndex, ExecutionId, Fence, LaneId, SuspensionId, WaitpointId, WorkerInstanceId,
};
use crate::key::{Key, LaneIndex};
use crate::time::ServerTime;

wire_enum! {
    /// Why an execution suspends.
    #[non_exhaustive]
    pub enum SuspensionReason {
        /// A signal must come.
        WaitingForSignal = "waiting_for_signal",
        /// Somebody must approve.
        WaitingForApproval = "waiting_for_approval",
        /// Another system must call back.
        WaitingForCallback = "waiting_for_callback",
        /// A tool must answer.
        WaitingForToolResult = "waiting_for_tool_result",
        /// An operator must look at it.
        WaitingForOperatorReview = "waiting_for_operator_review",
        /// A policy pauses it.
        PausedByPolicy = "paused_by_policy",
        /// Its budget pauses it.
        PausedByBudget = "paused_by_budget",
        /// A step ended.
        StepBoundary = "step_boundary",
        /// Somebody paused it by hand.
        ManualPause = "manual_pause",
    }
}

wire_enum! {
    /// Who asks for a suspension.
    pub enum SuspensionRequester {
        /// The worker that runs it.
        Worker = "worker",
        /// An operator.
        Operator = "operator",
        /// A policy.
        Policy = "policy",
        /// The system, because of a timeout.
        SystemTimeoutPolicy = "system_timeout_policy",
    }
}

wire_enum! {
    /// What happens when a suspension times out.
    #[non_exhaustive]
    pub enum TimeoutBehavior {
        /// The execution fails.
        Fail = "fail",
        /// The execution is cancelled.
        Cancel = "cancel",
        /// The execution expires.
        Expire = "expire",
        /// The execution continues to run.
        AutoResume = "auto_resume_with_timeout_signal",
        /// An operator decides.
        Escalate = "escalate",
    }
}

/// What a suspension waits on.
#[derive(Clone, Debug)]
pub enum SuspendOn {
    /// New waitpoints: one, and perhaps more for a composite condition.
    New {
        /// The first one.
        primary: NewWaitpoint,
        /// The other keys.
        additional: Vec<NewWaitpoint>,
    },
    /// A waitpoint that was created ahead.
    Pending(WaitpointId),
}

/// Makes repeats of one suspend harmless.
#[derive(Clone, Debug)]
pub struct SuspendIdempotency {
    /// The caller's key.
    pub key: String,
    /// How long the outcome is remembered.
    pub ttl_ms: u64,
}

/// Releases the lease of an active execution and suspends it.
#[derive(Clone, Debug)]
pub struct SuspendExecution {
    /// The execution.
    pub execution_id: ExecutionId,
    /// Its lane.
    pub lane: LaneId,
    /// The instance that holds it.
    pub worker_instance_id: WorkerInstanceId,
    /// The attempt that runs.
    pub attempt_index: AttemptIndex,
    /// The lease it runs under.
    pub fence: Fence,
    /// Id of the new suspension.
    pub suspension_id: SuspensionId,
    /// What it waits on.
    pub on: SuspendOn,
    /// Why.
    pub reason: SuspensionReason,
    /// Who asks for it.
    pub requested_by: SuspensionRequester,
    /// When it times out, if ever.
    pub timeout_at: Option<ServerTime>,
    /// What happens then.
    pub timeout_behavior: TimeoutBehavior,
    /// The resume condition as JSON.
    pub resume_condition_json: String,
    /// The resume policy as JSON.
    pub resume_policy_json: String,
    /// Where the worker keeps what it needs to go on.
    pub continuation_metadata_pointer: Option<String>,
    /// How many events the lease history keeps, about.
    pub lease_history_maxlen: u32,
    /// Whether a repeat gets the first outcome again.
    pub idempotency: Option<SuspendIdempotency>,
}

/// The result of a suspension; the primary waitpoint comes first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Suspended {
    /// The execution waits; its lease is gone.
    Waiting {
        /// The suspension.
        suspension_id: SuspensionId,
        /// Its waitpoints.
        waitpoints: Vec<BoundWaitpoint>,
    },
    /// Signals that came ahead met the condition: the execution runs on under its lease.
    AlreadySatisfied {
        /// The suspension that did not happen.
        suspension_id: SuspensionId,
        /// Its waitpoint, closed.
        waitpoints: Vec<BoundWaitpoint>,
    },
}

impl SuspendExecution {
    fn waitpoint_id(&self) -> WaitpointId {
        match &self.on {
            SuspendOn::New { primary, .. } => primary.id,
            SuspendOn::Pending(id) => *id,
        }
    }

    fn additional(&self) -> &[NewWaitpoint] {
        match &self.on {
            SuspendOn::New { additional, .. } => additional,
            SuspendOn::Pending(_) => &[],
        }
    }
}

impl Function for SuspendExecution {
    const NAME: &'static str = "ff_suspend_execution";
    const KEYS: &'static [&'static str] = &[
        "exec_core",
        "attempt",
        "lease_current",
        "lease_history",
        "lease_expiry",
        "worker_leases",
        "suspension",
        "waitpoint",
        "wp_signals",
        "suspension_timeout",
        "pending_wp_expiry",
        "active",
        "suspended",
        "waitpoints",
        "wp_condition",
        "attempt_timeout",
        "hmac",
        "suspend_dedup",
    ];
    const ARGS: &'static [&'static str] = &[
        "execution_id",
        "attempt_index",
        "attempt_id",
        "lease_id",
        "lease_epoch",
        "suspension_id",
        "waitpoint_id",
        "waitpoint_key",
        "reason_code",
        "requested_by",
        "timeout_at",
        "resume_condition_json",
        "resume_policy_json",
        "continuation_metadata_pointer",
        "use_pending_waitpoint",
        "timeout_behavior",
        "lease_history_maxlen",
        "idempotency_key",
        "dedup_ttl_ms",
        "num_extra_waitpoints",
    ];

    type Reply = Suspended;

    fn keys(&self) -> Vec<Key> {
        let partition = self.execution_id.partition();
        let execution = Key::execution(&self.execution_id);
        let index = Key::index(partition);
        let waitpoint = self.waitpoint_id();
        let dedup = match &self.idempotency {
            Some(once) => execution.suspend_dedup(once.key.as_str()),
            None => Key::Noop(partition),
        };
        let mut keys = alloc::vec![
            execution.core(),
            execution.attempt(self.attempt_index),
            execution.lease(),
            execution.lease_history(),
            index.lease_expiry(),
            index.worker_leases(&self.worker_instance_id),
            execution.suspension(),
            Key::waitpoint(partition, waitpoint),
            Key::waitpoint_signals(partition, waitpoint),
            index.suspension_timeout(),
            index.pending_waitpoint_expiry(),
            index.lane(&self.lane, LaneIndex::Active),
            index.lane(&self.lane, LaneIndex::Suspended),
            execution.waitpoints(),
            Key::waitpoint_condition(partition, waitpoint),
            index.attempt_timeout(),
            Key::WaitpointSecrets(partition),
            dedup,
        ];
        for extra in self.additional() {
            keys.push(Key::waitpoint(partition, extra.id));
            keys.push(Key::waitpoint_signals(partition, extra.id));
            keys.push(Key::waitpoint_condition(partition, extra.id));
        }
        keys
    }

    fn args(&self) -> Vec<Vec<u8>> {
        let (key, pending) = match &self.on {
            SuspendOn::New { primary, .. } => (Some(&primary.key), "0"),
            SuspendOn::Pending(_) => (None, "1"),
        };
        let mut args = args![
            self.execution_id,
            self.attempt_index,
            self.fence.attempt_id,
            self.fence.lease_id,
            self.fence.lease_epoch,
            self.suspension_id,
            self.waitpoint_id(),
            key,
            self.reason.as_str(),
            self.requested_by.as_str(),
            self.timeout_at,
            self.resume_condition_json,
            self.resume_policy_json,
            self.continuation_metadata_pointer,
            pending,
            self.timeout_behavior.as_str(),
            self.lease_history_maxlen,
            self.idempotency.as_ref().map(|once| once.key.as_str()),
            self.idempotency.as_ref().map_or(0, |once| once.ttl_ms),
            count_arg(self.additional()),
        ];
        for extra in self.additional() {
            args.push(extra.id.to_arg());
            args.push(extra.key.to_arg());
        }
        args
    }

    fn read(envelope: Envelope) -> Result<Suspended, CallError> {
        match envelope.status.as_str() {
            "OK" => {
                let (suspension_id, waitpoints) = outcome(envelope.fields)?;
                Ok(Suspended::Waiting { suspension_id, waitpoints })
            }
            "ALREADY_SATISFIED" => {
                let (suspension_id, waitpoints) = outcome(envelope.fields)?;
                Ok(Suspended::AlreadySatisfied { suspension_id, waitpoints })
            }
            _ => Err(envelope.unexpected()),
        }
    }
}

fn outcome(mut fields: Fields) -> Result<(SuspensionId, Vec<BoundWaitpoint>), CallError> {
    let suspension_id = fields.parse("a suspension id")?;
    let mut waitpoints = alloc::vec![BoundWaitpoint::read(&mut fields)?];
    waitpoints.extend(read_counted(&mut fields)?);
    Ok((suspension_id, waitpoints))
}
