//! [`Command`], [`Answer`] and [`Ticket`]: what a state machine sends to a store, the result, and
//! the name of one batch in flight.

use alloc::string::ToString;
use alloc::vec::Vec;

use crate::call::Function;
use crate::error::{Applied, ServerError};
use crate::key::Key;
use crate::partition;
use crate::retry::Idempotency;
use crate::value::Value;

/// Names a batch in flight. Never used twice by one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub(crate) u64);

/// One command, as a client sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The hash slot of its keys.
    pub slot: u16,
    /// Name and arguments.
    pub argv: Vec<Vec<u8>>,
    /// Whether it only reads: identical reads in one batch are sent once.
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
        Self::on_key(name, key, rest, true)
    }

    /// A plain write to `key`: the command's name, the key, and the rest.
    #[must_use]
    pub fn write(name: &str, key: &Key, rest: &[&[u8]]) -> Self {
        Self::on_key(name, key, rest, false)
    }

    /// Asks the server of this slot for its time; see [`reply::time`](crate::reply::time).
    #[must_use]
    pub fn time(slot: u16) -> Self {
        Self { slot, argv: alloc::vec![b"TIME".to_vec()], reads: true }
    }

    /// Whether sending it twice has the same effect as sending it once. A write counts as not
    /// idempotent; its caller may know better.
    #[must_use]
    pub const fn idempotency(&self) -> Idempotency {
        if self.reads { Idempotency::Idempotent } else { Idempotency::NotIdempotent }
    }

    fn on_key(name: &str, key: &Key, rest: &[&[u8]], reads: bool) -> Self {
        let text = key.to_string();
        let slot = partition::slot(text.as_bytes());
        let mut argv = Vec::with_capacity(2 + rest.len());
        argv.push(name.as_bytes().to_vec());
        argv.push(text.into_bytes());
        argv.extend(rest.iter().map(|part| part.to_vec()));
        Self { slot, argv, reads }
    }
}

/// A reply, or the failure that stands for it.
pub(crate) type Reply = Result<Value, ServerError>;

/// The result of one command of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The server replied, perhaps with an error reply.
    Applied(Value),
    /// It had no effect: never sent, or refused before it ran.
    NotApplied(ServerError),
    /// Unknown: it was sent, and no reply came.
    PerhapsApplied(ServerError),
}

impl Answer {
    /// The reply; an error reply or a missing one as an error.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::library::Version;

    #[test]
    fn a_read_is_idempotent_and_a_write_is_not() {
        let key = Key::PartitionCounts;
        assert_eq!(Command::read("GET", &key, &[]).idempotency(), Idempotency::Idempotent);
        let write = Command::write("HSET", &key, &[b"field", b"value"]);
        assert_eq!(write.idempotency(), Idempotency::NotIdempotent);
        assert_eq!(write.argv[1], key.to_string().into_bytes());
        assert!(Command::call(&Version).reads);
    }
}
