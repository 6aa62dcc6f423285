//! Steering: cancel, replay, change a priority.

use selvedge_core::call::execution::{CancelExecution, Running, SetExecutionTags};
use selvedge_core::call::flow::{AckCancelMember, CancelFlow, CancellationPolicy, ReplayExecution};
use selvedge_core::call::scheduling::ChangePriority;
use selvedge_core::engine::Command;
use selvedge_core::error::{CallError, Code};
use selvedge_core::id::{AttemptIndex, ExecutionId, FlowId, WorkerInstanceId};
use selvedge_core::key::Key;
use selvedge_core::state::TerminalOutcome;
use selvedge_core::value::Value;

use super::read::fields;
use super::task::PRIORITY_MAX;
use super::{Client, ClientError, Pauses, default_lane, passes};

/// What became of the tasks of a flow that was cancelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CancelledFlow {
    /// Cancelled by this call.
    pub cancelled: usize,
    /// Had ended before.
    pub ended_before: usize,
    /// Left to the engine, which cancels them soon: the store has noted what is owed.
    pub owed: usize,
}

impl Client {
    /// Cancels an execution, whatever it is doing. A worker that runs it is told at once.
    ///
    /// # Errors
    /// When there is none, or it had ended in another way (`execution_not_active`).
    pub async fn cancel(&self, id: &ExecutionId, reason: &str) -> Result<(), ClientError> {
        let call = self.cancels(std::slice::from_ref(id), reason).await?.pop();
        let Some(call) = call else {
            return Err(ClientError::NotFound { kind: "execution", id: id.to_string() });
        };
        match self.repeat(&call).await {
            Ok(_) => Ok(()),
            Err(ClientError::Refused(refusal))
                if refusal.code == Code::ExecutionNotActive
                    && refusal.detail(0) == TerminalOutcome::Cancelled.as_str() =>
            {
                Ok(())
            }
            Err(ClientError::Refused(refusal)) if refusal.code == Code::ExecutionNotFound => {
                Err(ClientError::NotFound { kind: "execution", id: id.to_string() })
            }
            Err(error) => Err(error),
        }
    }

    /// Cancels a flow: from this moment on nothing new of it starts. Its tasks are cancelled right
    /// away; what a crash or a lost reply leaves over, the engine cancels soon after.
    ///
    /// # Errors
    /// When there is none, or it has ended (`flow_already_terminal`).
    pub async fn cancel_flow(
        &self,
        id: FlowId,
        reason: &str,
    ) -> Result<CancelledFlow, ClientError> {
        let partition = self.partitions().of_flow(id);
        let call = CancelFlow {
            partition,
            flow_id: id,
            reason: reason.to_owned(),
            policy: CancellationPolicy::CancelAll,
            grace_ms: None,
        };
        let members = match self.repeat(&call).await {
            Ok(members) => members,
            Err(ClientError::Refused(refusal)) if refusal.code == Code::FlowNotFound => {
                return Err(ClientError::NotFound { kind: "flow", id: id.to_string() });
            }
            Err(error) => return Err(error),
        };
        let mut done = CancelledFlow::default();
        for members in members.chunks(CANCELS_AT_ONCE) {
            self.cancel_members(id, members, reason, &mut done).await?;
        }
        Ok(done)
    }

    /// Cancels some members and tells the store which debts are paid.
    async fn cancel_members(
        &self,
        flow: FlowId,
        members: &[ExecutionId],
        reason: &str,
        done: &mut CancelledFlow,
    ) -> Result<(), ClientError> {
        let mut calls = self.cancels(members, reason).await?;
        for call in &mut calls {
            call.source = "flow_cascade".to_owned();
        }
        let mut paid = Vec::new();
        let replies = self.store().call_all(&calls).await;
        done.owed += members.len() - calls.len();
        for (call, reply) in calls.into_iter().zip(replies) {
            match reply {
                Ok(_) => done.cancelled += 1,
                Err(CallError::Refused(refusal)) if is_over(refusal.code) => {
                    done.ended_before += 1;
                }
                Err(error) => {
                    tracing::debug!(%error, "a cancel is left to the engine");
                    done.owed += 1;
                    continue;
                }
            }
            let execution_id = call.running.execution_id;
            let partition = execution_id.partition();
            paid.push(AckCancelMember { partition, flow_id: flow, execution_id });
        }
        // An acknowledgement that is lost costs the engine one more look.
        drop(self.store().call_all(&paid).await);
        Ok(())
    }

