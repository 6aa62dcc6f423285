//! The client: its procedures as small state machines.
//!
//! A [`Procedure`] decides what to send to the store next, given the replies to what it sent last.
//! A [`Machine`] runs one procedure to its end: it splits commands into batches for one hash slot
//! each, repeats those that were not answered, wakes the procedure when a push or a poll is due,
//! and keeps the result. Whoever owns a store and a clock drives it as every machine of this crate:
//!
//! ```
//! use selvedge_core::call::library::Version;
//! use selvedge_core::client::{Call, Effect, Input, Machine, Settings};
//! use selvedge_core::command::Answer;
//! use selvedge_core::time::LocalTime;
//! use selvedge_core::value::Value;
//!
//! let mut machine = Machine::new(Call::new(&Version), Settings::default(), 7);
//! machine.handle(LocalTime(0), Input::Wake);
//! let Some(Effect::Send { ticket, batch, .. }) = machine.next_effect() else { panic!() };
//! assert_eq!(batch.len(), 1);
//! let answers = vec![Answer::Applied(Value::Bulk(b"34".to_vec()))];
//! machine.handle(LocalTime(3), Input::Settled { ticket, answers });
//! assert_eq!(machine.take_result(), Some(Ok("34".to_owned())));
//! ```
//!
//! | procedure | steps |
//! | --- | --- |
//! | [`Call`], [`Read`], [`ReadTime`] | one call, repeated until it is answered; [`ReadOnce`]: not repeated |
//! | [`CallAt`] | the server's time, then a call that needs it: budgets and quotas |
//! | [`Submit`] | limits checked, lanes registered, chunks, sealing, tags |
//! | [`Start`] | limits checked, lane registered, one execution created |
//! | [`StartMany`] | limits checked, lanes registered, executions created, many in a round trip |
//! | [`Wait`], [`WaitFlow`] | subscribe, read, and read again after every push, gap or poll |
//! | [`NextFrames`] | the next output of an attempt, read or waited for |
//! | [`SendSignal`] | delivered, or buffered while the waitpoint is pending |
//! | [`ChangePriority`] | the lane read, then the call |
//! | [`RegisterWorker`], [`DeregisterWorker`] | the entry of a worker written, expired ones removed |
//! | [`Cancel`], [`CancelFlow`], [`Replay`] | the record read, then the call; compared after silence |
//! | [`ForgetLane`] | a lane's indexes counted, the lane removed, and counted again later |
//! | [`ReplayNeeds`] | an execution's edges read, then their upstreams |

mod call;
mod cancel;
mod cancel_flow;
mod change_priority;
mod duplicate;
mod failure;
mod forget_lane;
mod install_key;
mod machine;
mod preparation;
mod register_worker;
mod replay;
mod replay_needs;
mod signal;
mod start;
mod start_many;
mod submit;
mod tail;
#[cfg(test)]
mod tests;
mod wait;
mod wait_flow;
mod window;

use alloc::vec::Vec;
use core::time::Duration;

pub use call::{Call, CallAt, Read, ReadOnce, ReadTime};
pub use cancel::Cancel;
pub use cancel_flow::{CancelFlow, CancelledFlow};
pub use change_priority::ChangePriority;
pub use failure::Failure;
pub use forget_lane::{ForgetLane, LaneForgotten};
pub use install_key::{InstallKey, Installation, SigningKey};
pub use machine::{Effect, Input, Machine, Settings};
pub use preparation::{Limits, Needs, RegisterLanes};
pub use register_worker::{DeregisterWorker, RegisterWorker, WorkerEntry};
pub use replay::Replay;
pub use replay_needs::{ReplayNeed, ReplayNeeds};
pub use signal::SendSignal;
pub use start::{Start, StartTime};
pub use start_many::{NewStart, StartMany};
pub use submit::{FlowSubmission, FlowTask, Submit, Submitted};
pub use tail::{NextFrames, TailPosition};
pub use wait::{Outcome, Wait, outcome_reads, read_outcome};
pub use wait_flow::{FlowOutcome, WaitFlow};

use crate::call::Function;
use crate::command::Command;
use crate::error::ServerError;
use crate::id::ExecutionId;
use crate::push::Hint;
use crate::value::Value;

/// What a procedure wants next.
#[must_use]
pub enum Step<T> {
    /// Send these commands, and repeat those without an answer: sending one twice has the same
    /// effect as sending it once. [`Procedure::replied`] gets the replies.
    Send(Vec<Command>),
    /// Send these commands once. [`Procedure::answered`] judges each answer alone.
    SendOnce(Vec<Command>),
    /// Pause because of this error, then [`Procedure::resumed`]. Ends the procedure with the error
    /// when it is none that passes, or the time to repeat is over.
    Pause(ServerError),
    /// Have pushes about the end of these executions delivered, then [`Procedure::resumed`]. They
    /// begin later: the first is a gap.
    Listen(Vec<ExecutionId>),
    /// Wait for a push or a gap, or for this long, then [`Procedure::resumed`]. A push that came
    /// since the last wait counts: what was read meanwhile may be older.
    Wait {
        /// The longest wait.
        poll_within: Duration,
        /// How long to wait for further pushes after the first.
        coalesce: Duration,
    },
    /// It has ended.
    Done(Result<T, Failure>),
}

/// The replies to [`Step::Send`], in the order of its commands.
pub struct Replies {
    values: alloc::vec::IntoIter<Value>,
    /// Whether a command was repeated that was perhaps applied before: a refusal may be the effect
    /// of the first try.
    pub in_doubt: bool,
}

impl Replies {
    /// The next reply; nil after the last.
    pub fn value(&mut self) -> Value {
        self.values.next().unwrap_or(Value::Nil)
    }

    /// The next reply, as that of a function.
    ///
    /// # Errors
    /// The function's refusal, or a reply that cannot be read.
    pub fn call<F: Function>(&mut self) -> Result<F::Reply, Failure> {
        F::parse(self.value()).map_err(Failure::from)
    }

    /// The replies that were not taken yet.
    #[must_use]
    pub fn into_values(self) -> Vec<Value> {
        self.values.collect()
    }
}

/// A procedure of the client: what to send next, given what the last step led to.
pub trait Procedure {
    /// What it returns.
    type Output;

    /// The first step.
    fn begin(&mut self) -> Step<Self::Output>;

    /// The step after [`Step::Send`].
    fn replied(&mut self, replies: Replies) -> Step<Self::Output>;

    /// The step after [`Step::SendOnce`]. An error says whether its command was perhaps applied.
    fn answered(&mut self, answers: Vec<Result<Value, ServerError>>) -> Step<Self::Output> {
        match answers.into_iter().collect::<Result<Vec<Value>, ServerError>>() {
            Ok(values) => self.replied(Replies { values: values.into_iter(), in_doubt: false }),
            Err(error) => Step::Done(Err(Failure::Unavailable(error))),
        }
    }

    /// The step after [`Step::Pause`], [`Step::Listen`] and [`Step::Wait`].
    fn resumed(&mut self) -> Step<Self::Output> {
        self.begin()
    }

    /// Whether a push is a reason to go on: see [`Step::Wait`].
    fn pushed(&mut self, _hint: &Hint) -> bool {
        false
    }

    /// Pushes may have been missed: see [`Step::Wait`].
    fn missed_pushes(&mut self) {}
}
