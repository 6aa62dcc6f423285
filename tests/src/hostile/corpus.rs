//! [`Corpus`]: real calls with their keyspaces, recorded while the spec files run. Hostile calls
//! start from one of these.

use std::collections::BTreeMap;
use std::fmt;
use std::io;

use selvedge_core::value::Value;
use selvedge_lua::host::{Host, HostConfig};

use crate::connection::Message;
use crate::hostile::contract::Contract;
use crate::hostile::keyspace_data::{KeyspaceData, shorten};
use crate::spec::run_on;
use crate::spec::store::SpecStore;
use crate::spec::suite::Suite;

/// One call of a function, and the keyspace it was made in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The keyspace and the clock before the call.
    pub keyspace: KeyspaceData,
    /// The function.
    pub function: String,
    /// KEYS.
    pub keys: Vec<Vec<u8>>,
    /// ARGV.
    pub args: Vec<Vec<u8>>,
}

impl fmt::Display for Call {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |words: &[Vec<u8>]| -> String {
            words.iter().map(|word| shorten(word)).collect::<Vec<_>>().join(" ")
        };
        write!(out, "{}", self.keyspace)?;
        let (keys, args) = (shown(&self.keys), shown(&self.args));
        writeln!(out, "  fcall {} {keys} -- {args}", self.function)
    }
}

/// Calls by function, and the values that keys and arguments of each name usually have.
#[derive(Debug, Default)]
pub struct Corpus {
    calls: BTreeMap<String, Vec<Call>>,
    /// Names of functions that have calls.
    functions: Vec<String>,
    keys_by_name: BTreeMap<String, Vec<Vec<u8>>>,
    args_by_name: BTreeMap<String, Vec<Vec<u8>>>,
    /// The fewest elements of a reply, by function and first words.
    shortest: BTreeMap<(String, String), usize>,
}

impl Corpus {
    /// Runs all spec files on a host of its own and keeps every call that they make.
    pub fn record(library: &str, suite: &Suite, contracts: &BTreeMap<String, Contract>) -> Self {
        let mut recorder = Recorder::start(library);
        // Whether the cases hold is the spec suite's own question.
        run_on(suite, "", &mut recorder);
        let mut corpus = Self::default();
        for (call, reply) in recorder.recorded {
            let Some(contract) = contracts.get(&call.function) else { continue };
            note(&mut corpus.keys_by_name, &contract.keys, &call.keys);
            note(&mut corpus.args_by_name, &contract.args, &call.args);
            if let Some(length) = elements(&reply) {
                let shortest = corpus.shortest.entry((call.function.clone(), kind(&reply)));
                let shortest = shortest.or_insert(length);
                *shortest = length.min(*shortest);
            }
            corpus.calls.entry(call.function.clone()).or_default().push(call);
        }
        corpus.functions = corpus.calls.keys().cloned().collect();
        corpus
    }

    /// The recorded calls of a function.
    #[must_use]
    pub fn calls(&self, function: &str) -> &[Call] {
        self.calls.get(function).map_or(&[], Vec::as_slice)
    }

    /// The functions that have calls.
    #[must_use]
    pub fn functions(&self) -> &[String] {
        &self.functions
    }

    /// The values that keys of this name had.
    #[must_use]
    pub fn keys_named(&self, name: &str) -> &[Vec<u8>] {
        self.keys_by_name.get(name).map_or(&[], Vec::as_slice)
    }

    /// The values that arguments of this name had.
    #[must_use]
    pub fn args_named(&self, name: &str) -> &[Vec<u8>] {
        self.args_by_name.get(name).map_or(&[], Vec::as_slice)
    }

    /// The fewest elements that a reply of this kind had.
    #[must_use]
    pub fn shortest(&self, function: &str, reply: &Value) -> Option<usize> {
        self.shortest.get(&(function.to_owned(), kind(reply))).copied()
    }
}

/// Remembers each value once, in the order of first sight.
fn note(pool: &mut BTreeMap<String, Vec<Vec<u8>>>, names: &[String], values: &[Vec<u8>]) {
    for (name, value) in names.iter().zip(values) {
        let known = pool.entry(name.clone()).or_default();
        if !known.contains(value) {
            known.push(value.clone());
        }
    }
}

/// How many elements an array has.
fn elements(reply: &Value) -> Option<usize> {
    if let Value::Array(elements) = reply { Some(elements.len()) } else { None }
}

/// What tells replies of different shapes apart: the head and the first word, and where that is
/// only OK, a second one in lower case letters.
fn kind(reply: &Value) -> String {
    let Value::Array(elements) = reply else { return String::new() };
    let words: Vec<_> = elements
        .iter()
        .take(3)
        .enumerate()
        .map_while(|(index, element)| match element {
            Value::Int(head) => Some(head.to_string()),
            Value::Bulk(word) => {
                let word = String::from_utf8_lossy(word).into_owned();
                let is_word = word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
                (index < 2 || is_word).then_some(word)
            }
            Value::Nil | Value::Status(_) | Value::Error(_) | Value::Array(_) => None,
        })
        .collect();
    match words.as_slice() {
        [head, ok, ..] if ok == "OK" || head == "1" => words.join(" "),
        _ => words.into_iter().take(2).collect::<Vec<_>>().join(" "),
    }
}

/// A host that remembers the calls which cases make.
struct Recorder {
    host: Host,
    recorded: Vec<(Call, Value)>,
}

impl Recorder {
    fn start(library: &str) -> Self {
        let mut host = Host::new(HostConfig::default());
        host.set_now_us(STARTS_AT_US);
        host.call(&["FUNCTION", "LOAD", library]);
        Self { host, recorded: Vec::new() }
    }
}

impl SpecStore for Recorder {
    fn name(&self) -> String {
        "recorder".to_owned()
    }

    fn call(&mut self, command: &[Vec<u8>]) -> io::Result<Value> {
        self.host.set_now_us(self.host.now_us() + 1_000);
        let call = recordable(&mut self.host, command);
        let reply = self.host.call(command);
        self.recorded.extend(call.map(|call| (call, reply.clone())));
        Ok(reply)
    }

    fn published(&mut self) -> io::Result<Vec<Message>> {
        let messages = self.host.take_published().into_iter();
        Ok(messages.map(|sent| Message { channel: sent.channel, payload: sent.payload }).collect())
    }
}

fn recordable(host: &mut Host, command: &[Vec<u8>]) -> Option<Call> {
    let [name, function, count, rest @ ..] = command else { return None };
    if !name.eq_ignore_ascii_case(b"FCALL") {
        return None;
    }
    let count = str::from_utf8(count).ok()?.parse().ok()?;
    let (keys, args) = rest.split_at_checked(count)?;
    Some(Call {
        keyspace: KeyspaceData::read(host),
        function: String::from_utf8_lossy(function).into_owned(),
        keys: keys.to_vec(),
        args: args.to_vec(),
    })
}

/// Times have as many digits as on a server, and yet are later than any real clock's: so these
/// keyspaces can be put into a server too, and nothing expires there before it is told.
const STARTS_AT_US: u64 = 4_000_000_000_000_000;
