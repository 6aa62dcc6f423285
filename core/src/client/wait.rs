//! Waits until an execution has ended.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use super::{Failure, Procedure, Replies, Step};
use crate::command::Command;
use crate::error::Broken;
use crate::id::ExecutionId;
use crate::key::Key;
use crate::push::Hint;
use crate::reply::{as_bytes, record};
use crate::state::TerminalOutcome;
use crate::value::Value;

/// How an execution ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outcome {
    /// The execution.
    pub id: ExecutionId,
    /// How it ended.
    pub outcome: TerminalOutcome,
    /// The result of its handler; empty if there is none.
    pub result: Vec<u8>,
    /// Why it failed, expired or was cancelled; empty otherwise.
    pub reason: String,
}

impl Outcome {
    /// Whether it succeeded.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.outcome == TerminalOutcome::Success
    }
}

/// The reads whose replies [`read_outcome`] needs.
#[must_use]
pub fn outcome_reads(id: &ExecutionId) -> Vec<Command> {
    let keys = Key::execution(id);
    let names: [&[u8]; 3] = [b"terminal_outcome", b"failure_reason", b"cancellation_reason"];
    vec![Command::read("HMGET", &keys.core(), &names), Command::read("GET", &keys.result(), &[])]
}

/// How an execution ended; `None` while it has not.
///
/// # Errors
/// [`Failure::NotFound`] when it does not exist; [`Failure::Unreadable`] when its record holds an
/// outcome that this version does not know.
pub fn read_outcome(
    id: &ExecutionId,
    core: Value,
    result: Value,
) -> Result<Option<Outcome>, Failure> {
    let Some(record) = record(core) else {
        return Err(Failure::not_found("execution", id));
    };
    let outcome = parse_outcome(record.field(0))?;
    if outcome == TerminalOutcome::None {
        return Ok(None);
    }
    let reason = record.field(if outcome == TerminalOutcome::Cancelled { 2 } else { 1 });
    let (result, reason) = (as_bytes(result).unwrap_or_default(), reason.into());
    Ok(Some(Outcome { id: id.clone(), outcome, result, reason }))
}

/// An outcome in a record.
pub(super) fn parse_outcome(word: &str) -> Result<TerminalOutcome, Failure> {
    if word.is_empty() {
        return Ok(TerminalOutcome::None);
    }
    word.parse().map_err(|_| {
        let got = Value::Bulk(word.as_bytes().to_vec());
        Failure::Unreadable(Broken { expected: "an outcome", got })
    })
}

/// Waits until an execution has ended. It subscribes first and then reads, so that an end in
/// between is noticed; it reads again after every push, after every gap, and every
/// [`POLL_EVERY`](Wait::POLL_EVERY) for pushes that were lost without a gap.
pub struct Wait {
    id: ExecutionId,
    is_listening: bool,
}

impl Wait {
    /// How often it reads without a push: a cluster may lose messages between its nodes.
    pub const POLL_EVERY: Duration = Duration::from_secs(15);

    /// Waits for this execution.
    #[must_use]
    pub const fn new(id: ExecutionId) -> Self {
        Self { id, is_listening: false }
    }
}

impl Procedure for Wait {
    type Output = Outcome;

    fn begin(&mut self) -> Step<Outcome> {
        if core::mem::replace(&mut self.is_listening, true) {
            return Step::Send(outcome_reads(&self.id));
        }
        Step::Listen(vec![self.id.clone()])
    }

    fn replied(&mut self, mut replies: Replies) -> Step<Outcome> {
        match read_outcome(&self.id, replies.value(), replies.value()) {
            Ok(Some(outcome)) => Step::Done(Ok(outcome)),
            Ok(None) => Step::Wait { poll_within: Self::POLL_EVERY, coalesce: Duration::ZERO },
            Err(failure) => Step::Done(Err(failure)),
        }
    }

    fn pushed(&mut self, hint: &Hint) -> bool {
        matches!(hint, Hint::Ended(id) if *id == self.id)
    }
}
