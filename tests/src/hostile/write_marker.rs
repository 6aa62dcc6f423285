//! Holds functions to their marker `-- write; nothing below can fail`.
//!
//! A server does not undo what a function wrote before it failed. So a function reads and decides
//! first, and the marker stands where its writes begin. [`with_commands`] turns every marker into
//! an inner command, so that the log of a call shows where one was passed. [`check`] then fails
//! each command below it in turn. If nothing above has established the type of its key, the call is
//! made with a value of another type there, and must not raise after a write. Otherwise the command
//! answers that the server is out of memory, and the function must not decide to refuse.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_core::value::Value;
use selvedge_lua::host::{Host, InnerCommand, Outcome, Snapshot};

use crate::hostile::corpus::Call;
use crate::hostile::generate::perform;
use crate::hostile::keyspace_data::{KeyspaceData, shorten};
use crate::spec::report::show_reply;

/// The line above the writes of a function.
pub const MARKER: &str = "-- write; nothing below can fail";

/// The library with a command in the place of every marker, and how many there are.
pub fn with_commands(library: &str) -> (String, usize) {
    let mut pieces = library.split(MARKER);
    let mut text = pieces.next().unwrap_or_default().to_owned();
    let mut count = 0;
    for piece in pieces {
        count += 1;
        text.push_str(&format!("call(\"ECHO\", \"{PASSED}{count}\")"));
        text.push_str(piece);
    }
    (text, count)
}

/// What came of failing commands below markers.
#[derive(Debug, Default)]
pub struct Checked {
    /// The markers that some call has passed, by number.
    pub passed: BTreeSet<usize>,
    /// The sequences of commands that were checked: most spec cases repeat one of them.
    sequences: BTreeSet<(String, Vec<Vec<u8>>)>,
    /// How many commands were failed.
    pub failures: usize,
    /// What was wrong, once for each function and kind of fault.
    pub faults: BTreeMap<String, String>,
}

/// Checks one call of a function of a library that [`with_commands`] has prepared.
pub fn check(call: &Call, host: &mut Host, checked: &mut Checked) {
    let snapshot = {
        call.keyspace.put(host);
        host.snapshot()
    };
    let mut run = Run { call, host, snapshot, checked };
    let (reply, log) = run.perform(None);
    run.checked.passed.extend(log.iter().filter_map(marker_in));
    let wrote = |one: &&InnerCommand| one.outcome == Outcome::Wrote;
    let Some(marker) = log.iter().position(|one| marker_in(one).is_some()) else {
        if log.iter().filter(wrote).count() > 1 {
            run.complain("writes without a marker", &log, None, &reply);
        }
        return;
    };
    // The first write may be the check of its own key: then it stands directly above the marker.
    let above = log.iter().position(|one| one.outcome == Outcome::Wrote);
    if above.is_some_and(|above| above + 1 < marker) {
        run.complain("writes above the marker", &log, above, &reply);
    }
    if is_refusal(&reply) {
        run.complain("refuses below the marker", &log, None, &reply);
    }
    let mut names: Vec<_> = log.iter().filter_map(|one| one.argv.first().cloned()).collect();
    names.dedup();
    if run.checked.sequences.insert((call.function.clone(), names)) {
        run.fail_each(&log, marker);
    }
}

/// One call, to be run again and again from the same keyspace.
struct Run<'a> {
    call: &'a Call,
    host: &'a mut Host,
    snapshot: Snapshot,
    checked: &'a mut Checked,
}

impl Run<'_> {
    /// Runs the call, and fails one of its commands if told to.
    fn perform(&mut self, failure: Option<(usize, &str)>) -> (Value, Vec<InnerCommand>) {
        self.host.restore(&self.snapshot);
        self.host.reseed(0);
        if let Some((index, error)) = failure {
            self.host.fail_at(index + 1, error);
        }
        let reply = perform(self.call, self.host);
        self.host.take_published();
        (reply, self.host.last_inner_log())
    }

    fn fail_each(&mut self, log: &[InnerCommand], marker: usize) {
        let mut types = Types { keyspace: &self.call.keyspace, known: BTreeMap::new() };
        log.iter().take(marker).for_each(|one| types.learn(one));
        let failed_max = if log.len() > LONG { FAILED_OF_LONG } else { FAILED };
        for (index, command) in log.iter().enumerate().skip(marker + 1) {
            let safe = types.allow(command);
            types.learn(command);
            let repeats = index > marker + failed_max && index + failed_max < log.len();
            if marker_in(command).is_some() || repeats {
                continue;
            }
            self.checked.failures += 1;
            if !safe {
                self.put_another_type(log, index);
                continue;
            }
            let (reply, _) = self.perform(Some((index, OUT_OF_MEMORY)));
            let reached = !self.host.clear_failure();
            if reached && is_refusal(&reply) && !matches!(reply, Value::Error(_)) {
                self.complain("refuses below the marker", log, Some(index), &reply);
            }
        }
    }

    /// Runs the call with a value of another type under the key of a command. Nothing above the
    /// marker has looked at that key, so the function has to cope.
    fn put_another_type(&mut self, log: &[InnerCommand], index: usize) {
        let Some((kind, key)) = required(&log[index]) else { return };
        self.host.restore(&self.snapshot);
        let other: &[u8] = if kind == Kind::Text { b"SADD" } else { b"SET" };
        self.host.call(&[&b"DEL"[..], key]);
        self.host.call(&[other, key, b"value"]);
        let before = self.host.digest();
        let reply = perform(self.call, self.host);
        self.host.take_published();
        if matches!(reply, Value::Error(_)) && self.host.digest() != before {
            self.complain("may meet a wrong type below the marker", log, Some(index), &reply);
        }
    }

    fn complain(&mut self, fault: &str, log: &[InnerCommand], at: Option<usize>, reply: &Value) {
        let line = |one: &InnerCommand| {
            one.argv.iter().map(|word| shorten(word)).collect::<Vec<_>>().join(" ")
        };
        let place = at.map(|at| format!(" at inner command {}: {}", at + 1, line(&log[at])));
        let reply = shorten(show_reply(reply).as_bytes());
        let told = format!(
            "{}: {fault}{}\n  reply {reply}\n{}",
            self.call.function,
            place.unwrap_or_default(),
            log.iter().map(|one| format!("    {}\n", line(one))).collect::<String>(),
        );
        self.checked.faults.entry(format!("{} {fault}", self.call.function)).or_insert(told);
    }
}

