//! [`HostAndValkey`]: runs the same call sequences on the host and on a Valkey, and compares what
//! each step answers and publishes, and the keyspace at the end.

use std::fmt;
use std::io;

use selvedge_core::value::Value;
use selvedge_lua::host::{Host, HostConfig};

use super::{CLOCK, CallSequence, SequenceStep};
use crate::conformance::three_stores::spell;
use crate::connection::{Connection, Message};
use crate::server::{Server, ServerError};
use crate::spec::report::show;
use selvedge_sim::search::{Tries, shrink_list};

/// The two stores.
pub struct HostAndValkey {
    host: Host,
    connection: Connection,
    /// Hears all that the server publishes.
    listener: Connection,
    messages: u64,
    // Ends the process when it goes.
    _server: Server,
}

/// Why a sequence was not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    /// The stores disagree.
    #[error("{0}")]
    Diverged(Box<Divergence>),
    /// The server did not start.
    #[error("{0}")]
    NoServer(#[from] ServerError),
    /// The server went away.
    #[error("the server: {0}")]
    Gone(#[from] io::Error),
}

/// The first difference of the stores, in as few steps as show it.
#[derive(Debug)]
pub struct Divergence {
    /// The steps.
    pub steps: CallSequence,
    /// What the host says, publishes or holds after the last one.
    pub host: String,
    /// What Valkey says, publishes or holds.
    pub valkey: String,
}

/// What a store answered at each step, and what it held at the end or after each.
#[derive(Default, PartialEq, Eq)]
struct Played {
    results: Vec<StepResult>,
    keyspaces: Vec<Value>,
}

/// What a store answered to one step, and what it published meanwhile.
#[derive(PartialEq, Eq)]
struct StepResult {
    reply: Value,
    published: Vec<Message>,
}

/// How much to look at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Detail {
    /// A digest of the keyspace at the end.
    End,
    /// The whole keyspace after each step.
    EveryStep,
}

impl HostAndValkey {
    /// Starts the server and puts a library into it.
    pub fn start(library: &str) -> Result<Self, PlayError> {
        let server = Server::valkey()?;
        let mut connection = server.connect()?;
        let loaded = connection.call(&["FUNCTION", "LOAD", "REPLACE", library])?;
        if let Value::Error(error) = loaded {
            return Err(io::Error::other(error).into());
        }
        let mut listener = server.connect()?;
        listener.subscribe("*")?;
        let mut host = Host::new(HostConfig::default());
        host.call(&["FUNCTION", "LOAD", library]);
        Ok(Self { host, connection, listener, messages: 0, _server: server })
    }

    /// Plays a sequence on both; the answers, if they agree.
    pub fn play(&mut self, sequence: &[SequenceStep]) -> Result<Vec<Value>, PlayError> {
        let (host, valkey) = self.compare(sequence)?;
        if host == valkey {
            self.messages +=
                host.results.iter().map(|results| results.published.len() as u64).sum::<u64>();
            return Ok(host.results.into_iter().map(|results| results.reply).collect());
        }
        // Nothing after the first other answer matters.
        let last = first_other(&host.results, &valkey.results);
        let upto = &sequence[..last.map_or(sequence.len(), |at| at + 1)];
        let steps = shrink_list(
            upto,
            |_| true,
            &mut Tries::at_most(TRIES_MAX),
            |fewer| self.compare(fewer).is_ok_and(|(host, valkey)| host != valkey),
        );
        let (at, host, valkey) = match self.parts(&steps)? {
            Some(parting) => parting,
            None => (sequence.len(), host.to_string(), valkey.to_string()),
        };
        let steps = steps.into_iter().take(at).collect();
        Err(PlayError::Diverged(Box::new(Divergence { steps, host, valkey })))
    }

    /// How many messages both stores published, the same ones.
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// What both answered, and a digest of what they hold at the end.
    fn compare(&mut self, sequence: &[SequenceStep]) -> Result<(Played, Played), PlayError> {
        Ok((self.on_host(sequence, Detail::End), self.on_valkey(sequence, Detail::End)?))
    }

