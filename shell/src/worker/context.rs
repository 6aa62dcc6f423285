//! [`Context`]: what a handler gets. Its input, progress, output frames and budget usage;
//! suspending is in `suspend.rs`.

use std::future::Future;
use std::sync::Arc;

use selvedge_core::call::budget::UsageVerdict;
use selvedge_core::call::scheduling::ClaimedWork;
use selvedge_core::call::stream::FrameMode;
use selvedge_core::id::{AttemptIndex, BudgetId, ExecutionId, FlowId, LaneId};
use selvedge_core::policy::ExecutionPolicy;
use selvedge_core::worker::{HandlerReply, HandlerRequest, HandlerRequestError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::driver::PendingRequest;
use super::extract::States;
use crate::client::{Client, ClientError, InvalidInput, check_argument, from_json, member_id};

/// The execution that a handler runs, and the calls it can make on it. Clones share everything.
#[derive(Clone)]
pub struct Context(Arc<Inner>);

struct Inner {
    client: Client,
    work: ClaimedWork,
    policy: ExecutionPolicy,
    lane: LaneId,
    cancelled: CancellationToken,
    requests: mpsc::UnboundedSender<PendingRequest>,
    states: Arc<States>,
}

impl Context {
    pub(super) fn new(
        client: Client,
        work: ClaimedWork,
        lane: LaneId,
        cancelled: CancellationToken,
        requests: mpsc::UnboundedSender<PendingRequest>,
        states: Arc<States>,
    ) -> Self {
        // A policy that cannot be parsed was stored by another program; the library ignores it too.
        let policy = ExecutionPolicy::read(&work.policy_json).unwrap_or_default();
        Self(Arc::new(Inner { client, work, policy, lane, cancelled, requests, states }))
    }

    /// The id of the execution.
    #[must_use]
    pub fn id(&self) -> &ExecutionId {
        &self.0.work.execution_id
    }

    /// The flow it belongs to; `None` for an execution started by itself.
    #[must_use]
    pub fn flow(&self) -> Option<FlowId> {
        self.0.work.flow_id
    }

    /// Its kind, by which the handler was chosen.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.0.work.execution_kind
    }

    /// Its input.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.0.work.payload
    }

    /// Its input, read as JSON; [`Json`](super::Json) as an argument of the handler does the same.
    ///
    /// # Errors
    /// [`ClientError::NotJson`], which fails the execution permanently when the handler returns it.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, ClientError> {
        from_json("payload", self.id(), self.payload())
    }

    /// The index of this attempt; the first is 0.
    #[must_use]
    pub fn attempt(&self) -> AttemptIndex {
        self.0.work.attempt_index
    }

    /// Whether it resumes after a suspension or a delay; [`Context::signals`] returns the signals
    /// received.
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        self.0.work.attempt_type == "resumed"
    }

    /// Waits until the lease is lost, the execution was cancelled, or the worker's drain time is
    /// over. The handler should stop then: after a lost lease its outcome is discarded.
    pub fn cancelled(&self) -> impl Future<Output = ()> + Send + 'static {
        self.0.cancelled.clone().cancelled_owned()
    }

    /// Whether [`Context::cancelled`] is over.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.is_cancelled()
    }

    /// The worker's client.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.0.client
    }

    /// The policy it was submitted with.
    #[must_use]
    pub fn policy(&self) -> &ExecutionPolicy {
        &self.0.policy
    }

    /// The execution id of another task of the same flow, by task name; `None` outside of a flow.
    /// It is computed, not looked up: the task may not exist.
    #[must_use]
    pub fn sibling(&self, name: &str) -> Option<ExecutionId> {
        self.flow().map(|flow| member_id(self.id().partition(), flow, name))
    }

    /// The result of another task of the same flow, by task name; `None` if it has none (yet).
    ///
    /// # Errors
    /// [`ClientError::Unavailable`] when the store does not answer.
    pub async fn result_of(&self, name: &str) -> Result<Option<Vec<u8>>, ClientError> {
        match self.sibling(name) {
            Some(id) => self.0.client.result(&id).await,
            None => Ok(None),
        }
    }

    /// [`Context::result_of`], read as JSON.
    ///
    /// # Errors
    /// [`ClientError::NotJson`], which fails the execution permanently when the handler returns it;
    /// [`ClientError::Unavailable`] when the store does not answer.
    pub async fn result_as<T: DeserializeOwned>(
        &self,
        name: &str,
    ) -> Result<Option<T>, ClientError> {
        let Some(id) = self.sibling(name) else { return Ok(None) };
        let result = self.0.client.result(&id).await?;
        result.map(|result| from_json("result", &id, &result)).transpose()
    }

    /// Records progress: a percentage and a message for people.
    ///
    /// # Errors
    /// [`ClientError::InvalidInput`] for more than 100 percent, [`ClientError::LeaseLost`], or
    /// [`ClientError::Unavailable`] when the store does not answer.
    pub async fn progress(&self, percent: u16, message: &str) -> Result<(), ClientError> {
        if percent > 100 {
            return Err(InvalidInput::Percent(percent).into());
        }
        let message = message.to_owned();
        self.request(HandlerRequest::Progress { percent, message }).await.map(drop)
    }

    /// Appends a frame to the output of this attempt; at most 1 MiB. A frame whose reply is lost is
    /// not retried: the handler may send it again and accept a duplicate.
    ///
    /// # Errors
    /// When the kind is not a name, the lease is lost, the frame is too large, or the store does
    /// not answer.
    pub async fn frame(&self, kind: &str, payload: impl Into<Vec<u8>>) -> Result<(), ClientError> {
        check_argument("kind of the frame", kind)?;
        self.append(kind, payload.into(), FrameMode::Durable).await
    }

    /// Applies a JSON merge patch to the summary document of this attempt.
    ///
    /// # Errors
    /// As for [`Context::frame`].
    pub async fn summarize(&self, patch: &impl Serialize) -> Result<(), ClientError> {
        let patch = serde_json::to_vec(patch)
            .map_err(|error| InvalidInput::Summary { reason: error.to_string() })?;
        self.append("summary", patch, FrameMode::Summary).await
    }

    async fn append(
        &self,
        kind: &str,
        payload: Vec<u8>,
        mode: FrameMode,
    ) -> Result<(), ClientError> {
        self.request(HandlerRequest::Frame { kind: kind.to_owned(), payload, mode }).await.map(drop)
    }

    /// Adds usage that has happened to every budget of the execution, and returns each budget's
    /// verdict. It is counted also above a hard limit: then the handler should stop, and no further
    /// task under the budget starts. Idempotent within an attempt for a day: the same `report` name
    /// counts once within 24 hours. Another attempt counts again; to count once over all attempts,
    /// use [`Client::spend`] with a name of its own.
    ///
    /// # Errors
    /// When the store does not answer, or the handler has ended.
    pub async fn spend(
        &self,
        report: &str,
        amounts: &[(&str, i64)],
    ) -> Result<Vec<(BudgetId, UsageVerdict)>, ClientError> {
        let request = HandlerRequest::Spend {
            report: report.to_owned(),
            deltas: crate::client::deltas(amounts),
        };
        match self.request(request).await? {
            HandlerReply::Spent(verdicts) => Ok(verdicts),
            HandlerReply::Done | HandlerReply::Waitpoint(_) | HandlerReply::Suspended(_) => {
                Ok(Vec::new())
            }
        }
    }

    /// Asks the worker for something that counts under the lease of this handler.
    pub(super) async fn request(
        &self,
        request: HandlerRequest,
    ) -> Result<HandlerReply, ClientError> {
        let lost = || ClientError::LeaseLost(self.id().clone());
        let (answer, answered) = oneshot::channel();
        let pending = PendingRequest { lease: self.0.work.fence.lease_id, request, answer };
        // A worker that has stopped renews no leases.
        self.0.requests.send(pending).map_err(|_| lost())?;
        match answered.await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(HandlerRequestError::Call(error))) => Err(error.into()),
            Ok(Err(HandlerRequestError::LeaseLost)) | Err(_) => Err(lost()),
        }
    }

    pub(super) fn states(&self) -> &States {
        &self.0.states
    }

    /// The lane it was claimed from.
    #[must_use]
    pub fn lane(&self) -> &LaneId {
        &self.0.lane
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Context({} {} attempt {})", self.kind(), self.id(), self.attempt())
    }
}

