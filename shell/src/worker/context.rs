//! What a handler is given: its input, and the ways to talk back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use selvedge_core::call::budget::{RecordSpend, UsageVerdict};
use selvedge_core::call::scheduling::{ClaimedWork, UpdateProgress};
use selvedge_core::call::stream::{AppendFrame, FrameMode};
use selvedge_core::call::suspension::{
    NewWaitpoint, SuspendExecution, SuspendIdempotency, SuspendOn, Suspended, SuspensionReason,
    SuspensionRequester, TimeoutBehavior,
};
use selvedge_core::engine::Command;
use selvedge_core::id::{
    AttemptIndex, BudgetId, ExecutionId, FlowId, LaneId, SignalId, SuspensionId, WaitpointId,
    WaitpointKey, WorkerInstanceId,
};
use selvedge_core::key::Key;
use selvedge_core::policy::ExecutionPolicy;
use selvedge_core::time::ServerTime;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::client::{
    Client, ClientError, SPAN_MAX, SignalTicket, check_name, member_id, millis, text_hash,
};

/// What a handler is given. Clones are the same execution.
#[derive(Clone)]
pub struct Context(Arc<Inner>);

struct Inner {
    client: Client,
    work: ClaimedWork,
    policy: ExecutionPolicy,
    lane: LaneId,
    instance: WorkerInstanceId,
    cancelled: CancellationToken,
    suspended: AtomicBool,
}

/// What an execution waits for while it is suspended.
///
/// ```
/// use selvedge::worker::Suspend;
/// use std::time::Duration;
///
/// let suspend = Suspend::for_signal("approved").timeout(Duration::from_secs(3_600));
/// # let _ = suspend;
/// ```
#[derive(Clone, Debug)]
pub struct Suspend {
    signals: Vec<String>,
    all: bool,
    timeout: Option<(Duration, TimeoutBehavior)>,
    reason: SuspensionReason,
}

impl Suspend {
    /// Until this signal comes.
    #[must_use]
    pub fn for_signal(name: impl Into<String>) -> Self {
        Self {
            signals: vec![name.into()],
            all: false,
            timeout: None,
            reason: SuspensionReason::WaitingForSignal,
        }
    }

    /// Until all of these have come.
    #[must_use]
    pub fn for_all<T: Into<String>>(names: impl IntoIterator<Item = T>) -> Self {
        let signals = names.into_iter().map(Into::into).collect();
        Self { signals, all: true, ..Self::for_signal("") }
    }

    /// Until one of these has come.
    #[must_use]
    pub fn for_any<T: Into<String>>(names: impl IntoIterator<Item = T>) -> Self {
        Self { all: false, ..Self::for_all(names) }
    }

    /// Why, for people who look; a signal is awaited otherwise.
    #[must_use]
    pub fn because(mut self, reason: SuspensionReason) -> Self {
        self.reason = reason;
        self
    }

    /// Fails when nothing came in time.
    #[must_use]
    pub fn timeout(self, after: Duration) -> Self {
        self.timeout_then(after, TimeoutBehavior::Fail)
    }

    /// What happens when nothing came in time.
    #[must_use]
    pub fn timeout_then(mut self, after: Duration, behavior: TimeoutBehavior) -> Self {
        self.timeout = Some((after, behavior));
        self
    }
}

/// A signal that the execution has received.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReceivedSignal {
    /// Its name.
    pub name: String,
    /// Who sent it.
    pub source: String,
    /// What it carried: any bytes.
    pub payload: Vec<u8>,
}

impl Context {
    pub(super) fn new(
        client: Client,
        work: ClaimedWork,
        lane: LaneId,
        instance: WorkerInstanceId,
        cancelled: CancellationToken,
    ) -> Self {
        // A policy that cannot be read was stored by somebody else; the library skips it as well.
        let policy = ExecutionPolicy::read(&work.policy_json).unwrap_or_default();
        let suspended = AtomicBool::new(false);
        Self(Arc::new(Inner { client, work, policy, lane, instance, cancelled, suspended }))
    }

    /// The execution.
    #[must_use]
    pub fn id(&self) -> &ExecutionId {
        &self.0.work.execution_id
    }

    /// The flow that it belongs to.
    #[must_use]
    pub fn flow(&self) -> Option<FlowId> {
        self.0.work.flow_id
    }

