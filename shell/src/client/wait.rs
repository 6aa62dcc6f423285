//! Waiting until executions or flows have ended: see [`selvedge_core::client`].

use std::any::type_name;
use std::time::Duration;

use selvedge_core::client::{FlowOutcome, Outcome, Wait, WaitFlow, outcome_reads, read_outcome};
use selvedge_core::id::{ExecutionId, FlowId};
use selvedge_core::value::Value;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::{Client, ClientError};

/// Reads a payload or result (`what`) of an execution as JSON.
pub(crate) fn from_json<T: DeserializeOwned>(
    what: &'static str,
    id: &ExecutionId,
    json: &[u8],
) -> Result<T, ClientError> {
    serde_json::from_slice(json).map_err(|error| ClientError::NotJson {
        what,
        id: id.clone(),
        expected: type_name::<T>(),
        reason: error.to_string(),
    })
}

impl Client {
    /// Waits until an execution has ended, without a time limit. Woken by pushes; reads at least
    /// every 15 seconds.
    ///
    /// # Errors
    /// [`ClientError::NotFound`] when it does not exist or was deleted; otherwise when the store
    /// does not answer.
    pub async fn wait(&self, id: &ExecutionId) -> Result<Outcome, ClientError> {
        self.run(Wait::new(id.clone())).await
    }

    /// [`Client::wait`], and reads the result as JSON.
    ///
    /// # Errors
    /// As for [`Client::wait`]; [`ClientError::NoSuccess`] when it ended without a result,
    /// [`ClientError::NotJson`] when the result is none of the type.
    pub async fn wait_as<T: DeserializeOwned>(&self, id: &ExecutionId) -> Result<T, ClientError> {
        let ended = self.wait(id).await?;
        if !ended.is_success() {
            return Err(ClientError::NoSuccess(ended));
        }
        from_json("result", id, &ended.result)
    }

    /// [`Client::wait`] with a time limit.
    ///
    /// # Errors
    /// As for [`Client::wait`]; [`ClientError::TimedOut`] when the limit is reached.
    pub async fn wait_within(
        &self,
        id: &ExecutionId,
        limit: Duration,
    ) -> Result<Outcome, ClientError> {
        timeout(limit, self.wait(id)).await.unwrap_or(Err(ClientError::TimedOut(limit)))
    }

    /// How an execution ended; `None` while it has not. One round trip.
    ///
    /// # Errors
    /// [`ClientError::NotFound`] when it does not exist; otherwise when the store does not answer.
    pub async fn outcome(&self, id: &ExecutionId) -> Result<Option<Outcome>, ClientError> {
        let mut replies = self.read(outcome_reads(id)).await?.into_iter();
        let mut reply = || replies.next().unwrap_or(Value::Nil);
        let outcome = read_outcome(id, reply(), reply());
        outcome.map_err(|failure| ClientError::of(failure, self.partitions()))
    }

    /// Waits until all tasks of a flow have ended, without a time limit.
    ///
    /// # Errors
    /// [`ClientError::NotFound`] when the flow does not exist; otherwise when the store does not
    /// answer.
    pub async fn wait_flow(&self, id: FlowId) -> Result<FlowOutcome, ClientError> {
        self.run(WaitFlow::new(id, self.partitions().of_flow(id))).await
    }

    /// [`Client::wait_flow`] with a time limit.
    ///
    /// # Errors
    /// As for [`Client::wait_flow`]; [`ClientError::TimedOut`] when the limit is reached.
    pub async fn wait_flow_within(
        &self,
        id: FlowId,
        limit: Duration,
    ) -> Result<FlowOutcome, ClientError> {
        timeout(limit, self.wait_flow(id)).await.unwrap_or(Err(ClientError::TimedOut(limit)))
    }
}
