//! The inputs and effects of the engine.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use thiserror::Error;

use super::observe::Observation;
use crate::command::{Answer, Command, Ticket};
use crate::completion::{CHANNEL, Completion, InvalidCompletion};
use crate::id::{LaneId, QuotaPolicyId};
use crate::partition::Partition;
use crate::push::{Channel, Hint, InvalidHint};

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Input {
    /// The deadline came. Extra wake-ups do no harm.
    Wake,
    /// A batch was carried out, in whole, in part or perhaps.
    Settled {
        /// Which one.
        ticket: Ticket,
        /// One answer per command, in order; a missing one counts as not answered.
        answers: Vec<Answer>,
    },
    /// A completion was pushed.
    Completed(Completion),
    /// A push reported that a quota holds an execution on this partition.
    Held(Partition),
    /// A push reported that a slot of this quota is free.
    Freed(QuotaPolicyId),
    /// A push reported that something is due on this partition after that time.
    Due(Partition, Duration),
    /// The push channel was down: pushes may have been missed.
    PushGap,
    /// The library was loaded on every server.
    LibraryLoaded,
    /// These lanes exist, besides the configured ones.
    Lanes(Vec<LaneId>),
    /// Finish what is in flight, start nothing new.
    Drain,
}

/// A message on one of the engine's channels that cannot be read. It is dropped: scanners find the
/// same work.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidPush {
    /// Not a completion.
    #[error(transparent)]
    Completion(#[from] InvalidCompletion),
    /// Not a hint.
    #[error(transparent)]
    Hint(#[from] InvalidHint),
}

impl Input {
    /// The channels whose messages an engine needs.
    #[must_use]
    pub fn channels() -> [String; 4] {
        let hints =
            [Channel::Held, Channel::Freed, Channel::Due].map(|channel| channel.to_string());
        let [held, freed, due] = hints;
        [CHANNEL.to_string(), held, freed, due]
    }

    /// The input for a message; none, where it is for others.
    ///
    /// # Errors
    /// When the message does not belong on its channel.
    pub fn pushed(channel: &str, payload: &[u8]) -> Result<Option<Self>, InvalidPush> {
        if channel == CHANNEL {
            return Ok(Some(Self::Completed(Completion::read(payload)?)));
        }
        Ok(match Hint::read(channel, payload)? {
            Hint::Held(partition) => Some(Self::Held(partition)),
            Hint::Freed(quota) => Some(Self::Freed(quota)),
            Hint::Due(partition, wait) => Some(Self::Due(partition, wait)),
            Hint::Ready(..)
            | Hint::Ended(_)
            | Hint::Lost(..)
            | Hint::Frames(..)
            | Hint::Lane(_) => None,
        })
    }
}

/// Something to do.
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