    /// The first step after which the stores differ, and what each has there.
    fn parts(
        &mut self,
        sequence: &[SequenceStep],
    ) -> Result<Option<(usize, String, String)>, PlayError> {
        let host = self.on_host(sequence, Detail::EveryStep);
        let valkey = self.on_valkey(sequence, Detail::EveryStep)?;
        let results = first_other(&host.results, &valkey.results).unwrap_or(usize::MAX);
        let keyspace = first_other(&host.keyspaces, &valkey.keyspaces).unwrap_or(usize::MAX);
        Ok(match results.min(keyspace) {
            usize::MAX => None,
            at if at == results => {
                Some((at + 1, host.results[at].to_string(), valkey.results[at].to_string()))
            }
            at => {
                let (host, valkey) = (&host.keyspaces[at], &valkey.keyspaces[at]);
                Some((at + 1, lines_only_in(host, valkey), lines_only_in(valkey, host)))
            }
        })
    }

    fn on_host(&mut self, sequence: &[SequenceStep], detail: Detail) -> Played {
        let host = &mut self.host;
        host.call(&["FLUSHALL"]);
        host.take_published();
        let mut played = Played::default();
        for step in sequence {
            host.set_now_us(step.now_us);
            let reply = host.call(&step.command);
            let published = host.take_published().into_iter();
            let published =
                published.map(|sent| Message { channel: sent.channel, payload: sent.payload });
            played.results.push(StepResult { reply, published: published.collect() });
            if detail == Detail::EveryStep {
                played.keyspaces.push(host.call(&["EVAL", DUMP, "0", "full"]));
            }
        }
        if detail == Detail::End {
            played.keyspaces.push(host.call(&["EVAL", DUMP, "0", "digest"]));
        }
        played
    }

    /// The same, but that the clock is a key, and whoever moves it removes what is over. So does
    /// whoever comes after a function, which may have let something end at once; the plain commands
    /// that furnish a world do not.
    fn on_valkey(
        &mut self,
        sequence: &[SequenceStep],
        detail: Detail,
    ) -> Result<Played, PlayError> {
        let words = |line: &[&str]| -> Vec<Vec<u8>> {
            line.iter().map(|word| word.as_bytes().to_vec()).collect()
        };
        let look = |detail: &str| [words(&["DEL", CLOCK]), words(&["EVAL", DUMP, "0", detail])];
        let mut commands = vec![words(&["FLUSHALL"])];
        let (mut answers, mut dumps) = (Vec::new(), Vec::new());
        let mut before: Option<&SequenceStep> = None;
        for step in sequence {
            let (now_us, now_ms) = (step.now_us.to_string(), (step.now_us / 1000).to_string());
            let calm = before.is_some_and(|it| it.now_us == step.now_us && !it.is_call());
            if !calm || detail == Detail::EveryStep {
                commands.push(words(&["EVAL", SWEEP, "0", &now_ms]));
                commands.push(words(&["SET", CLOCK, &now_us]));
            }
            before = Some(step);
            answers.push(commands.len());
            commands.push(step.command.clone());
            commands.push(words(&["PUBLISH", STEP_DONE, ""]));
            if detail == Detail::EveryStep {
                commands.push(words(&["EVAL", SWEEP, "0", &now_ms]));
                commands.extend(look("full"));
                dumps.push(commands.len() - 1);
            }
        }
        if detail == Detail::End {
            let now_ms = sequence.last().map_or(0, |step| step.now_us / 1000).to_string();
            commands.push(words(&["EVAL", SWEEP, "0", &now_ms]));
            commands.extend(look("digest"));
            dumps.push(commands.len() - 1);
        }
        let replies = self.connection.pipeline(&commands)?;
        if let Some(error) = dumps.iter().map(|at| &replies[*at]).find(|it| !is_dump(it)) {
            return Err(io::Error::other(format!("the keyspace cannot be read: {error:?}")).into());
        }
        let results = answers.into_iter().map(|at| -> io::Result<StepResult> {
            Ok(StepResult { reply: replies[at].clone(), published: self.published()? })
        });
        let results = results.collect::<io::Result<_>>()?;
        Ok(Played { results, keyspaces: dumps.into_iter().map(|at| replies[at].clone()).collect() })
    }

