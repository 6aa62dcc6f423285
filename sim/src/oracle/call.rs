//! Function calls and replies, parsed for oracles: arguments by name, answers by word.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use selvedge_core::id::ExecutionId;
use selvedge_core::key::Key;
use selvedge_core::value::Value;
use selvedge_lua::library;

use crate::event::{Applied, arguments_of, keys_of};

/// The names of a function's keys and arguments, in order.
#[derive(Debug, Default)]
pub struct Signature {
    /// The function, without its prefix.
    pub name: String,
    /// Keys.
    pub keys: Vec<String>,
    /// Arguments.
    pub arguments: Vec<String>,
}

/// A function call.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The function, without its prefix.
    pub function: &'a str,
    argv: &'a [Vec<u8>],
    signature: &'static Signature,
}

impl<'a> Call<'a> {
    /// Parses a command; none if it does not call a function of the library.
    #[must_use]
    pub fn read(argv: &'a [Vec<u8>]) -> Option<Self> {
        let signature = signature_of(argv)?;
        Some(Self { function: &signature.name, argv, signature })
    }

    /// The call that a server applied. Its signature is already known.
    #[must_use]
    pub fn of(applied: &'a Applied) -> Option<Self> {
        let signature = applied.signature?;
        Some(Self { function: &signature.name, argv: &applied.argv, signature })
    }

    /// Whether the function has an argument of this name.
    #[must_use]
    pub fn takes(&self, name: &str) -> bool {
        self.signature.arguments.iter().any(|known| known == name)
    }

    /// An argument by name; empty when it was not sent.
    #[must_use]
    pub fn argument(&self, name: &str) -> &'a str {
        let at = self.signature.arguments.iter().position(|known| known == name);
        let word = at.and_then(|at| arguments_of(self.argv).get(at));
        word.and_then(|word| std::str::from_utf8(word).ok()).unwrap_or_default()
    }

    /// An argument as a number.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<i64> {
        self.argument(name).parse().ok()
    }

    /// All arguments, as they were sent.
    #[must_use]
    pub fn arguments(&self) -> &'a [Vec<u8>] {
        arguments_of(self.argv)
    }

    /// A key by name.
    #[must_use]
    pub fn key(&self, name: &str) -> Option<Key> {
        let at = self.signature.keys.iter().position(|known| known == name)?;
        std::str::from_utf8(keys_of(self.argv).get(at)?).ok()?.parse().ok()
    }

    /// The leases that the call asks for: they follow the named arguments, each with the id of an
    /// attempt.
    #[must_use]
    pub fn new_leases(&self) -> Vec<&'a [u8]> {
        let takes_leases = matches!(self.function, "claim_many" | "end_and_claim");
        let named = self.signature.arguments.len();
        let ids = self.arguments().iter().skip(named).step_by(2);
        // The work filter comes last.
        let ids = ids.filter(|id| !id.starts_with(b"\n"));
        ids.filter(|_| takes_leases).map(Vec::as_slice).collect()
    }

    /// The execution that the call is about.
    #[must_use]
    pub fn execution(&self) -> Option<ExecutionId> {
        if let Ok(id) = self.argument("execution_id").parse() {
            return Some(id);
        }
        if let Some(Key::Execution(id, _)) = self.key("exec_core") { Some(id) } else { None }
    }
}

/// What a function answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was done, or there was nothing to do; the words of the reply.
    Done(Vec<String>),
    /// It refused with this code.
    Refused(String),
    /// The server or the function returned an error.
    Raised(String),
    /// Any other reply.
    Plain,
}

impl Answer {
    /// Parses a reply.
    #[must_use]
    pub fn read(reply: &Value) -> Self {
        match reply {
            Value::Error(text) => Self::Raised(text.clone()),
            Value::Bulk(_) => Self::Done(vec![word(reply)]),
            Value::Array(elements) => match elements.split_first() {
                Some((Value::Int(1), words)) => Self::Done(words.iter().map(word).collect()),
                Some((Value::Int(0), words)) => {
                    Self::Refused(words.first().map(word).unwrap_or_default())
                }
                Some((Value::Bulk(_), _)) => Self::Done(elements.iter().map(word).collect()),
                _ => Self::Plain,
            },
            Value::Nil | Value::Int(_) | Value::Status(_) => Self::Plain,
        }
    }

    /// Whether it was done.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        matches!(self, Self::Done(_))
    }

    /// Whether one of its words is this one.
    #[must_use]
    pub fn says(&self, wanted: &str) -> bool {
        matches!(self, Self::Done(words) if words.iter().any(|word| word == wanted))
    }
}

fn word(value: &Value) -> String {
    match value {
        Value::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Status(text) | Value::Error(text) => text.clone(),
        Value::Int(number) => number.to_string(),
        Value::Nil | Value::Array(_) => String::new(),
    }
}

/// The signature of the function that a command calls, if it calls one of the library.
#[must_use]
pub fn signature_of(argv: &[Vec<u8>]) -> Option<&'static Signature> {
    signatures().get(crate::event::function_of(argv)?)
}

/// The signatures of all functions, from the text of the library.
fn signatures() -> &'static BTreeMap<String, Signature> {
    static SIGNATURES: OnceLock<BTreeMap<String, Signature>> = OnceLock::new();
    SIGNATURES.get_or_init(|| library::SOURCE.split("define(\"").skip(1).filter_map(read).collect())
}

fn read(text: &str) -> Option<(String, Signature)> {
    let (name, rest) = text.split_once('"')?;
    let (keys, rest) = names(rest)?;
    let (arguments, _) = names(rest)?;
    let short = name.strip_prefix("ff_")?.to_owned();
    Some((name.to_owned(), Signature { name: short, keys, arguments }))
}

/// The names in the next pair of braces, without types and defaults.
fn names(text: &str) -> Option<(Vec<String>, &str)> {
    let (_, inside) = text.split_once('{')?;
    let (inside, rest) = inside.split_once('}')?;
    let quoted = inside.split('"').skip(1).step_by(2);
    let names = quoted.map(|name| name.split(['!', ':', '=']).next().unwrap_or(name).to_owned());
    Some((names.collect(), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_found_by_name() {
        let argv = ["FCALL", "ff_ack_cancel_member", "2", "k1", "k2", "eid", "fid"]
            .map(|word| word.as_bytes().to_vec());
        let call = Call::read(&argv).unwrap();
        assert_eq!(call.argument("execution_id"), "eid");
        assert_eq!(call.argument("flow_id"), "fid");
        assert_eq!(call.argument("nothing"), "");
    }

    #[test]
    fn new_leases_follow_the_named_arguments() {
        let named = ["lane", "w", "w-1", "", "1000", "", "0", ""];
        let words = ["FCALL", "ff_claim_many", "0"].iter().chain(&named);
        let argv: Vec<_> =
            words.chain(&["l1", "a1", "l2", "a2", "\n\t\n"]).map(|w| w.bytes().collect()).collect();
        assert_eq!(Call::read(&argv).unwrap().new_leases(), [b"l1", b"l2"]);
    }

    #[test]
    fn every_function_has_a_signature() {
        assert!(signatures().len() > 60, "{}", signatures().len());
        let complete = &signatures()["ff_complete_execution"];
        assert_eq!(complete.arguments[..3], ["execution_id", "lease_id", "lease_epoch"]);
    }
}
