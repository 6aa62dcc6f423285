//! What a scan came to for one candidate.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use crate::engine::observe::Observation;
use crate::error::{CallError, Class, Code, Refusal, ServerError};
use crate::id::ExecutionId;
use crate::retry::{Idempotency, Retry};

/// The kinds of outcome, told apart because each is counted and followed up differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engine) enum OutcomeKind {
    /// Work was done; how many pieces of it.
    Processed(u32),
    /// There was nothing to do: not due after all, or done by another engine.
    Nothing,
    /// The function refused: a failure of this item.
    Refused(Refusal),
    /// The store could not serve now. It is not the item's failure.
    NotNow(ServerError),
    /// Unknown whether it was done. The next scan will see.
    Perhaps(ServerError),
    /// The item's data cannot be worked on: a failure of this item.
    Failed(CallError),
    /// Passed over: backed off, or excluded by the filter.
    Skipped,
    /// The index entry cannot be read; it is set aside for the operator.
    Unreadable(&'static str),
}

/// A candidate's outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engine) struct CandidateOutcome {
    pub(in crate::engine) kind: OutcomeKind,
    /// Whether the entry is still in the index; paging goes past entries that remain.
    pub(in crate::engine) remains: bool,
    /// Executions that were skipped on the way; their own edges come next.
    pub(in crate::engine) skipped: Vec<ExecutionId>,
    pub(in crate::engine) observations: Vec<Observation>,
    /// When another look is worth it, if that is known.
    pub(in crate::engine) retry_in: Option<Duration>,
}

impl CandidateOutcome {
    /// Done, and gone from the index.
    pub(in crate::engine) fn processed() -> Self {
        Self::new(OutcomeKind::Processed(1), false)
    }

    /// So many pieces of work done, and gone from the index.
    pub(in crate::engine) fn processed_times(times: u32) -> Self {
        Self::new(OutcomeKind::Processed(times), false)
    }

    /// Nothing to do, and gone from the index.
    pub(in crate::engine) fn nothing() -> Self {
        Self::new(OutcomeKind::Nothing, false)
    }

    /// Passed over; the entry remains.
    pub(in crate::engine) fn skipped() -> Self {
        Self::new(OutcomeKind::Skipped, true)
    }

    /// An index entry that cannot be read.
    pub(in crate::engine) fn unreadable(reason: &'static str) -> Self {
        Self::new(OutcomeKind::Unreadable(reason), true)
    }

    /// A record that cannot be worked on; an operator should look.
    pub(in crate::engine) fn unworkable(reason: impl Into<String>) -> Self {
        Self::new(OutcomeKind::Failed(ServerError::from_reply(reason).into()), true)
    }

    /// The outcome of an error: the store's failure, an unknown result, or the item's own failure.
    pub(in crate::engine) fn error(error: CallError) -> Self {
        let kind = match error {
            CallError::Refused(refusal) => OutcomeKind::Refused(refusal),
            CallError::Server(error) => match error.retry(Idempotency::Idempotent) {
                Retry::Never => OutcomeKind::Failed(error.into()),
                _ if error.class == Class::Silence => OutcomeKind::Perhaps(error),
                Retry::AfterPause | Retry::AfterRepair => OutcomeKind::NotNow(error),
            },
            broken @ CallError::Broken(_) => OutcomeKind::Failed(broken),
        };
        Self::new(kind, true)
    }

    /// The outcome of an error, where some refusals mean that nothing is left to do.
    pub(in crate::engine) fn error_unless(error: CallError, benign: &[Code]) -> Self {
        match error {
            CallError::Refused(refusal) if benign.contains(&refusal.code) => {
                Self::nothing().remaining()
            }
            other @ (CallError::Refused(_) | CallError::Server(_) | CallError::Broken(_)) => {
                Self::error(other)
            }
        }
    }

    /// The entry is still in the index.
    pub(in crate::engine) fn remaining(mut self) -> Self {
        self.remains = true;
        self
    }

    /// Another look is worth it after this time.
    pub(in crate::engine) fn retry_in(mut self, time: Duration) -> Self {
        self.retry_in = Some(time);
        self
    }

    /// With executions that were skipped on the way.
    pub(in crate::engine) fn with_skipped(mut self, skipped: Vec<ExecutionId>) -> Self {
        self.skipped = skipped;
        self
    }

    pub(in crate::engine) fn with_observations(mut self, observations: Vec<Observation>) -> Self {
        self.observations = observations;
        self
    }

    fn new(kind: OutcomeKind, remains: bool) -> Self {
        let (skipped, observations) = (Vec::new(), Vec::new());
        Self { kind, remains, skipped, observations, retry_in: None }
    }
}
