//! The smallest procedures: one step, repeated until it is answered.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::marker::PhantomData;

use super::preparation::{Preparation, Prepare};
use super::{Failure, Needs, Procedure, Replies, Step};
use crate::call::Function;
use crate::command::Command;
use crate::error::ServerError;
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

/// Runs idempotent commands. One reply for each, in order.
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

/// Reads the clock of the server that owns a hash slot.
pub struct ReadTime {
    /// The slot.
    pub slot: u16,
}

impl Procedure for ReadTime {
    type Output = ServerTime;

    fn begin(&mut self) -> Step<ServerTime> {
        Step::Send(vec![time_of(self.slot)])
    }

    fn replied(&mut self, mut replies: Replies) -> Step<ServerTime> {
        Step::Done(read_time(&replies.value()))
    }
}

pub(super) fn time_of(slot: u16) -> Command {
    Command { slot, argv: vec![b"TIME".to_vec()], reads: true }
}

/// Reads the reply of `TIME`: seconds and microseconds, as strings.
pub(super) fn read_time(reply: &Value) -> Result<ServerTime, Failure> {
    let number = |value: &Value| match value {
        Value::Bulk(text) => core::str::from_utf8(text).ok()?.parse::<i64>().ok(),
        Value::Nil | Value::Int(_) | Value::Status(_) | Value::Error(_) | Value::Array(_) => None,
    };
    let time = || {
        let Value::Array(parts) = reply else { return None };
        let [seconds, micros] = parts.as_slice() else { return None };
        number(seconds)?.checked_mul(1_000)?.checked_add(number(micros)? / 1_000).map(ServerTime)
    };
    let unexpected = || ServerError::from_reply(format!("unexpected reply to TIME: {reply:?}"));
    time().ok_or_else(|| Failure::Unavailable(unexpected()))
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