    /// What kind of work it is.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.0.work.execution_kind
    }

    /// Its input.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.0.work.payload
    }

    /// The attempt, from 0.
    #[must_use]
    pub fn attempt(&self) -> AttemptIndex {
        self.0.work.attempt_index
    }

    /// Whether it goes on after a suspension or a pause: [`Context::signals`] tells what came.
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        self.0.work.attempt_type == "resumed"
    }

    /// Fires when the lease is lost or the execution was cancelled. From then on nothing that the
    /// handler does counts: it should stop.
    #[must_use]
    pub fn cancelled(&self) -> &CancellationToken {
        &self.0.cancelled
    }

    /// The client, for whatever else is needed.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.0.client
    }

    /// The policy that it was submitted with.
    #[must_use]
    pub fn policy(&self) -> &ExecutionPolicy {
        &self.0.policy
    }

    /// The execution that another task of the same flow is, by its name.
    #[must_use]
    pub fn sibling(&self, name: &str) -> Option<ExecutionId> {
        self.flow().map(|flow| member_id(self.id().partition(), flow, name))
    }

    /// The result of another task of the same flow; `None` while there is none.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn result_of(&self, name: &str) -> Result<Option<Vec<u8>>, ClientError> {
        match self.sibling(name) {
            Some(id) => self.0.client.result(&id).await,
            None => Ok(None),
        }
    }

    /// Notes how far it is, from 0 to 100, and what it does.
    ///
    /// # Errors
    /// When the lease is lost, or the store does not answer.
    pub async fn progress(&self, percent: u16, message: &str) -> Result<(), ClientError> {
        let fence = self.0.work.fence;
        let call = UpdateProgress {
            execution_id: self.id().clone(),
            lease_id: fence.lease_id,
            lease_epoch: fence.lease_epoch,
            progress_pct: Some(percent.min(100)),
            progress_message: Some(message.to_owned()),
        };
        self.0.client.repeat(&call).await
    }

    /// Appends a frame to its output. A frame whose reply is lost is not sent again: the error
    /// leaves the choice between once at most and twice perhaps to the handler.
    ///
    /// # Errors
    /// When the lease is lost, the frame is too large, or the store does not answer.
    pub async fn frame(&self, kind: &str, payload: impl Into<Vec<u8>>) -> Result<(), ClientError> {
        let call = self.append(kind, payload.into(), FrameMode::Durable);
        self.0.client.store().call(&call).await?;
        Ok(())
    }

    /// Merges a JSON merge patch into the rolling document of its output.
    ///
    /// # Errors
    /// As for [`Context::frame`].
    pub async fn summarize(&self, patch: &serde_json::Value) -> Result<(), ClientError> {
        let call = self.append("summary", patch.to_string().into_bytes(), FrameMode::Summary);
        self.0.client.store().call(&call).await?;
        Ok(())
    }

    fn append(&self, kind: &str, payload: Vec<u8>, mode: FrameMode) -> AppendFrame {
        AppendFrame {
            execution_id: self.id().clone(),
            attempt_index: self.attempt(),
            fence: self.0.work.fence,
            frame_type: kind.to_owned(),
            ts: None,
            payload,
            encoding: "bytes".to_owned(),
            correlation_id: None,
            source: self.0.instance.to_string(),
            retention_maxlen: 0,
            max_payload_bytes: FRAME_BYTES_MAX,
            mode,
        }
    }

    /// Reports usage to every budget of the execution. The same `report` of one attempt counts
    /// once, however often it is sent; another attempt spends anew, and so does its report. (What
    /// is to count once whatever happens goes through [`Client::spend`], under a name of its own.)
    /// A hard breach means that nothing was added.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn spend(
        &self,
        report: &str,
        amounts: &[(&str, i64)],
    ) -> Result<Vec<(BudgetId, UsageVerdict)>, ClientError> {
        let now = self.0.client.server_time().await?;
        let mut verdicts = Vec::new();
        for budget in &self.0.policy.budget_ids {
            let budget_id = BudgetId::from(*budget);
            let call = RecordSpend {
                partition: self.0.client.partitions().of_budget(budget_id),
                budget_id,
                execution_id: self.id().clone(),
                deltas: crate::client::deltas(amounts),
                now,
                dedup_id: Some(format!("{}:{}:{report}", self.id(), self.attempt())),
            };
            verdicts.push((budget_id, self.0.client.repeat(&call).await?));
        }
        Ok(verdicts)
    }

    /// Suspends the execution until a signal comes, and gives the ticket that lets somebody send
    /// it. The lease is gone afterwards: hand the ticket out and return
    /// [`Done::Suspended`](super::Done::Suspended). The handler runs again, as the same attempt,
    /// when the signal has come.
    ///
    /// # Errors
    /// When nobody could send what is waited for, the lease is lost, no signing secret is installed,
    /// or the store does not answer.
    pub async fn suspend(&self, suspend: Suspend) -> Result<SignalTicket, ClientError> {
        suspend.check()?;
        let timeout_at = match suspend.timeout {
            Some((after, _)) => {
                let now = self.0.client.server_time().await?;
                let after_ms = i64::try_from(millis(after.min(SPAN_MAX))).unwrap_or(i64::MAX);
                Some(ServerTime(now.0.saturating_add(after_ms)))
            }
            None => None,
        };
        let waitpoint = WaitpointId::from(Uuid::new_v4());
        let call = SuspendExecution {
            execution_id: self.id().clone(),
            lane: self.0.lane.clone(),
            worker_instance_id: self.0.instance.clone(),
            attempt_index: self.attempt(),
            fence: self.0.work.fence,
            suspension_id: SuspensionId::from(Uuid::new_v4()),
            on: SuspendOn::New {
                primary: NewWaitpoint {
                    id: waitpoint,
                    key: WaitpointKey::new(format!("wpk:{waitpoint}")),
                },
                additional: Vec::new(),
            },
            reason: suspend.reason,
            requested_by: SuspensionRequester::Worker,
            timeout_at,
            timeout_behavior: suspend.timeout.map_or(TimeoutBehavior::Fail, |(_, then)| then),
            resume_condition_json: suspend.condition(),
            resume_policy_json: "{}".to_owned(),
            continuation_metadata_pointer: None,
            lease_history_maxlen: 1_000,
            // A repeated call gets the first answer, token and all.
            idempotency: Some(SuspendIdempotency {
                key: waitpoint.to_string(),
                ttl_ms: SUSPEND_REMEMBERED_MS,
            }),
        };
        let (Suspended::Waiting { waitpoints, .. }
        | Suspended::AlreadySatisfied { waitpoints, .. }) = self.0.client.repeat(&call).await?;
        self.0.suspended.store(true, Ordering::Release);
        let bound = waitpoints.into_iter().next();
        let bound = bound.ok_or_else(|| ClientError::Input("no waitpoint came back".to_owned()))?;
        Ok(SignalTicket {
            execution_id: self.id().clone(),
            waitpoint_id: bound.id,
            token: bound.token,
        })
    }

    /// The signals that it has received so far, oldest first, a hundred at most.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn signals(&self) -> Result<Vec<ReceivedSignal>, ClientError> {
        let client = &self.0.client;
        let key = Key::execution(self.id()).signals();
        let range: [&[u8]; 2] = [b"0", SIGNALS_LAST];
        let ids = client.read_one(Command::read("ZRANGE", &key, &range)).await?;
        let partition = self.id().partition();
        let mut reads = Vec::new();
        for id in crate::client::fields(ids) {
            let Ok(id) = id.parse::<SignalId>() else { continue };
            reads.push(Command::read("HGETALL", &Key::signal(partition, id), &[]));
            reads.push(Command::read("GET", &Key::signal_payload(partition, id), &[]));
        }
        let mut replies = client.read(reads).await?.into_iter();
        let mut received = Vec::new();
        while let (Some(record), Some(payload)) = (replies.next(), replies.next()) {
            let mut record = text_hash(record);
            received.push(ReceivedSignal {
                name: record.remove("signal_name").unwrap_or_default(),
                source: record.remove("source_identity").unwrap_or_default(),
                payload: crate::client::as_bytes(payload).unwrap_or_default(),
            });
        }
        Ok(received)
    }

    /// Whether it gave up its lease by suspending.
    pub(super) fn is_suspended(&self) -> bool {
        self.0.suspended.load(Ordering::Acquire)
    }
}

