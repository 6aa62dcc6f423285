//! Cancels executions and flows; changes priorities and tags.

use selvedge_core::call::execution::SetExecutionTags;
use selvedge_core::client::{Cancel, CancelFlow, CancelledFlow, ChangePriority};
use selvedge_core::id::{ExecutionId, FlowId};

use super::invalid_input::InvalidInput;
use super::task::PRIORITY_MAX;
use super::{Client, ClientError};

impl Client {
    /// Cancels an execution in any state. A worker that runs it is notified at once. Succeeds if it
    /// is cancelled already.
    ///
    /// # Errors
    /// [`ClientError::NotFound`] when it does not exist; [`ClientError::Refused`] with
    /// `execution_not_active` when it ended with another outcome; otherwise when the store does not
    /// answer.
    pub async fn cancel(&self, id: &ExecutionId, reason: &str) -> Result<(), ClientError> {
        self.run(Cancel::new(id.clone(), reason.to_owned())).await
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
        self.run(CancelFlow::new(id, partition, reason.to_owned())).await
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
            return Err(InvalidInput::PriorityTooHigh(priority).into());
        }
        self.run(ChangePriority::new(id.clone(), priority)).await
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
