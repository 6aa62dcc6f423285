//! A candidate's way through a scan, as small steps between answers.
//!
//! A step asks for commands and says how to go on with their answers, or it is done. The driver
//! runs the steps of many candidates side by side and pipelines what they ask, so a scanner reads
//! as if it had the store for itself.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use super::observe::Observation;
use super::wire::Command;
use crate::call::Function;
use crate::error::{CallError, Class, Code, Refusal, ServerError};
use crate::id::ExecutionId;
use crate::value::Value;

/// An answer as a step sees it.
pub type Reply = Result<Value, ServerError>;

/// How a step goes on with its answers.
pub type Then = Box<dyn FnOnce(&mut Notes, Vec<Reply>) -> Step + Send>;

/// What a scanner's candidates tell each other, on all partitions and within one interval: how much
/// of something scarce has been given away already.
#[derive(Clone, Debug, Default)]
pub struct Notes(BTreeMap<String, u64>);

impl Notes {
    /// Takes one of `available` under this name, if there is one left.
    pub fn take_one(&mut self, name: &str, available: u64) -> bool {
        let taken = self.0.entry(name.into()).or_default();
        let left = *taken < available;
        *taken += u64::from(left);
        left
    }

    /// Counts anew under every name that begins so: what was given away has come back.
    pub(super) fn count_anew(&mut self, beginning: &str) {
        self.0.retain(|name, _| !name.starts_with(beginning));
    }
}

/// What a candidate wants next.
pub enum Step {
    /// These commands, then on with their answers.
    Ask(Vec<Command>, Then),
    /// Nothing more.
    Done(Verdict),
}

impl Step {
    /// Asks for one function call.
    pub fn call<F: Function + 'static>(
        call: &F,
        then: impl FnOnce(Result<F::Reply, CallError>) -> Self + Send + 'static,
    ) -> Self {
        Self::Ask(vec![Command::call(call)], Box::new(move |_, replies| then(one::<F>(replies))))
    }

    /// Asks for several calls of one function at once.
    pub fn calls<F: Function + 'static>(
        calls: &[F],
        then: impl FnOnce(Vec<Result<F::Reply, CallError>>) -> Self + Send + 'static,
    ) -> Self {
        let commands = calls.iter().map(Command::call).collect();
        Self::Ask(
            commands,
            Box::new(move |_, replies| then(replies.into_iter().map(parsed::<F>).collect())),
        )
    }

    /// Asks for plain reads.
    pub fn read(
        commands: Vec<Command>,
        then: impl FnOnce(Vec<Reply>) -> Self + Send + 'static,
    ) -> Self {
        Self::Ask(commands, Box::new(move |_, replies| then(replies)))
    }

    /// Asks for plain reads whose answers matter to the scanner's other candidates too.
    pub fn read_with_notes(
        commands: Vec<Command>,
        then: impl FnOnce(&mut Notes, Vec<Reply>) -> Self + Send + 'static,
    ) -> Self {
        Self::Ask(commands, Box::new(then))
    }

    /// This step, and when it is done, another.
    pub(super) fn and_then(self, next: impl FnOnce(Verdict) -> Self + Send + 'static) -> Self {
        match self {
            Self::Done(verdict) => next(verdict),
            Self::Ask(commands, then) => Self::Ask(
                commands,
                Box::new(move |notes, replies| then(notes, replies).and_then(next)),
            ),
        }
    }
}

fn parsed<F: Function>(reply: Reply) -> Result<F::Reply, CallError> {
    reply.map_err(CallError::from).and_then(F::parse)
}

fn one<F: Function>(replies: Vec<Reply>) -> Result<F::Reply, CallError> {
    match replies.into_iter().next() {
        Some(reply) => parsed::<F>(reply),
        None => Err(ServerError::silence("no answer").into()),
    }
}

