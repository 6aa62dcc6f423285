//! The smallest procedures: one step, repeated until it is answered.

use alloc::vec;
use alloc::vec::Vec;
use core::marker::PhantomData;

use super::preparation::{Preparation, Prepare};
use super::{Failure, Needs, Procedure, Replies, Step};
use crate::call::Function;
use crate::command::Command;
use crate::error::ServerError;
use crate::reply;
use crate::time::ServerTime;
use crate::value::Value;

/// Calls a function.
pub struct Call<F> {
    command: Command,
    function: PhantomData<fn() -> F>,
}

impl<F: Function> Call<F> {
    /// This call, which must be idempotent.
    pub fn new(call: &F) -> Self {
        Self { command: Command::call(call), function: PhantomData }
    }
}

impl<F: Function> Procedure for Call<F> {
    type Output = F::Reply;

    fn begin(&mut self) -> Step<F::Reply> {
        Step::Send(vec![self.command.clone()])
    }

    fn replied(&mut self, mut replies: Replies) -> Step<F::Reply> {
        Step::Done(replies.call::<F>())
    }
}

/// Runs commands that only read. One reply for each, in order.
pub struct Read(Vec<Command>);

impl Read {
    /// These commands.
    #[must_use]
    pub const fn new(commands: Vec<Command>) -> Self {
        Self(commands)
    }
}

impl Procedure for Read {
    type Output = Vec<Value>;

    fn begin(&mut self) -> Step<Vec<Value>> {
        Step::Send(core::mem::take(&mut self.0))
    }

    fn replied(&mut self, replies: Replies) -> Step<Vec<Value>> {
        Step::Done(Ok(replies.into_values()))
    }
}

/// Runs commands that only read, once. One answer for each, in order.
pub struct ReadOnce(Vec<Command>);

impl ReadOnce {
    /// These commands.
    #[must_use]
    pub const fn new(commands: Vec<Command>) -> Self {
        Self(commands)
    }
}

impl Procedure for ReadOnce {
    type Output = Vec<Result<Value, ServerError>>;

    fn begin(&mut self) -> Step<Self::Output> {
        match core::mem::take(&mut self.0) {
            none if none.is_empty() => Step::Done(Ok(Vec::new())),
            commands => Step::SendOnce(commands),
        }
    }

    fn replied(&mut self, replies: Replies) -> Step<Self::Output> {
        Step::Done(Ok(replies.into_values().into_iter().map(Ok).collect()))
    }

    fn answered(&mut self, answers: Vec<Result<Value, ServerError>>) -> Step<Self::Output> {
        Step::Done(Ok(answers))
    }
}

/// Reads the clock of the server that owns a hash slot.
pub struct ReadTime {
    /// The slot.
    pub slot: u16,
}

impl Procedure for ReadTime {
    type Output = ServerTime;

    fn begin(&mut self) -> Step<ServerTime> {
        Step::Send(vec![Command::time(self.slot)])
    }

    fn replied(&mut self, mut replies: Replies) -> Step<ServerTime> {
        Step::Done(read_time(&replies.value()))
    }
}

/// The time in the reply to [`Command::time`].
pub(super) fn read_time(value: &Value) -> Result<ServerTime, Failure> {
    reply::time(value).map_err(Failure::Unreadable)
}

/// Makes a call that carries the time of the server that owns its slot.
pub struct CallAt<F, B> {
    preparation: Preparation,
    build: B,
    is_prepared: bool,
    function: PhantomData<fn() -> F>,
}

impl<F: Function, B: Fn(ServerTime) -> F> CallAt<F, B> {
    /// The call that `build` makes, on this hash slot.
    pub fn new(needs: Needs, slot: u16, build: B) -> Self {
        let preparation = Preparation::new(needs, Some(slot));
        Self { preparation, build, is_prepared: false, function: PhantomData }
    }

    fn prepared(&mut self, prepared: Prepare) -> Step<F::Reply> {
        match prepared {
            Prepare::Send(commands) => Step::Send(commands),
            Prepare::Failed(failure) => Step::Done(Err(failure)),
            Prepare::Ready(now) => {
                let call = (self.build)(now.unwrap_or(ServerTime(0)));
                self.is_prepared = true;
                Step::Send(vec![Command::call(&call)])
            }
        }
    }
}

impl<F: Function, B: Fn(ServerTime) -> F> Procedure for CallAt<F, B> {
    type Output = F::Reply;

    fn begin(&mut self) -> Step<F::Reply> {
        let prepared = self.preparation.begin();
        self.prepared(prepared)
    }

    fn replied(&mut self, mut replies: Replies) -> Step<F::Reply> {
        if self.is_prepared {
            return Step::Done(replies.call::<F>());
        }
        let prepared = self.preparation.replied(replies);
        self.prepared(prepared)
    }
}
