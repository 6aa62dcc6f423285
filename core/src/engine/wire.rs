//! What goes in and out of the machine.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use thiserror::Error;

use super::observe::Observation;
use crate::call::Function;
use crate::completion::{CHANNEL, Completion, InvalidCompletion};
use crate::error::{Applied, ServerError};
use crate::id::{LaneId, QuotaPolicyId};
use crate::key::Key;
use crate::partition::Partition;
use crate::push::{Channel, Hint, InvalidHint};
use crate::value::Value;

/// One thing that happened.
#[derive(Clone, Debug)]
pub enum Input {
    /// The deadline came, or somebody is curious. Extra wake-ups do no harm.
    Wake,
    /// A batch was carried out, in whole, in part or perhaps.
    Settled {
        /// Which one.
        ticket: Ticket,
        /// One answer per command, in order; missing ones count as silence.
        answers: Vec<Answer>,
    },
    /// A completion came over the push channel.
    Completed(Completion),
    /// It was pushed that a quota holds something back there.
    Held(Partition),
    /// It was pushed that a slot of this quota is free again.
    Freed(QuotaPolicyId),
    /// The push channel was down: completions may have been missed.
    PushGap,
    /// The library was loaded again, everywhere.
    LibraryLoaded,
    /// These lanes exist, besides the configured ones.
    Lanes(Vec<LaneId>),
    /// Finish what is in flight, start nothing new.
    Drain,
}

/// A message on one of the engine's channels that says nothing; it is dropped, for a scanner finds
/// the same work.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidPush {
    /// No completion.
    #[error(transparent)]
    Completion(#[from] InvalidCompletion),
    /// No hint.
    #[error(transparent)]
    Hint(#[from] InvalidHint),
}

impl Input {
    /// The channels to listen to in an engine's stead.
    #[must_use]
    pub fn channels() -> [String; 3] {
        [CHANNEL.to_string(), Channel::Held.to_string(), Channel::Freed.to_string()]
    }

    /// What a message tells the engine; none, where it is for others.
    ///
    /// # Errors
    /// When it is not what its channel carries.
    pub fn pushed(channel: &str, payload: &[u8]) -> Result<Option<Self>, InvalidPush> {
        if channel == CHANNEL {
            return Ok(Some(Self::Completed(Completion::read(payload)?)));
        }
        Ok(match Hint::read(channel, payload)? {
            Hint::Held(partition) => Some(Self::Held(partition)),
            Hint::Freed(quota) => Some(Self::Freed(quota)),
            Hint::Ready(..) | Hint::Ended(_) | Hint::Lost(..) | Hint::Frames(..) => None,
        })
    }
}

/// One thing to do.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Carry out these commands, in order, as one pipeline. All keys are in one hash slot.
    Send {
        /// To be given back with the answers.
        ticket: Ticket,
        /// The slot of all keys.
        slot: u16,
        /// What to send.
        batch: Vec<Command>,
    },
    /// Something worth a log line, a metric or a trace event.
    Observe(Observation),
}

/// Names a batch in flight. Never used twice by one engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub(super) u64);

/// One command, as a client sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The hash slot of its keys.
    pub slot: u16,
    /// Name and arguments.
    pub argv: Vec<Vec<u8>>,
    /// Whether it only reads: the same read asked for twice at one instant is sent once.
    pub reads: bool,
}

impl Command {
    /// A function call; its slot is that of its first key.
    #[must_use]
    pub fn call<F: Function>(call: &F) -> Self {
        let slot = call.keys().first().map_or(0, Key::slot);
        Self { slot, argv: call.command(), reads: F::READS_ONLY }
    }

    /// A plain read of `key`: the command's name, the key, and the rest.
    #[must_use]
    pub fn read(name: &str, key: &Key, rest: &[&[u8]]) -> Self {
        let text = alloc::string::ToString::to_string(key);
        let slot = crate::partition::slot(text.as_bytes());
        let mut argv = Vec::with_capacity(2 + rest.len());
        argv.push(name.as_bytes().to_vec());
        argv.push(text.into_bytes());
        argv.extend(rest.iter().map(|part| part.to_vec()));
        Self { slot, argv, reads: true }
    }
}

/// What became of one command of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The server replied; an error reply counts, its text says what it means.
    Applied(Value),
    /// It surely had no effect: never sent, or refused before it ran.
    NotApplied(ServerError),
    /// Nobody knows: sent, and no reply came.
    PerhapsApplied(ServerError),
}

impl Answer {
    /// The reply, or the failure that stands for it.
    ///
    /// # Errors
    /// The failure, with what is known about whether it was applied.
    pub fn into_result(self) -> Result<Value, ServerError> {
        match self {
            Self::Applied(Value::Error(text)) => Err(ServerError::from_reply(text)),
            Self::Applied(
                value @ (Value::Nil
                | Value::Int(_)
                | Value::Bulk(_)
                | Value::Status(_)
                | Value::Array(_)),
            ) => Ok(value),
            Self::NotApplied(error) => Err(ServerError { applied: Applied::No, ..error }),
            Self::PerhapsApplied(error) => Err(ServerError { applied: Applied::Perhaps, ..error }),
        }
    }
}