#[cfg(all(test, feature = "memory"))]
mod tests {
    use super::*;
    use crate::client::Task;
    use crate::worker::{Failed, Worker};
    use tokio::sync::mpsc;

    #[tokio::test]
    async fn a_handler_is_told_that_its_lease_is_lost_and_what_it_cannot_say() {
        let client = Client::connect("memory://").await.unwrap();
        let id = client.start(Task::new("a", "a")).await.unwrap();
        let (tell, mut told) = mpsc::unbounded_channel();
        let worker = Worker::builder(client.clone()).handler("a", move |context: Context| {
            let tell = tell.clone();
            async move {
                tell.send(context.progress(101, "too much").await)?;
                tell.send(context.frame("", "of no kind").await)?;
                context.cancelled().await;
                assert!(context.is_cancelled());
                tell.send(context.progress(50, "too late").await)?;
                tell.send(context.frame("line", "too late").await)?;
                tell.send(context.summarize(&["too late"]).await)?;
                Ok::<_, Failed>(())
            }
        });
        let stop = CancellationToken::new();
        let worker = tokio::spawn(worker.run_until(stop.clone().cancelled_owned()));
        for _ in 0..2 {
            let refused = told.recv().await.unwrap();
            assert!(matches!(refused, Err(ClientError::InvalidInput(_))), "{refused:?}");
        }
        client.cancel(&id, "not needed").await.unwrap();
        for _ in 0..3 {
            let lost = told.recv().await.unwrap();
            assert!(matches!(&lost, Err(ClientError::LeaseLost(of)) if *of == id), "{lost:?}");
        }
        stop.cancel();
        worker.await.unwrap().unwrap();
    }
}
