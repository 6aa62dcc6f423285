//! The steps of a candidate between replies.
//!
//! A step sends commands and says how to go on with their replies, or it is the last one. The steps
//! of many candidates run side by side and their commands are pipelined, so a scanner reads as if
//! it had the store to itself.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::outcome::CandidateOutcome;
use crate::call::Function;
use crate::command::Command;
use crate::command::Reply;
use crate::error::{CallError, ServerError};

/// How a step goes on with its replies.
pub(in crate::engine) type NextStep =
    Box<dyn FnOnce(&mut ScanScratch, Vec<Reply>) -> ScanStep + Send>;

/// What a scanner's candidates share, on all partitions and within one interval: how much of a
/// limited resource has been given away.
#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct ScanScratch(BTreeMap<String, u64>);

impl ScanScratch {
    /// Takes one of `available` under this name, if one is left.
    pub(in crate::engine) fn take_one(&mut self, name: &str, available: u64) -> bool {
        let taken = self.0.entry(name.into()).or_default();
        let left = *taken < available;
        *taken += u64::from(left);
        left
    }

    /// Forgets what was taken under every name with this prefix.
    pub(super) fn reset_prefix(&mut self, prefix: &str) {
        self.0.retain(|name, _| !name.starts_with(prefix));
    }
}

/// What a candidate needs next.
pub(in crate::engine) enum ScanStep {
    /// The replies to these commands.
    Send(Vec<Command>, NextStep),
    /// Nothing.
    Done(CandidateOutcome),
}

impl ScanStep {
    /// One function call.
    pub(in crate::engine) fn call<F: Function + 'static>(
        call: &F,
        then: impl FnOnce(Result<F::Reply, CallError>) -> Self + Send + 'static,
    ) -> Self {
        Self::Send(vec![Command::call(call)], Box::new(move |_, replies| then(one::<F>(replies))))
    }

    /// Several calls of one function.
    pub(in crate::engine) fn calls<F: Function + 'static>(
        calls: &[F],
        then: impl FnOnce(Vec<Result<F::Reply, CallError>>) -> Self + Send + 'static,
    ) -> Self {
        let commands = calls.iter().map(Command::call).collect();
        Self::Send(
            commands,
            Box::new(move |_, replies| then(replies.into_iter().map(parse::<F>).collect())),
        )
    }

    /// Plain reads.
    pub(in crate::engine) fn read(
        commands: Vec<Command>,
        then: impl FnOnce(Vec<Reply>) -> Self + Send + 'static,
    ) -> Self {
        Self::Send(commands, Box::new(move |_, replies| then(replies)))
    }

    /// Plain reads whose replies concern other candidates of the scanner too.
    pub(in crate::engine) fn read_with_scratch(
        commands: Vec<Command>,
        then: impl FnOnce(&mut ScanScratch, Vec<Reply>) -> Self + Send + 'static,
    ) -> Self {
        Self::Send(commands, Box::new(then))
    }

    /// This step, and when it is done, another.
    pub(super) fn and_then(
        self,
        next: impl FnOnce(CandidateOutcome) -> Self + Send + 'static,
    ) -> Self {
        match self {
            Self::Done(outcome) => next(outcome),
            Self::Send(commands, then) => Self::Send(
                commands,
                Box::new(move |scratch, replies| then(scratch, replies).and_then(next)),
            ),
        }
    }
}

impl From<CandidateOutcome> for ScanStep {
    fn from(outcome: CandidateOutcome) -> Self {
        Self::Done(outcome)
    }
}

fn parse<F: Function>(reply: Reply) -> Result<F::Reply, CallError> {
    reply.map_err(CallError::from).and_then(F::parse)
}

fn one<F: Function>(replies: Vec<Reply>) -> Result<F::Reply, CallError> {
    match replies.into_iter().next() {
        Some(reply) => parse::<F>(reply),
        None => Err(ServerError::silence("no answer").into()),
    }
}