    /// The calls that cancel these, with what their records say about them; those without a record
    /// are left out.
    async fn cancels(
        &self,
        ids: &[ExecutionId],
        reason: &str,
    ) -> Result<Vec<CancelExecution>, ClientError> {
        let names: [&[u8]; 4] = [
            b"lane_id",
            b"current_attempt_index",
            b"current_waitpoint_id",
            b"current_worker_instance_id",
        ];
        let reads = ids
            .iter()
            .map(|id| Command::read("HMGET", &Key::execution(id).core(), &names))
            .collect();
        let replies = self.read(reads).await?;
        let calls = ids.iter().zip(replies).filter_map(|(id, reply)| {
            let is_there = matches!(&reply, Value::Array(all) if all.first() != Some(&Value::Nil));
            let record = fields(reply);
            let field = |at: usize| record.get(at).map(String::as_str).unwrap_or_default();
            is_there.then(|| CancelExecution {
                running: Running {
                    execution_id: id.clone(),
                    attempt_index: field(1).parse().unwrap_or(AttemptIndex(0)),
                    lane: field(0).parse().unwrap_or_else(|_| default_lane()),
                    worker_instance_id: WorkerInstanceId::new(field(3)),
                },
                waitpoint_id: field(2).parse().ok(),
                reason: reason.to_owned(),
                source: "operator_override".to_owned(),
                lease: None,
            })
        });
        Ok(calls.collect())
    }

    /// Runs an execution again that has ended, with the same input. One whose dependencies are
    /// open again waits for them.
    ///
    /// # Errors
    /// When there is none, it has not ended, was replayed as often as it may be, or its flow was
    /// cancelled.
    pub async fn replay(&self, id: &ExecutionId) -> Result<(), ClientError> {
        let before = self.execution(id).await?;
        let call = ReplayExecution {
            execution_id: id.clone(),
            lane_id: before.lane,
            inbound_edges: Vec::new(),
        };
        let mut pauses = Pauses::new(self.0.patience);
        loop {
            match self.store().call(&call).await {
                Ok(_) => return Ok(()),
                // Not harmless to repeat blindly: whoever replays twice pays twice.
                Err(CallError::Server(error)) if passes(&error) && pauses.next().await => {
                    if self.execution(id).await?.replays > before.replays {
                        return Ok(());
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Gives an execution that waits for a worker another priority.
    ///
    /// # Errors
    /// When there is none, it does not wait for a worker, or the priority is above [`PRIORITY_MAX`].
    pub async fn change_priority(
        &self,
        id: &ExecutionId,
        priority: u32,
    ) -> Result<(), ClientError> {
        if priority > PRIORITY_MAX {
            let text = format!("{priority} is no priority; the highest is {PRIORITY_MAX}");
            return Err(ClientError::Input(text));
        }
        let call = ChangePriority {
            execution_id: id.clone(),
            lane_id: self.execution(id).await?.lane,
            new_priority: i64::from(priority),
        };
        self.repeat(&call).await.map(drop)
    }

    /// Sets tags of an execution, `<caller>.<name>`, whatever it is doing.
    ///
    /// # Errors
    /// When there is none, or a name breaks the rule.
    pub async fn set_tags<N: Into<String>, V: Into<Vec<u8>>>(
        &self,
        id: &ExecutionId,
        tags: impl IntoIterator<Item = (N, V)>,
    ) -> Result<(), ClientError> {
        let tags = tags.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        self.repeat(&SetExecutionTags { execution_id: id.clone(), tags }).await.map(drop)
    }
}

/// Whether the refusal means that there is nothing left to cancel.
fn is_over(code: Code) -> bool {
    code == Code::ExecutionNotActive || code == Code::ExecutionNotFound
}

/// Members of a cancelled flow that are cancelled in one round trip.
const CANCELS_AT_ONCE: usize = 500;