/// Which types keys are known to have, by what a call has done with them.
struct Types<'a> {
    keyspace: &'a KeyspaceData,
    known: BTreeMap<Vec<u8>, Known>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Is(Kind),
    /// Deleted, found missing, or looked up by TYPE.
    Free,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Hash,
    Set,
    Zset,
    Stream,
}

impl Types<'_> {
    /// Whether a command cannot meet a key of another type.
    fn allow(&self, command: &InnerCommand) -> bool {
        let Some((kind, key)) = required(command) else { return true };
        match self.known.get(key) {
            Some(Known::Free) => true,
            Some(Known::Is(known)) => *known == kind,
            None => false,
        }
    }

    /// Learns what a command shows or writes.
    fn learn(&mut self, command: &InnerCommand) {
        if matches!(command.outcome, Outcome::Failed(_)) {
            return;
        }
        let Some((name, words)) = command.argv.split_first() else { return };
        let (keys, known) = match name.to_ascii_uppercase().as_slice() {
            b"DEL" => (words, Known::Free),
            b"TYPE" => (&words[..1], Known::Free),
            b"EXISTS" if !words.iter().any(|key| self.keyspace.keys.contains_key(key)) => {
                (words, Known::Free)
            }
            b"SET" => (&words[..1], Known::Is(Kind::Text)),
            _ => match required(command) {
                Some((kind, _)) => (&words[..1], Known::Is(kind)),
                None => return,
            },
        };
        self.known.extend(keys.iter().map(|key| (key.clone(), known)));
    }
}

/// The type that a command requires of its key.
fn required(command: &InnerCommand) -> Option<(Kind, &[u8])> {
    let (name, key) = (command.argv.first()?.to_ascii_uppercase(), command.argv.get(1)?);
    let kind = match name.as_slice() {
        b"GET" | b"STRLEN" | b"INCR" | b"INCRBY" => Kind::Text,
        b"SADD" | b"SREM" | b"SCARD" | b"SISMEMBER" | b"SMISMEMBER" | b"SMEMBERS" | b"SPOP"
        | b"SRANDMEMBER" | b"SSCAN" => Kind::Set,
        [b'H', ..] => Kind::Hash,
        [b'Z', ..] => Kind::Zset,
        [b'X', ..] => Kind::Stream,
        _ => return None,
    };
    Some((kind, key))
}

/// The number of the marker that a command stands for.
fn marker_in(command: &InnerCommand) -> Option<usize> {
    let [name, word] = command.argv.as_slice() else { return None };
    let number = word.strip_prefix(PASSED.as_bytes()).filter(|_| name == b"ECHO")?;
    str::from_utf8(number).ok()?.parse().ok()
}

/// Whether a reply is an error to which the contract does not tie writes.
fn is_refusal(reply: &Value) -> bool {
    match reply {
        Value::Error(_) => true,
        Value::Array(elements) => match elements.as_slice() {
            [Value::Int(0), Value::Bulk(code), ..] => {
                !TIED_CODES.iter().any(|tied| tied.as_bytes() == code)
            }
            _ => false,
        },
        Value::Nil | Value::Int(_) | Value::Bulk(_) | Value::Status(_) => false,
    }
}

/// What the command of a marker says, before its number.
const PASSED: &str = "passed write marker ";

/// Longer calls repeat themselves in the middle: only so many commands below the marker, and so
/// many before the end, are failed.
const FAILED: usize = 30;

/// The same for calls of more than [`LONG`] commands.
const FAILED_OF_LONG: usize = 8;

const LONG: usize = 300;

/// Refusals to which the contract ties writes.
const TIED_CODES: [&str; 2] = ["lease_expired", "max_retries_exhausted"];

const OUT_OF_MEMORY: &str = "OOM command not allowed when used memory > 'maxmemory'.";
