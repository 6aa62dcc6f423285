//! One attempt: runs the handler, then says how it went until somebody has heard it.

use std::sync::Arc;

use selvedge_core::call::Function;
use selvedge_core::call::execution::{
    Authority, CompleteExecution, DelayExecution, FailExecution, Failure, Running,
};
use selvedge_core::call::scheduling::ClaimedWork;
use selvedge_core::error::{Code, Refusal};
use selvedge_core::id::{LaneId, QuotaPolicyId};
use selvedge_core::time::ServerTime;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::context::Context;
use super::handler::{Done, Failed};
use super::leases::Loss;
use super::{Shared, admission};
use crate::client::{ClientError, PAYLOAD_BYTES_MAX, SPAN_MAX, millis};
use crate::observe::work::{self, AttemptOutcome};

/// A claimed execution on its way.
pub(super) struct Attempt {
    pub(super) shared: Arc<Shared>,
    pub(super) lane: LaneId,
    pub(super) work: ClaimedWork,
    /// Whether its lease is lost.
    pub(super) loss: Loss,
    /// Fires when the worker's patience with handlers is over.
    pub(super) hurry: CancellationToken,
}

impl Attempt {
    /// Runs the handler and settles the execution. The permit is free afterwards.
    pub(super) async fn run(self, _permit: OwnedSemaphorePermit) {
        // The handler hears of both; only one of them makes its work void.
        let cancelled = self.loss.token.child_token();
        let shared = &self.shared;
        let context = Context::new(
            shared.client.clone(),
            self.work.clone(),
            self.lane.clone(),
            shared.instance.clone(),
            cancelled.clone(),
        );
        let (handlers, given) = (shared.handlers.clone(), context.clone());
        let handler =
            tokio::spawn(async move { handlers.start(given.kind(), given.clone()).await });
        let mut handler = AbortOnDropHandle::new(handler);
        let ended = tokio::select! {
            ended = &mut handler => Some(ended),
            () = self.hurry.cancelled() => {
                cancelled.cancel();
                tokio::time::timeout(LAST_WORDS, &mut handler).await.ok()
            }
        };
        let outcome = match ended {
            Some(Ok(outcome)) => outcome,
            Some(Err(error)) => Err(Failed::new(Failed::PANIC, panic_text(error))),
            // It does not stop: the work goes to somebody else, at once.
            None => {
                handler.abort();
                Ok(Done::Later(std::time::Duration::ZERO))
            }
        };
        // Its slot is free before anybody else can have what is settled: the next to run it asks
        // for one of its own.
        let (settled, ()) =
            tokio::join!(self.settle(&context, outcome), self.give_slot_back(&context));
        if let Some(outcome) = settled {
            work::ended(&self.lane, outcome);
        }
        shared.leases.forget(self.work.fence.lease_id);
    }

    async fn give_slot_back(&self, context: &Context) {
        let Some(quota) = context.policy().quota_policy_id.map(QuotaPolicyId::from) else { return };
        let (client, execution) = (&self.shared.client, &self.work.execution_id);
        if context.is_suspended() || self.loss.outcome().is_some() {
            // Somebody else may run it already, with the very slot.
            admission::release_unneeded(client, quota, execution).await;
        } else {
            admission::release(client, quota, execution).await;
        }
    }

    /// Says how it went. Answers how the attempt ended, unless it goes on another time.
    async fn settle(
        &self,
        context: &Context,
        outcome: Result<Done, Failed>,
    ) -> Option<AttemptOutcome> {
        let execution = &self.work.execution_id;
        if let Some(outcome) = self.loss.outcome() {
            tracing::info!(%execution, "its lease is gone, so its outcome counts no more");
            return Some(outcome);
        }
        if context.is_suspended() {
            if !matches!(outcome, Ok(Done::Suspended)) {
                tracing::warn!(%execution, ?outcome, "a suspended execution ends later");
            }
            return None;
        }
        let told = match outcome {
            Ok(Done::Completed(result)) if result.len() > PAYLOAD_BYTES_MAX => {
                // The store would take it, or break over it; either way nobody could pass it on.
                let bytes = result.len();
                let reason =
                    format!("its result has {bytes} bytes; at most {PAYLOAD_BYTES_MAX} are kept");
                self.fail(&Failed::permanent(reason)).await
            }
            Ok(Done::Completed(result)) => self.complete(result).await,
            Ok(Done::Later(pause)) => self.put_off(pause).await,
            Ok(Done::Suspended) => {
                let reason = "its handler says that it suspended, and did not";
                self.fail(&Failed::permanent(reason)).await
            }
            Err(failed) => self.fail(&failed).await,
        };
        told.unwrap_or_else(|error| {
            tracing::warn!(%execution, %error, "its outcome does not count");
            let ClientError::Refused(refusal) = error else { return self.loss.outcome() };
            Some(AttemptOutcome::of_refused(&refusal))
        })
    }

