//! One type per store function: its name, its KEYS in order, its ARGV in order and the parser of
//! its reply stand together. Nothing else in the code base spells a KEYS array.
//!
//! A call is built from typed ids, rendered with [`Function::command`], carried out by whoever
//! owns a store, and its answer read with [`Function::parse`], which is total: any [`Value`] gives
//! a typed reply or a typed error.
//!
//! ```
//! use selvedge_core::call::{Function, flow::AckCancelMember};
//! use selvedge_core::partition::Partition;
//! use selvedge_core::value::Value;
//!
//! let call = AckCancelMember {
//!     partition: Partition::flow(24),
//!     flow_id: "550e8400-e29b-41d4-a716-446655440000".parse()?,
//!     execution_id: "{fp:24}:123e4567-e89b-12d3-a456-426614174000".parse()?,
//! };
//! assert_eq!(call.command()[..2], [b"FCALL".to_vec(), b"ff_ack_cancel_member".to_vec()]);
//! AckCancelMember::parse(Value::Array(vec![Value::Int(1), Value::Bulk(b"OK".to_vec())]))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod args;
pub mod budget;
mod envelope;
pub mod execution;
pub mod flow;
pub mod lease;
pub mod library;
pub mod quota;
pub mod repair;
pub mod scheduling;
pub mod signal;
pub mod stream;
pub mod suspension;

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write as _;

pub use args::ToArg;
pub use envelope::{Envelope, Fields};

use crate::error::CallError;
use crate::key::Key;
use crate::value::Value;

/// A function of the library, with one set of inputs.
pub trait Function {
    /// Name under which the library registers it.
    const NAME: &'static str;
    /// Names of its KEYS, in order.
    const KEYS: &'static [&'static str];
    /// Names of its ARGV, in order; a repeated tail is not listed.
    const ARGS: &'static [&'static str];
    /// Whether it is registered `no-writes`.
    const READS_ONLY: bool = false;

    /// The reply when it is not refused.
    type Reply: core::fmt::Debug;

    /// Its KEYS, in order.
    fn keys(&self) -> Vec<Key>;

    /// Its ARGV, in order.
    fn args(&self) -> Vec<Vec<u8>>;

    /// Reads the success envelope. Fields that are missing at the end read as empty text.
    ///
    /// # Errors
    /// When a status or a field is not what the contract allows.
    fn read(envelope: Envelope) -> Result<Self::Reply, CallError>;

    /// Reads any reply. The few functions that answer without the envelope have their own.
    ///
    /// # Errors
    /// The contract's refusal, the server's own error, or a reply that makes no sense.
    fn parse(reply: Value) -> Result<Self::Reply, CallError> {
        Self::read(Envelope::open(reply)?)
    }

    /// The whole command: `FCALL name numkeys key… arg…`. What writes has a further key that is
    /// always absent, so that it waits while the slot migrates key by key.
    fn command(&self) -> Vec<Vec<u8>> {
        let keys = self.keys();
        let mut command = Vec::with_capacity(4 + keys.len() + Self::ARGS.len());
        command.push(b"FCALL".to_vec());
        command.push(Self::NAME.as_bytes().to_vec());
        command.push(Vec::new());
        command.extend(keys.iter().map(spelled));
        if !Self::READS_ONLY {
            command.extend(command.get(KEYS_AT).and_then(|key| absent_key(key)));
        }
        command[KEYS_AT - 1] = (command.len() - KEYS_AT).to_string().into_bytes();
        command.extend(self.args());
        command
    }
}

/// Where the keys begin in `FCALL name numkeys key…`.
const KEYS_AT: usize = 3;

/// What a key that never exists begins with.
const ABSENT: &[u8] = b"ff:absent:";

/// A key that never exists, in the slot of `key`; none if that has no hash tag.
///
/// Functions also use keys that they do not declare. While a slot migrates key by key, some of its
/// keys are on the old server and some on the new one, and a function would take those on the other
/// server for missing. A server answers `TRYAGAIN` to a command with several declared keys of which
/// one does not exist: with this one, no function writes to a slot before all of it has migrated.
/// For callers that do not declare it, the function itself looks for it (`lib/define.lua`).
#[must_use]
pub fn absent_key(key: &[u8]) -> Option<Vec<u8>> {
    let from = key.iter().position(|byte| *byte == b'{')?;
    let length = key[from..].iter().position(|byte| *byte == b'}').filter(|length| *length > 1)?;
    Some([ABSENT, &key[from..=from + length]].concat())
}

