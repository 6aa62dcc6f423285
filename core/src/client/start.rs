//! Submits one execution without a flow.

use alloc::vec;
use core::time::Duration;

use super::preparation::{Preparation, Prepare};
use super::{Needs, Procedure, Replies, Step, duplicate};
use crate::call::execution::{CreateExecution, Creation};
use crate::command::Command;
use crate::id::ExecutionId;
use crate::time::ServerTime;

/// When a task may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartTime {
    /// At once.
    AtOnce,
    /// This long after it was submitted.
    After(Duration),
    /// At this time, by the server's clock.
    NotBefore(ServerTime),
}

impl StartTime {
    /// Whether it depends on the time of its submission.
    #[must_use]
    pub const fn is_relative(self) -> bool {
        matches!(self, Self::After(_))
    }

    /// The time for a submission at `now`; none for at once.
    pub(super) fn at(self, now: Option<ServerTime>) -> Option<ServerTime> {
        match self {
            Self::AtOnce => None,
            Self::NotBefore(time) => Some(time),
            Self::After(delay) => now.map(|now| {
                let delay_ms = i64::try_from(delay.as_millis()).unwrap_or(i64::MAX);
                ServerTime(now.0.saturating_add(delay_ms))
            }),
        }
    }
}

/// Submits one execution: checks its limits, registers its lane, creates it. Returns its id, or
/// that of the first execution with the same idempotency key, which must have the same content.
pub struct Start {
    preparation: Preparation,
    call: CreateExecution,
    start: StartTime,
    is_prepared: bool,
    /// The execution that the idempotency key belongs to; it is being compared.
    first: Option<ExecutionId>,
}

impl Start {
    /// Creates `call`; its `delay_until` is set from `start`.
    #[must_use]
    pub fn new(needs: Needs, call: CreateExecution, start: StartTime) -> Self {
        let slot = call.execution_id.partition().slot();
        let preparation = Preparation::new(needs, start.is_relative().then_some(slot));
        Self { preparation, call, start, is_prepared: false, first: None }
    }

    fn prepared(&mut self, prepared: Prepare) -> Step<ExecutionId> {
        match prepared {
            Prepare::Send(commands) => Step::Send(commands),
            Prepare::Failed(failure) => Step::Done(Err(failure)),
            Prepare::Ready(now) => {
                self.call.delay_until = self.start.at(now);
                self.is_prepared = true;
                Step::Send(vec![Command::call(&self.call)])
            }
        }
    }
}

impl Procedure for Start {
    type Output = ExecutionId;

    fn begin(&mut self) -> Step<ExecutionId> {
        let prepared = self.preparation.begin();
        self.prepared(prepared)
    }

    fn replied(&mut self, mut replies: Replies) -> Step<ExecutionId> {
        if !self.is_prepared {
            let prepared = self.preparation.replied(replies);
            return self.prepared(prepared);
        }
        if let Some(first) = self.first.take() {
            return Step::Done(duplicate::check(&self.call, &first, &mut replies).map(|()| first));
        }
        match replies.call::<CreateExecution>() {
            Err(failure) => Step::Done(Err(failure)),
            Ok(Creation::Created(_)) => Step::Done(Ok(self.call.execution_id.clone())),
            Ok(Creation::Duplicate(first)) if first == self.call.execution_id => {
                Step::Done(Ok(first))
            }
            Ok(Creation::Duplicate(first)) => {
                Step::Send(duplicate::reads(self.first.insert(first)).to_vec())
            }
        }
    }
}