    /// What the server published until the next step was done.
    fn published(&mut self) -> io::Result<Vec<Message>> {
        let mut published = Vec::new();
        loop {
            let message = self.listener.next_message()?;
            if message.channel == STEP_DONE.as_bytes() {
                return Ok(published);
            }
            published.push(message);
        }
    }
}

/// The first place at which two lists differ.
fn first_other<T: PartialEq>(one: &[T], other: &[T]) -> Option<usize> {
    one.iter().zip(other).position(|(one, other)| one != other)
}

/// Whole keyspaces are long: what one has and the other has not is enough.
fn lines_only_in(one: &Value, other: &Value) -> String {
    let (Value::Bulk(one), Value::Bulk(other)) = (one, other) else { return show(one) };
    let (one, other) = (String::from_utf8_lossy(one), String::from_utf8_lossy(other));
    let other: Vec<&str> = other.lines().collect();
    one.lines().filter(|line| !other.contains(line)).collect::<Vec<_>>().join("\n    ")
}

impl fmt::Display for StepResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", show(&self.reply))?;
        self.published.iter().try_for_each(|message| {
            let (channel, payload) = (&message.channel, &message.payload);
            write!(f, "\n    published {}: {}", channel.escape_ascii(), payload.escape_ascii())
        })
    }
}

impl fmt::Display for Played {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.results.iter().try_for_each(|results| writeln!(f, "{results}"))?;
        self.keyspaces.iter().try_for_each(|keyspace| writeln!(f, "{}", show(keyspace)))
    }
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "the host and Valkey part after:")?;
        for step in &self.steps {
            writeln!(f, "  at {} us: {}", step.now_us, spell(&step.command))?;
        }
        writeln!(f, "  host   {}", self.host)?;
        writeln!(f, "  valkey {}", self.valkey)
    }
}

/// The channel on which the server tells that a step is done. No function publishes there.
const STEP_DONE: &str = "selvedge:step";

/// Two servers that both fail to tell their keyspace do not agree about it.
fn is_dump(reply: &Value) -> bool {
    !matches!(reply, Value::Error(_) | Value::Nil)
}

/// How many shorter sequences are tried.
const TRIES_MAX: usize = 1_000;

const SWEEP: &str = include_str!("sweep.lua");
const DUMP: &str = include_str!("../conformance/dump.lua");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::differential::steered;
    use selvedge_lua::library::SOURCE;

    /// A sweep looks at every key, so that one at each step would make long sequences endless.
    #[test]
    fn the_store_is_swept_when_time_passes_and_not_at_every_step() {
        let mut stores = HostAndValkey::start(&steered(SOURCE)).unwrap();
        let step = |number: u64| SequenceStep {
            now_us: 4_000_000_000_000_000 + number / 100,
            command: ["SET", &number.to_string(), "1"].map(|word| word.into()).to_vec(),
        };
        stores.play(&(0..500).map(step).collect::<Vec<_>>()).unwrap();
        let Value::Bulk(told) = stores.connection.call(&["INFO", "commandstats"]).unwrap() else {
            panic!("no figures");
        };
        let told = String::from_utf8_lossy(&told);
        let evals = told.lines().find_map(|line| line.strip_prefix("cmdstat_eval:calls="));
        let evals = evals.and_then(|line| line.split(',').next()).and_then(|it| it.parse().ok());
        // At each of five times, at the end, and what is there then.
        assert_eq!(evals, Some(5 + 1 + 1), "{told}");
    }
}