/// A call as a client sends it that declares the keys of the contract only; none if this one does.
#[must_use]
pub fn without_absent_key(command: &[Vec<u8>]) -> Option<Vec<Vec<u8>>> {
    let count: usize = str::from_utf8(command.get(KEYS_AT - 1)?).ok()?.parse().ok()?;
    let last = KEYS_AT.checked_add(count)?.checked_sub(1)?;
    command.get(last)?.strip_prefix(ABSENT)?;
    let mut command = command.to_vec();
    command.remove(last);
    command[KEYS_AT - 1] = (count - 1).to_string().into_bytes();
    Some(command)
}

/// A key as bytes, in room that nearly every key fits into.
fn spelled(key: &Key) -> Vec<u8> {
    let mut text = String::with_capacity(KEY_BYTES_USUAL);
    // Writing to a string cannot fail.
    let _ = write!(text, "{key}");
    text.into_bytes()
}

/// Two ids, a hash tag and fixed words.
const KEY_BYTES_USUAL: usize = 128;

/// What a [`Function`] declares, as data.
#[derive(Clone, Copy, Debug)]
pub struct Signature {
    /// Name under which the library registers it.
    pub name: &'static str,
    /// Names of its KEYS, in order.
    pub keys: &'static [&'static str],
    /// Names of its ARGV, in order.
    pub args: &'static [&'static str],
    /// Whether it is registered `no-writes`.
    pub reads_only: bool,
    /// Reads a reply, and says in words for developers what it means.
    pub read: fn(Value) -> Result<String, CallError>,
}

impl Signature {
    /// The signature of `F`.
    #[must_use]
    pub const fn of<F: Function>() -> Self {
        Self {
            name: F::NAME,
            keys: F::KEYS,
            args: F::ARGS,
            reads_only: F::READS_ONLY,
            read: |reply| F::parse(reply).map(|meaning| alloc::format!("{meaning:?}")),
        }
    }
}

/// The signatures of all functions, domain by domain.
#[must_use]
pub fn signatures() -> Vec<Signature> {
    [
        budget::SIGNATURES,
        execution::SIGNATURES,
        flow::SIGNATURES,
        lease::SIGNATURES,
        library::SIGNATURES,
        quota::SIGNATURES,
        repair::SIGNATURES,
        scheduling::SIGNATURES,
        signal::SIGNATURES,
        stream::SIGNATURES,
        suspension::SIGNATURES,
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Any reply at all, with the envelope's shape and its usual words more often than chance.
    fn any_value() -> impl Strategy<Value = Value> {
        let word = prop_oneof![
            Just("OK"),
            Just("DUPLICATE"),
            Just("ALREADY_SATISFIED"),
            Just("execution_not_active"),
            Just(""),
            Just("7"),
            Just("{fp:7}:550e8400-e29b-41d4-a716-446655440000"),
            Just("550e8400-e29b-41d4-a716-446655440000"),
        ];
        let leaf = prop_oneof![
            Just(Value::Nil),
            any::<i64>().prop_map(Value::Int),
            any::<Vec<u8>>().prop_map(Value::Bulk),
            word.prop_map(|word| Value::Bulk(word.into())),
            any::<alloc::string::String>().prop_map(Value::Status),
            any::<alloc::string::String>().prop_map(Value::Error),
        ];
        let tree = leaf.prop_recursive(3, 24, 8, |inner| {
            proptest::collection::vec(inner, 0..8).prop_map(Value::Array)
        });
        (0..2i64, proptest::collection::vec(tree, 0..10)).prop_map(|(head, mut rest)| {
            rest.insert(0, Value::Int(head));
            Value::Array(rest)
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn no_reply_breaks_a_parser(reply in any_value()) {
            for signature in signatures() {
                let _ = (signature.read)(reply.clone());
            }
        }
    }

    #[test]
    fn what_writes_declares_a_further_key_which_others_leave_out() {
        let call = flow::AckCancelMember {
            partition: crate::partition::Partition::flow(24),
            flow_id: "550e8400-e29b-41d4-a716-446655440000".parse().unwrap(),
            execution_id: "{fp:24}:123e4567-e89b-12d3-a456-426614174000".parse().unwrap(),
        };
        let command = call.command();
        assert_eq!([&command[2], &command[5]], [b"3".as_slice(), b"ff:absent:{fp:24}"]);
        let others = without_absent_key(&command).unwrap();
        assert_eq!([&others[2], &others[4]], [b"2".as_slice(), &command[4]]);
        assert_eq!(others[5..], command[6..]);
        assert_eq!(without_absent_key(&others), None);
        assert_eq!(without_absent_key(&library::Version.command()), None);
        assert_eq!(absent_key(b"ff:{}:{x}"), None);
    }

    #[test]
    fn names_are_told_apart() {
        let mut names: Vec<&str> = signatures().iter().map(|signature| signature.name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
