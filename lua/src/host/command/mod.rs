//! The data commands: one table of all commands, and one function that runs them.
//!
//! A handler gets arguments whose number already fits the table. It works out its answer and
//! changes the keyspace only when nothing can fail any more, so an error means an untouched
//! keyspace.

mod failure;
mod generic;
mod hash;
mod options;
mod pubsub;
mod scan;
mod server;
mod set;
mod stream;
mod string;
mod table;
#[cfg(test)]
mod tests;
mod unsupported;
mod zset;
mod zset_range;

use rand_chacha::ChaCha8Rng;
use selvedge_core::value::Value;

use super::Message;
use super::keyspace::{Data, Entry, Keyspace, Kind};
pub(crate) use failure::Failure;
pub(crate) use scan::glob;
pub(crate) use table::{CommandSpec, lookup};
pub(crate) use unsupported::is_unsupported;

/// What a command may read and change. Time does not change within one call.
pub(crate) struct Env<'a> {
    pub(crate) keyspace: &'a mut Keyspace,
    /// Microseconds since the epoch.
    pub(crate) now_us: u64,
    /// The only source of random numbers.
    pub(crate) random: &'a mut ChaCha8Rng,
    /// Whether SSCAN answers in any order, in small pages and with repeats.
    pub(crate) unruly_scans: bool,
    /// What was published, in order.
    pub(crate) published: &'a mut Vec<Message>,
    /// Every command that changed something, in a form that does the same when it is run again.
    pub(crate) writes: &'a mut Vec<Vec<Vec<u8>>>,
}

/// Runs one command. Whatever the words are, it answers; it never panics.
pub(crate) fn execute(env: &mut Env<'_>, argv: Vec<Vec<u8>>) -> Value {
    let Some(name) = argv.first() else {
        return Failure::text("ERR empty command").into();
    };
    let Some(spec) = lookup(name) else {
        return Failure::unknown_command(&argv).into();
    };
    if !spec.accepts(argv.len()) {
        return Failure::arity(spec.name).into();
    }
    execute_as(spec, env, argv)
}

/// Runs a command whose number of words fits.
pub(crate) fn execute_as(spec: &CommandSpec, env: &mut Env<'_>, argv: Vec<Vec<u8>>) -> Value {
    match (spec.run)(env, &argv) {
        Ok(Outcome { value, effect }) => {
            match effect {
                Effect::None => {}
                Effect::Verbatim => env.writes.push(argv),
                Effect::Instead(commands) => env.writes.extend(commands),
            }
            value
        }
        Err(failure) => failure.into(),
    }
}

/// What a handler hands back when it did not fail.
pub(crate) struct Outcome {
    value: Value,
    effect: Effect,
}

/// What goes into the write log.
enum Effect {
    /// Nothing changed.
    None,
    /// The command itself.
    Verbatim,
    /// Other commands, which do what this one happened to do.
    Instead(Vec<Vec<Vec<u8>>>),
}

type Handled = Result<Outcome, Failure>;

/// An answer that changed nothing.
fn read(value: Value) -> Handled {
    Ok(Outcome { value, effect: Effect::None })
}

/// An answer that changed something.
fn wrote(value: Value) -> Handled {
    Ok(Outcome { value, effect: Effect::Verbatim })
}

/// An answer that perhaps changed something.
fn wrote_if(changed: bool, value: Value) -> Handled {
    if changed { wrote(value) } else { read(value) }
}

/// An answer whose change is logged as other commands.
fn wrote_instead(commands: Vec<Vec<Vec<u8>>>, value: Value) -> Handled {
    Ok(Outcome { value, effect: Effect::Instead(commands) })
}

fn ok() -> Value {
    Value::Status("OK".to_owned())
}

fn bulk(bytes: &[u8]) -> Value {
    Value::Bulk(bytes.to_vec())
}

fn bulk_or_nil(bytes: Option<&[u8]>) -> Value {
    bytes.map_or(Value::Nil, bulk)
}

/// A count as a reply; no collection outgrows an `i64`.
fn count(number: usize) -> Value {
    Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

fn flag(truth: bool) -> Value {
    Value::Int(i64::from(truth))
}

impl Env<'_> {
    /// The time as expiries and stream ids count it.
    pub(crate) fn now_ms(&self) -> i64 {
        i64::try_from(self.now_us / 1000).unwrap_or(i64::MAX)
    }

    /// The value under a key as the type the command works on.
    fn read<T: Kind>(&self, key: &[u8]) -> Result<Option<&T>, Failure> {
        match self.keyspace.get(key, self.now_ms()) {
            None => Ok(None),
            Some(entry) => T::of(&entry.data).map(Some).ok_or(Failure::WRONG_TYPE),
        }
    }

    /// As [`Env::read`], for changing it.
    fn edit<T: Kind>(&mut self, key: &[u8]) -> Result<Option<&mut T>, Failure> {
        let now_ms = self.now_ms();
        match self.keyspace.get_mut(key, now_ms) {
            None => Ok(None),
            Some(entry) => T::of_mut(&mut entry.data).map(Some).ok_or(Failure::WRONG_TYPE),
        }
    }

    /// As [`Env::edit`], with an empty value put there if the key is free. Only for commands that
    /// then surely fill it.
    fn edit_or_new<T: Kind + Default>(&mut self, key: &[u8]) -> Result<&mut T, Failure> {
        let now_ms = self.now_ms();
        if self.keyspace.get(key, now_ms).is_none() {
            self.put(key, T::default());
        }
        self.edit(key)?.ok_or(Failure::WRONG_TYPE)
    }

    /// Stores a value that does not expire.
    fn put(&mut self, key: &[u8], value: impl Kind) {
        self.keyspace.insert(key, Entry::lasting(value.into_data()));
    }

    /// Takes a collection away once its last element is gone.
    fn drop_if_drained(&mut self, key: &[u8]) {
        let now_ms = self.now_ms();
        if self.keyspace.get(key, now_ms).is_some_and(|entry| entry.data.is_drained()) {
            self.keyspace.remove(key, now_ms);
        }
    }

    /// The live data under a key, of any type.
    fn data(&self, key: &[u8]) -> Option<&Data> {
        self.keyspace.get(key, self.now_ms()).map(|entry| &entry.data)
    }
}
