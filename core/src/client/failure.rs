//! [`Failure`]: why a procedure ended without its result.

use alloc::string::{String, ToString};

use thiserror::Error;

use crate::error::{Broken, CallError, Refusal, ServerError};
use crate::id::LaneId;

/// Why a procedure ended without its result.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Failure {
    /// It does not exist. Nothing was written.
    #[error("there is no {kind} {id}")]
    NotFound {
        /// What was looked for: `execution`, `flow`, `budget` or `quota`.
        kind: &'static str,
        /// Its id.
        id: String,
    },
    /// The deployment has other partition counts; as texts, because anybody may have written them.
    /// Nothing was written.
    #[error("the deployment has {flow} flow, {budget} budget and {quota} quota partitions")]
    OtherCounts {
        /// The stored number of flow partitions.
        flow: String,
        /// The stored number of budget partitions.
        budget: String,
        /// The stored number of quota partitions.
        quota: String,
    },
    /// It was submitted before with other content, under the same id or idempotency key. Nothing
    /// was written.
    #[error("{kind} {id} was submitted before with other content")]
    OtherContent {
        /// `flow` or `execution`.
        kind: &'static str,
        /// Its id.
        id: String,
    },
    /// The lane is being drained: nothing new is accepted. Nothing was written.
    #[error("lane {lane} accepts no new work: it is being drained")]
    LaneDraining {
        /// The lane.
        lane: LaneId,
    },
    /// The library refused the call.
    #[error("refused: {0}")]
    Refused(Refusal),
    /// The server did not answer in time, or could not serve the call. The error says whether the
    /// last try was perhaps applied.
    #[error("{0}")]
    Unavailable(ServerError),
    /// A reply cannot be read.
    #[error(transparent)]
    Unreadable(Broken),
}

impl Failure {
    pub(super) fn not_found(kind: &'static str, id: &impl ToString) -> Self {
        Self::NotFound { kind, id: id.to_string() }
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused(refusal) => Self::Refused(refusal),
            CallError::Server(error) => Self::Unavailable(error),
            CallError::Broken(broken) => Self::Unreadable(broken),
        }
    }
}
