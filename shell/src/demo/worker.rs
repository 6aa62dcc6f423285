//! A worker of the demo: claims one task at a time and does what its kind says.

use selvedge_core::call::execution::{
    Authority, CompleteExecution, DelayExecution, FailExecution, Failure, Running,
};
use selvedge_core::call::scheduling::{ClaimNext, ClaimNextReply, ClaimedWork};
use selvedge_core::call::signal::{DeliverSignal, IncomingSignal};
use selvedge_core::call::suspension::{
    BoundWaitpoint, NewWaitpoint, SuspendExecution, SuspendOn, Suspended, SuspensionReason,
    SuspensionRequester, TimeoutBehavior,
};
use selvedge_core::capability::Capabilities;
use selvedge_core::error::CallError;
use selvedge_core::id::{ExecutionId, WaitpointKey, WorkerId, WorkerInstanceId};
use selvedge_core::time::ServerTime;
use uuid::Uuid;

use super::HOME;
use super::flows::{SLOW, lane};
use crate::embedded::Embedded;

/// How long a lease lasts; a dead worker's task is back this much later.
const LEASE_MS: u64 = 1_500;
/// How long a slow task takes.
const SLOW_MS: i64 = 5_000;
/// Tries that the flaky task needs.
const FLAKY_TRIES: u32 = 3;

pub(super) struct Worker {
    name: &'static str,
    dead: bool,
    /// What it will signal next, on behalf of whoever approves.
    approval: Option<(ExecutionId, BoundWaitpoint)>,
}

impl Worker {
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, dead: false, approval: None }
    }

    /// Does one thing, if there is one to do, and tells of it.
    pub(super) fn work(&mut self, store: &mut Embedded) -> Result<Option<String>, CallError> {
        if self.dead {
            return Ok(None);
        }
        if let Some((execution_id, waitpoint)) = self.approval.take() {
            self.approve(store, execution_id, waitpoint)?;
            return Ok(Some("somebody approved: the signal's token was checked".to_owned()));
        }
        let call = ClaimNext {
            partition: HOME,
            lane: lane(),
            worker_id: WorkerId::new(self.name),
            worker_instance_id: WorkerInstanceId::new(self.name),
            capabilities: Capabilities::default(),
            lease_id: Uuid::new_v4().into(),
            lease_ttl_ms: LEASE_MS,
            attempt_id: Uuid::new_v4().into(),
            window: None,
            offset: 0,
            admitted: None,
        };
        match store.call(&call)? {
            ClaimNextReply::Claimed(work) => self.run(store, work).map(Some),
            ClaimNextReply::NeedsAdmission { .. }
            | ClaimNextReply::NoneClaimable { .. }
            | ClaimNextReply::Empty
            | ClaimNextReply::Lapsed(_) => Ok(None),
        }
    }

    fn run(&mut self, store: &mut Embedded, work: ClaimedWork) -> Result<String, CallError> {
        let name = self.name;
        let kind = work.execution_kind.clone();
        let attempt = work.attempt_index.0;
        match kind.as_str() {
            "flaky" if attempt + 1 < FLAKY_TRIES => self.fail(store, work),
            "approve" if work.attempt_type != "resumed" => self.suspend(store, work),
            "mirror" if work.payload == SLOW => self.slow_down(store, work),
            "mortal" if attempt == 0 => {
                self.dead = true;
                Ok(format!("{name} dies while it runs {kind}; nobody tells the store"))
            }
            _ => {
                store.call(&CompleteExecution {
                    running: self.running(&work),
                    authority: Authority::Holder(work.fence),
                    result_payload: Vec::new(),
                })?;
                Ok(format!("{name} completed {kind} (attempt {})", attempt + 1))
            }
        }
    }

    /// A slow task is given up until later, so that the worker is free.
    fn slow_down(&self, store: &mut Embedded, work: ClaimedWork) -> Result<String, CallError> {
        let delay_until = ServerTime(store.now().0 + SLOW_MS);
        let running = self.running(&work);
        store.call(&DelayExecution {
            running,
            authority: Authority::Holder(work.fence),
            delay_until,
        })?;
        Ok(format!("{} finds {} slow and comes back to it later", self.name, work.execution_kind))
    }

    fn fail(&self, store: &mut Embedded, work: ClaimedWork) -> Result<String, CallError> {
        let policy: serde_json::Value =
            serde_json::from_slice(&work.policy_json).unwrap_or_default();
        let failure = store.call(&FailExecution {
            running: self.running(&work),
            authority: Authority::Holder(work.fence),
            failure_reason: "bad luck".to_owned(),
            failure_category: "transient".to_owned(),
            retry_policy_json: policy["retry_policy"].to_string(),
        })?;
        let next = match failure {
            Failure::RetryAt(_) => "it is tried again",
            Failure::Final => "that was the last try",
        };
        Ok(format!("{} failed {}: {next}", self.name, work.execution_kind))
    }

    fn suspend(&mut self, store: &mut Embedded, work: ClaimedWork) -> Result<String, CallError> {
        let waitpoint_id = Uuid::new_v4();
        let suspended = store.call(&SuspendExecution {
            execution_id: work.execution_id.clone(),
            lane: lane(),
            worker_instance_id: WorkerInstanceId::new(self.name),
            attempt_index: work.attempt_index,
            fence: work.fence,
            suspension_id: Uuid::new_v4().into(),
            on: SuspendOn::New {
                primary: NewWaitpoint {
                    id: waitpoint_id.into(),
                    key: WaitpointKey::new(format!("wpk:{waitpoint_id}")),
                },
                additional: Vec::new(),
            },
            reason: SuspensionReason::WaitingForApproval,
            requested_by: SuspensionRequester::Worker,
            timeout_at: None,
            timeout_behavior: TimeoutBehavior::Fail,
            resume_condition_json: r#"{"required_signal_names":["approved"]}"#.to_owned(),
            resume_policy_json: "{}".to_owned(),
            continuation_metadata_pointer: None,
            lease_history_maxlen: 100,
            idempotency: None,
        })?;
        let (Suspended::Waiting { waitpoints, .. }
        | Suspended::AlreadySatisfied { waitpoints, .. }) = suspended;
        self.approval = waitpoints.into_iter().next().map(|first| (work.execution_id, first));
        Ok(format!("{} suspended {} until somebody approves", self.name, work.execution_kind))
    }

    fn approve(
        &self,
        store: &mut Embedded,
        execution_id: ExecutionId,
        waitpoint: BoundWaitpoint,
    ) -> Result<(), CallError> {
        let signal = IncomingSignal {
            signal_id: Uuid::new_v4().into(),
            execution_id,
            waitpoint_id: waitpoint.id,
            name: "approved".to_owned(),
            category: "approval".to_owned(),
            source_type: "person".to_owned(),
            source_identity: "demo".to_owned(),
            payload: Vec::new(),
            payload_encoding: String::new(),
            idempotency_key: None,
            correlation_id: None,
            target_scope: "waitpoint".to_owned(),
            created_at: None,
            dedup_ttl_ms: 60_000,
            resume_delay_ms: 0,
            signal_maxlen: 100,
            max_signals_per_execution: 100,
            token: waitpoint.token,
        };
        store.call(&DeliverSignal { signal, lane: lane() }).map(drop)
    }

    fn running(&self, work: &ClaimedWork) -> Running {
        Running {
            execution_id: work.execution_id.clone(),
            attempt_index: work.attempt_index,
            lane: lane(),
            worker_instance_id: WorkerInstanceId::new(self.name),
        }
    }
}
