//! One attempt: runs the handler, then reports its outcome until the store acknowledges it.

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
use super::leases::LeaseLoss;
use super::{Shared, admission};
use crate::client::{ClientError, DURATION_MAX, PAYLOAD_BYTES_MAX, millis};
use crate::observe::worker_metrics::{self, AttemptOutcome};
use crate::retry::Backoff;

/// One claimed execution, to be run and reported.
pub(super) struct Attempt {
    pub(super) shared: Arc<Shared>,
    pub(super) lane: LaneId,
    pub(super) work: ClaimedWork,
    /// Fires when the lease is lost.
    pub(super) loss: LeaseLoss,
    /// Fires when the drain time of the worker is over.
    pub(super) drain_expired: CancellationToken,
}

impl Attempt {
    /// Runs the handler and reports its outcome. Holds the permit until then.
    pub(super) async fn run(self, _permit: OwnedSemaphorePermit) {
        // The handler's token fires on lease loss and on drain; only lease loss voids its outcome.
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
            () = self.drain_expired.cancelled() => {
                cancelled.cancel();
                tokio::time::timeout(HANDLER_STOP_WITHIN, &mut handler).await.ok()
            }
        };
        let outcome = match ended {
            Some(Ok(outcome)) => outcome,
            Some(Err(error)) => Err(Failed::new(Failed::PANIC, panic_text(error))),
            // The handler does not stop: put the execution back for another worker at once.
            None => {
                handler.abort();
                Ok(Done::Later(std::time::Duration::ZERO))
            }
        };
        // Released together with the report: whoever runs the execution next acquires a slot anew.
        let (settled, ()) =
            tokio::join!(self.report_outcome(&context, outcome), self.release_quota_slot(&context));
        if let Some(outcome) = settled {
            worker_metrics::ended(&self.lane, outcome);
        }
        shared.leases.untrack(self.work.fence.lease_id);
    }

    async fn release_quota_slot(&self, context: &Context) {
        let Some(quota) = context.policy().quota_policy_id.map(QuotaPolicyId::from) else { return };
        let (client, execution) = (&self.shared.client, &self.work.execution_id);
        if context.is_suspended() || self.loss.outcome().is_some() {
            // Another worker may run it already and use the same slot.
            admission::release_unneeded(client, quota, execution).await;
        } else {
            admission::release(client, quota, execution).await;
        }
    }

    /// Reports the handler's outcome. Returns how the attempt ended, or `None` if it continues
    /// later: it was suspended or delayed.
    async fn report_outcome(
        &self,
        context: &Context,
        outcome: Result<Done, Failed>,
    ) -> Option<AttemptOutcome> {
        let execution = &self.work.execution_id;
        if let Some(outcome) = self.loss.outcome() {
            tracing::info!(%execution, "lease lost, outcome discarded");
            return Some(outcome);
        }
        if context.is_suspended() {
            if !matches!(outcome, Ok(Done::Suspended)) {
                tracing::warn!(%execution, ?outcome, "execution is suspended, outcome discarded");
            }
            return None;
        }
        let reported = match outcome {
            Ok(Done::Completed(result)) if result.len() > PAYLOAD_BYTES_MAX => {
                let bytes = result.len();
                let reason = format!(
                    "result too large: {bytes} bytes, the limit is {PAYLOAD_BYTES_MAX} bytes"
                );
                self.fail(&Failed::permanent(reason)).await
            }
            Ok(Done::Completed(result)) => self.complete(result).await,
            Ok(Done::Later(pause)) => self.delay(pause).await,
            Ok(Done::Suspended) => {
                let reason = "handler returned Done::Suspended without calling Context::suspend";
                self.fail(&Failed::permanent(reason)).await
            }
            Err(failed) => self.fail(&failed).await,
        };
        reported.unwrap_or_else(|error| {
            tracing::warn!(%execution, %error, "outcome rejected by the store");
            let ClientError::Refused(refusal) = error else { return self.loss.outcome() };
            Some(AttemptOutcome::of_refused(&refusal))
        })
    }

    async fn complete(&self, result_payload: Vec<u8>) -> Reported {
        let call = CompleteExecution {
            running: self.running(),
            authority: Authority::Holder(self.work.fence),
            result_payload,
        };
        self.report(&call).await?;
        Ok(Some(AttemptOutcome::Ok))
    }

    async fn fail(&self, failed: &Failed) -> Reported {
        let is_final = failed.category() == Failed::PERMANENT;
        let call = FailExecution {
            running: self.running(),
            authority: Authority::Holder(self.work.fence),
            failure_reason: truncated(failed.reason()),
            failure_category: failed.category().to_owned(),
            retry_policy_json: if is_final { String::new() } else { self.retry_policy() },
        };
        let execution = &self.work.execution_id;
        Ok(match self.report(&call).await? {
            Some(Failure::RetryAt(_)) => {
                tracing::info!(%execution, ?failed, "attempt failed, will be retried");
                Some(AttemptOutcome::Retry)
            }
            Some(Failure::Final) => {
                tracing::info!(%execution, ?failed, "execution failed");
                Some(AttemptOutcome::Error)
            }
            // The report was applied, but the reply with its effect was lost.
            None => Some(AttemptOutcome::Error),
        })
    }

    async fn delay(&self, pause: std::time::Duration) -> Reported {
        let now = self.shared.client.server_time().await?;
        let pause_ms = i64::try_from(millis(pause.min(DURATION_MAX))).unwrap_or(i64::MAX);
        let call = DelayExecution {
            running: self.running(),
            authority: Authority::Holder(self.work.fence),
            delay_until: ServerTime(now.0.saturating_add(pause_ms)),
        };
        self.report(&call).await?;
        Ok(None)
    }

    /// Calls the store, and retries while it is unavailable and the lease is held. `None` if an
    /// earlier try was applied and only its reply was lost.
    async fn report<F: Function>(&self, call: &F) -> Result<Option<F::Reply>, ClientError> {
        let mut backoff = Backoff::new(PAUSE_FIRST, PAUSE_LONGEST);
        loop {
            let reply = tokio::select! {
                reply = self.shared.client.call_with_retry(call) => reply,
                () = self.loss.token.cancelled() => {
                    return Err(ClientError::LeaseLost(self.work.execution_id.clone()));
                }
            };
            match reply {
                Ok(reply) => return Ok(Some(reply)),
                Err(ClientError::Refused(refusal)) if self.was_applied_before(&refusal) => {
                    return Ok(None);
                }
                Err(error @ ClientError::Unavailable(_)) => {
                    let execution = &self.work.execution_id;
                    tracing::warn!(%execution, %error, "outcome not acknowledged, retrying");
                    // A server that refuses answers at once: do not retry in a tight loop.
                    backoff.wait().await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether the refusal says that the attempt ended under this very lease. Only its holder's own
    /// call does that, so an earlier try was applied and its reply was lost.
    fn was_applied_before(&self, refusal: &Refusal) -> bool {
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

    /// The retry policy as stored JSON; empty if there is none.
    fn retry_policy(&self) -> String {
        let policy: serde_json::Value =
            serde_json::from_slice(&self.work.policy_json).unwrap_or_default();
        match policy.get("retry_policy") {
            Some(retry) if retry.is_object() => retry.to_string(),
            Some(_) | None => String::new(),
        }
    }
}

/// How the attempt ended, if it did, once the store has acknowledged it.
type Reported = Result<Option<AttemptOutcome>, ClientError>;

fn panic_text(error: tokio::task::JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else { return "the handler was aborted".to_owned() };
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("the handler panicked: {}", text.unwrap_or_else(|| "no message".to_owned()))
}

/// The first [`REASON_BYTES_MAX`] bytes of a failure reason: it is stored, listed and logged.
fn truncated(reason: &str) -> String {
    if reason.len() <= REASON_BYTES_MAX {
        return reason.to_owned();
    }
    let mut kept = reason[..reason.floor_char_boundary(REASON_BYTES_MAX)].to_owned();
    kept.push('…');
    kept
}

/// Longest stored failure reason, in bytes.
const REASON_BYTES_MAX: usize = 8 * 1_024;
/// How long a handler may take to stop after it was told to.
const HANDLER_STOP_WITHIN: std::time::Duration = std::time::Duration::from_secs(2);
/// Pauses between tries to report an outcome.
const PAUSE_FIRST: std::time::Duration = std::time::Duration::from_millis(50);
const PAUSE_LONGEST: std::time::Duration = std::time::Duration::from_secs(1);