    async fn complete(&self, result_payload: Vec<u8>) -> Told {
        let call = CompleteExecution {
            running: self.running(),
            authority: Authority::Holder(self.work.fence),
            result_payload,
        };
        self.tell(&call).await?;
        Ok(Some(AttemptOutcome::Ok))
    }

    async fn fail(&self, failed: &Failed) -> Told {
        let is_final = failed.category() == Failed::PERMANENT;
        let call = FailExecution {
            running: self.running(),
            authority: Authority::Holder(self.work.fence),
            failure_reason: beginning_of(failed.reason()),
            failure_category: failed.category().to_owned(),
            retry_policy_json: if is_final { String::new() } else { self.retry_policy() },
        };
        let execution = &self.work.execution_id;
        Ok(match self.tell(&call).await? {
            Some(Failure::RetryAt(_)) => {
                tracing::info!(%execution, ?failed, "tried again later");
                Some(AttemptOutcome::Retry)
            }
            Some(Failure::Final) => {
                tracing::info!(%execution, ?failed, "failed");
                Some(AttemptOutcome::Error)
            }
            // It was heard, and nobody told us what follows.
            None => Some(AttemptOutcome::Error),
        })
    }

    async fn put_off(&self, pause: std::time::Duration) -> Told {
        let now = self.shared.client.server_time().await?;
        let pause_ms = i64::try_from(millis(pause.min(SPAN_MAX))).unwrap_or(i64::MAX);
        let call = DelayExecution {
            running: self.running(),
            authority: Authority::Holder(self.work.fence),
            delay_until: ServerTime(now.0.saturating_add(pause_ms)),
        };
        self.tell(&call).await?;
        Ok(None)
    }

    /// Tells the store, again and again while it does not answer and the lease stands. `None`
    /// when an earlier try had been heard.
    async fn tell<F: Function>(&self, call: &F) -> Result<Option<F::Reply>, ClientError> {
        let mut pause = PAUSE_FIRST;
        loop {
            let reply = tokio::select! {
                reply = self.shared.client.repeat(call) => reply,
                () = self.loss.token.cancelled() => {
                    return Err(ClientError::Input("the lease was lost meanwhile".to_owned()));
                }
            };
            match reply {
                Ok(reply) => return Ok(Some(reply)),
                Err(ClientError::Refused(refusal)) if self.was_heard(&refusal) => return Ok(None),
                Err(error @ ClientError::Unavailable(_)) => {
                    tracing::warn!(execution = %self.work.execution_id, %error, "still telling");
                    // A server that refuses does so at once: without a pause it would be asked hotly.
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_LONGEST);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether the execution left its attempt under this very lease, which only its holder's call
    /// does: the reply to an earlier try was lost.
    fn was_heard(&self, refusal: &Refusal) -> bool {
        let fence = &self.work.fence;
        refusal.code == Code::ExecutionNotActive
            && refusal.detail(1) == fence.lease_epoch.to_string()
            && refusal.detail(3) == fence.attempt_id.to_string()
            && refusal.detail(0) != "cancelled"
            && refusal.detail(0) != "expired"
    }

    fn running(&self) -> Running {
        Running {
            execution_id: self.work.execution_id.clone(),
            attempt_index: self.work.attempt_index,
            lane: self.lane.clone(),
            worker_instance_id: self.shared.instance.clone(),
        }
    }

    /// The retry policy as it was stored; empty for none.
    fn retry_policy(&self) -> String {
        let policy: serde_json::Value =
            serde_json::from_slice(&self.work.policy_json).unwrap_or_default();
        match policy.get("retry_policy") {
            Some(retry) if retry.is_object() => retry.to_string(),
            Some(_) | None => String::new(),
        }
    }
}

/// How the attempt ended, if it did, when the store has heard of it.
type Told = Result<Option<AttemptOutcome>, ClientError>;

fn panic_text(error: tokio::task::JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else { return "the handler was stopped".to_owned() };
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("the handler panicked: {}", text.unwrap_or_else(|| "without a word".to_owned()))
}

/// Of a reason as much as a person reads: it is in every record, table and log line of its execution.
fn beginning_of(reason: &str) -> String {
    if reason.len() <= REASON_BYTES_MAX {
        return reason.to_owned();
    }
    let mut kept = reason[..reason.floor_char_boundary(REASON_BYTES_MAX)].to_owned();
    kept.push('…');
    kept
}

/// How much of a reason is kept.
const REASON_BYTES_MAX: usize = 8 * 1_024;
/// How long a handler that was told to stop may take for it.
const LAST_WORDS: std::time::Duration = std::time::Duration::from_secs(2);
/// Pauses between tries to report to a store that refuses.
const PAUSE_FIRST: std::time::Duration = std::time::Duration::from_millis(50);
const PAUSE_LONGEST: std::time::Duration = std::time::Duration::from_secs(1);