impl Suspend {
    /// Whether every signal that it waits for can be sent. To the library no name at all means any
    /// signal, which nobody asked for.
    fn check(&self) -> Result<(), ClientError> {
        if self.signals.is_empty() {
            return Err(ClientError::Input("there is no signal to wait for".to_owned()));
        }
        for name in &self.signals {
            check_name(name).map_err(|why| {
                ClientError::Input(format!("no signal can have the name {name:?}: {why}"))
            })?;
        }
        Ok(())
    }

    /// The resume condition in the contract's simple form.
    fn condition(&self) -> String {
        json!({
            "condition_type": "signal_set",
            "required_signal_names": self.signals,
            "signal_match_mode": if self.all { "all" } else { "any" },
            "minimum_signal_count": 1,
        })
        .to_string()
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Context({} {} attempt {})", self.kind(), self.id(), self.attempt())
    }
}

/// Largest frame: a megabyte.
const FRAME_BYTES_MAX: u32 = 1_048_576;
/// How long the answer to a suspend is remembered, for whoever did not get it: an hour.
const SUSPEND_REMEMBERED_MS: u64 = 3_600_000;
/// Index of the last signal that is read.
const SIGNALS_LAST: &[u8] = b"99";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_names_signals_that_can_be_sent() {
        assert!(Suspend::for_any(["a", "größer"]).check().is_ok());
        for (bad, says) in [
            (Suspend::for_all(Vec::<String>::new()), "no signal to wait for"),
            (Suspend::for_signal(""), "empty"),
            (Suspend::for_any(["a", "b\n"]), "\"b\\n\""),
        ] {
            let refused = bad.check().unwrap_err().to_string();
            assert!(refused.contains(says), "{refused}");
        }
    }
}