/// What became of a candidate. The kinds are told apart because they call for different things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Work was done; how much of it.
    Processed(u32),
    /// There was nothing to do: not due after all, or done by somebody else.
    Nothing,
    /// The function said no, and that is this item's failure.
    Refused(Refusal),
    /// The store is to blame, not the item; it stays, uncharged.
    NotNow(ServerError),
    /// Nobody knows whether it was done. The next scan will see.
    Perhaps(ServerError),
    /// The item is to blame: its data cannot be worked on.
    Failed(CallError),
    /// Passed over: left alone for a while, or not ours.
    Skipped,
    /// The index entry itself cannot be read; it is set aside for the operator.
    Poison(&'static str),
}

/// A candidate's fate, and what it leaves behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What became of it.
    pub fate: Fate,
    /// Whether it is still in the index; paging goes past what stays.
    pub stays: bool,
    /// Executions that ended on the way; their own dependants come next.
    pub ended: Vec<ExecutionId>,
    /// Facts worth counting.
    pub facts: Vec<Observation>,
    /// When it is worth another look, if that is known.
    pub again_in: Option<Duration>,
}

impl Verdict {
    /// Done, and gone from the index.
    #[must_use]
    pub fn processed() -> Self {
        Self::of(Fate::Processed(1), false)
    }

    /// Nothing to do, and gone from the index.
    #[must_use]
    pub fn nothing() -> Self {
        Self::of(Fate::Nothing, false)
    }

    /// Passed over; it stays where it is.
    #[must_use]
    pub fn skipped() -> Self {
        Self::of(Fate::Skipped, true)
    }

    /// An index entry that cannot be read.
    #[must_use]
    pub fn poison(reason: &'static str) -> Self {
        Self::of(Fate::Poison(reason), true)
    }

    /// A record that cannot be worked on; a person should look.
    #[must_use]
    pub fn unworkable(reason: impl Into<String>) -> Self {
        Self::of(Fate::Failed(ServerError::from_reply(reason).into()), true)
    }

    /// Sorts an error: the store's trouble, silence, or the item's own.
    #[must_use]
    pub fn error(error: CallError) -> Self {
        let fate = match error {
            CallError::Refused(refusal) => Fate::Refused(refusal),
            CallError::Server(error) => match error.class {
                Class::Silence => Fate::Perhaps(error),
                Class::NotNow | Class::Redirect | Class::Library | Class::Denied => {
                    Fate::NotNow(error)
                }
                Class::Broken => Fate::Failed(error.into()),
            },
            broken @ CallError::Broken(_) => Fate::Failed(broken),
        };
        Self::of(fate, true)
    }

    /// The same, but some refusals mean that there is nothing left to do.
    #[must_use]
    pub fn error_unless(error: CallError, benign: &[Code]) -> Self {
        match error {
            CallError::Refused(refusal) if benign.contains(&refusal.code) => {
                Self::nothing().staying()
            }
            other @ (CallError::Refused(_) | CallError::Server(_) | CallError::Broken(_)) => {
                Self::error(other)
            }
        }
    }

    /// Still in the index.
    #[must_use]
    pub fn staying(mut self) -> Self {
        self.stays = true;
        self
    }

    /// Worth another look after this time.
    #[must_use]
    pub fn again_in(mut self, time: Duration) -> Self {
        self.again_in = Some(time);
        self
    }

    /// With executions that ended on the way.
    #[must_use]
    pub fn ending(mut self, ended: Vec<ExecutionId>) -> Self {
        self.ended = ended;
        self
    }

    /// With facts worth counting.
    #[must_use]
    pub fn noting(mut self, facts: Vec<Observation>) -> Self {
        self.facts = facts;
        self
    }

    /// This verdict, counted `times`.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.fate = Fate::Processed(times);
        self
    }

    fn of(fate: Fate, stays: bool) -> Self {
        Self { fate, stays, ended: Vec::new(), facts: Vec::new(), again_in: None }
    }
}

impl From<Verdict> for Step {
    fn from(verdict: Verdict) -> Self {
        Self::Done(verdict)
    }
}
