//! Cancels and replays executions and flows; changes priorities and tags.

use selvedge_core::call::execution::{CancelExecution, Running, SetExecutionTags};
use selvedge_core::call::flow::{AckCancelMember, CancelFlow, CancellationPolicy, ReplayExecution};
use selvedge_core::call::scheduling::ChangePriority;
use selvedge_core::command::Command;
use selvedge_core::error::{CallError, Code};
use selvedge_core::id::{AttemptIndex, ExecutionId, FlowId, WorkerInstanceId};
use selvedge_core::key::Key;
use selvedge_core::state::TerminalOutcome;
use selvedge_core::value::Value;

use super::reply::fields;
use super::task::PRIORITY_MAX;
use super::{Client, ClientError, default_lane};
use crate::retry::RetryWindow;

/// What [`Client::cancel_flow`] did with the tasks of the flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CancelledFlow {
    /// Cancelled by this call.
    pub cancelled: usize,
    /// Had ended before this call.
    pub ended_before: usize,
    /// Not cancelled by this call. They are recorded in the store, and the engine cancels them.
    pub left_to_engine: usize,
}

impl Client {
    /// Cancels an execution in any state. A worker that runs it is notified at once. Succeeds if it
    /// is cancelled already.
    ///
    /// # Errors
    /// [`ClientError::NotFound`] when it does not exist; [`ClientError::Refused`] with
    /// `execution_not_active` when it ended with another outcome; otherwise when the store does not
    /// answer.
    pub async fn cancel(&self, id: &ExecutionId, reason: &str) -> Result<(), ClientError> {
        let call = self.cancels(std::slice::from_ref(id), reason).await?.pop();
        let Some(call) = call else {
            return Err(ClientError::NotFound { kind: "execution", id: id.to_string() });
        };
        match self.call_with_retry(&call).await {
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

    /// Cancels a flow: no task of it starts any more. Its tasks are cancelled by this call; the
    /// engine cancels those that a crash or a lost reply left over.
    ///
    /// # Errors
    /// [`ClientError::NotFound`] when it does not exist; [`ClientError::Refused`] with
    /// `flow_already_terminal` when it has ended; otherwise when the store does not answer.
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
        let members = match self.call_with_retry(&call).await {
            Ok(members) => members,
            Err(ClientError::Refused(refusal)) if refusal.code == Code::FlowNotFound => {
                return Err(ClientError::NotFound { kind: "flow", id: id.to_string() });
            }
            Err(error) => return Err(error),
        };
        let mut done = CancelledFlow::default();
        for members in members.chunks(CANCELS_PER_ROUND_TRIP) {
            self.cancel_members(id, members, reason, &mut done).await?;
        }
        Ok(done)
    }

    /// Cancels some members, and acknowledges those that are cancelled or ended.
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
        done.left_to_engine += members.len() - calls.len();
        for (call, reply) in calls.into_iter().zip(replies) {
            match reply {
                Ok(_) => done.cancelled += 1,
                Err(CallError::Refused(refusal)) if is_over(refusal.code) => {
                    done.ended_before += 1;
                }
                Err(error) => {
                    tracing::debug!(%error, "cancel failed, left to the engine");
                    done.left_to_engine += 1;
                    continue;
                }
            }
            let execution_id = call.running.execution_id;
            let partition = execution_id.partition();
            paid.push(AckCancelMember { partition, flow_id: flow, execution_id });
        }
        // A lost acknowledgement only makes the engine check the member once more.
        drop(self.store().call_all(&paid).await);
        Ok(())
    }

    /// The calls that cancel these executions, filled in from their records; none for an execution
    /// without a record.
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

    /// Runs an ended execution again, with the same payload. It first waits for dependencies that
    /// were replayed as well.
    ///
    /// # Errors
    /// When it does not exist or has not ended, its replays are used up, its flow was cancelled, or
    /// the store does not answer.
    pub async fn replay(&self, id: &ExecutionId) -> Result<(), ClientError> {
        let before = self.execution(id).await?;
        let call = ReplayExecution {
            execution_id: id.clone(),
            lane_id: before.lane,
            inbound_edges: Vec::new(),
        };
        let mut window = RetryWindow::new(self.0.retry_for);
        loop {
            match self.store().call(&call).await {
                Ok(_) => return Ok(()),
                // Not idempotent: compare the number of replays before trying again.
                Err(CallError::Server(error)) if window.allows_retry(&error).await => {
                    if self.execution(id).await?.replays > before.replays {
                        return Ok(());
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Changes the priority of an execution that waits for a worker.
    ///
    /// # Errors
    /// When it does not exist or does not wait for a worker, the priority is above
    /// [`PRIORITY_MAX`], or the store does not answer.
    pub async fn change_priority(
        &self,
        id: &ExecutionId,
        priority: u32,
    ) -> Result<(), ClientError> {
        if priority > PRIORITY_MAX {
            let text = format!("invalid priority {priority}: the highest is {PRIORITY_MAX}");
            return Err(ClientError::InvalidInput(text));
        }
        let call = ChangePriority {
            execution_id: id.clone(),
            lane_id: self.execution(id).await?.lane,
            new_priority: i64::from(priority),
        };
        self.call_with_retry(&call).await.map(drop)
    }

    /// Sets tags of an execution in any state. Names have the form `<caller>.<name>`.
    ///
    /// # Errors
    /// When it does not exist, a name is invalid, or the store does not answer.
    pub async fn set_tags<N: Into<String>, V: Into<Vec<u8>>>(
        &self,
        id: &ExecutionId,
        tags: impl IntoIterator<Item = (N, V)>,
    ) -> Result<(), ClientError> {
        let tags = tags.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        self.call_with_retry(&SetExecutionTags { execution_id: id.clone(), tags }).await.map(drop)
    }
}

/// Whether the refusal means that the execution has ended.
fn is_over(code: Code) -> bool {
    code == Code::ExecutionNotActive || code == Code::ExecutionNotFound
}

/// Members of a flow that are cancelled in one round trip.
const CANCELS_PER_ROUND_TRIP: usize = 500;
