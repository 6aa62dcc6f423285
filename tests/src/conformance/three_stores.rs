//! [`ThreeStores`]: runs the same commands on the host, on Valkey and on Redis, and compares them.

use std::fmt;
use std::io;
use std::thread;

use selvedge_core::value::Value;
use selvedge_lua::host::{Host, HostConfig};

use super::known_differences::{DifferenceKind, judge, reconcile};
use super::{Sequence, Step};
use crate::connection::Connection;
use crate::server::{Server, ServerError};
use crate::spec::report::show;

/// The three stores.
pub struct ThreeStores {
    host: Host,
    valkey: ServerStore,
    redis: ServerStore,
}

/// A server and the connection to it.
struct ServerStore {
    connection: Connection,
    // Ends the process when it goes.
    _server: Server,
}

/// What a store did at one step.
struct Observed {
    reply: Value,
    /// The keyspace after it, or its digest.
    keyspace: Value,
}

/// Two stores disagree: where, and on what.
#[derive(Clone, Debug)]
pub struct Divergence {
    /// The step that brought it to light, counted from one.
    pub step: usize,
    /// The command of that step.
    pub command: Vec<Vec<u8>>,
    /// Which store differs from the host, and whether in its reply or its keyspace.
    pub what: String,
    /// What each store has.
    pub said: Vec<(&'static str, String)>,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "step {}: {}", self.step, self.what)?;
        writeln!(f, "  {}", spell(&self.command))?;
        for (store, said) in &self.said {
            writeln!(f, "  {store:<7} {said}")?;
        }
        Ok(())
    }
}

/// A command as one readable line.
#[must_use]
pub fn spell(command: &[Vec<u8>]) -> String {
    let words = command.iter().map(|word| {
        let plain = !word.is_empty() && word.iter().all(u8::is_ascii_graphic);
        let escaped = word.escape_ascii();
        if plain { escaped.to_string() } else { format!("\"{escaped}\"") }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Why a run ended early.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The stores disagree.
    #[error("{0}")]
    Diverged(Box<Divergence>),
    /// A server did not start.
    #[error("{0}")]
    NoServer(#[from] ServerError),
    /// A server went away in the middle.
    #[error("{store}: {error}")]
    Gone {
        /// Which store.
        store: &'static str,
        /// What the connection says.
        error: io::Error,
    },
}

impl ThreeStores {
    /// Starts the two servers.
    pub fn start() -> Result<Self, RunError> {
        let store = |server: Server| {
            let connection = server.connect().map_err(ServerError::from)?;
            Ok::<_, RunError>(ServerStore { _server: server, connection })
        };
        Ok(Self {
            host: Host::new(HostConfig::default()),
            valkey: store(Server::valkey()?)?,
            redis: store(Server::redis()?)?,
        })
    }

    /// Runs a sequence from an empty keyspace; the first difference ends it.
    pub fn run(&mut self, sequence: &Sequence) -> Result<(), RunError> {
        let observed = self.observe(sequence, "digest")?;
        match first_divergence(sequence, &observed) {
            None => Ok(()),
            // Digests tell that keyspaces differ, not how: that takes a second look.
            Some((step, store, Part::Keyspace)) => {
                let full = self.observe(sequence, "full")?;
                Err(describe(sequence, &full, step, store, Part::Keyspace))
            }
            Some((step, store, Part::Reply)) => {
                Err(describe(sequence, &observed, step, store, Part::Reply))
            }
        }
    }

    /// Carries out all steps on all three stores at the same time.
    fn observe(&mut self, sequence: &Sequence, detail: &str) -> Result<Trace, RunError> {
        let commands = spelled_out(sequence, detail);
        self.host = Host::new(HostConfig::default());
        self.host.set_now_us(self.valkey.now_us()?);
        let (host, valkey, redis) = (&mut self.host, &mut self.valkey, &mut self.redis);
        let (host, valkey, redis) = thread::scope(|scope| {
            let valkey = scope.spawn(|| valkey.answer("valkey", &commands));
            let redis = sequence.on_redis.then(|| scope.spawn(|| redis.answer("redis", &commands)));
            let host: Vec<Value> = commands.iter().map(|command| host.call(command)).collect();
            let joined = "the threads only talk to a server, and do not panic";
            (host, valkey.join().expect(joined), redis.map(|redis| redis.join().expect(joined)))
        });
        Ok(Trace {
            host: by_step(sequence, host),
            valkey: by_step(sequence, valkey?),
            redis: redis.transpose()?.map(|replies| by_step(sequence, replies)),
        })
    }
}

/// What the stores did, step by step.
struct Trace {
    host: Vec<Observed>,
    valkey: Vec<Observed>,
    redis: Option<Vec<Observed>>,
}

/// What differs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Reply,
    Keyspace,
}

/// Every command that a store gets for a sequence.
fn spelled_out(sequence: &Sequence, detail: &str) -> Vec<Vec<Vec<u8>>> {
    let words = |line: &[&str]| line.iter().map(|word| word.as_bytes().to_vec()).collect();
    let mut commands: Vec<Vec<Vec<u8>>> = CLEAN_START.iter().map(|line| words(line)).collect();
    for step in &sequence.steps {
        commands.push(step.command.clone());
        commands.extend(step.cleanup.clone());
        commands.push(words(&["EVAL", DUMP, "0", detail]));
    }
    commands
}

/// Sorts the replies to [`spelled_out`] by step.
fn by_step(sequence: &Sequence, replies: Vec<Value>) -> Vec<Observed> {
    let mut replies = replies.into_iter().skip(CLEAN_START.len());
    let mut next = || replies.next().expect("as many replies as commands");
    let observe = |step: &Step| {
        let reply = next();
        if step.cleanup.is_some() {
            next();
        }
        Observed { reply, keyspace: next() }
    };
    sequence.steps.iter().map(observe).collect()
}

/// The first step at which a server differs from the host without a known reason.
fn first_divergence(sequence: &Sequence, trace: &Trace) -> Option<(usize, &'static str, Part)> {
    let mut redis_parted = false;
    for (index, step) in sequence.steps.iter().enumerate() {
        let (host, valkey) = (&trace.host[index], &trace.valkey[index]);
        if !step.comparison.agrees(&host.reply, &valkey.reply) {
            return Some((index, "valkey", Part::Reply));
        }
        if host.keyspace != valkey.keyspace {
            return Some((index, "valkey", Part::Keyspace));
        }
        let Some(redis) = trace.redis.as_ref().filter(|_| !redis_parted).map(|all| &all[index])
        else {
            continue;
        };
        let reply = reconcile(redis.reply.clone());
        if !step.comparison.agrees(&valkey.reply, &reply) {
            match judge(&step.command, &valkey.reply, &reply) {
                DifferenceKind::Unknown => return Some((index, "redis", Part::Reply)),
                DifferenceKind::Known => {}
                DifferenceKind::Parted => redis_parted = true,
            }
        }
        if !redis_parted && host.keyspace != redis.keyspace {
            return Some((index, "redis", Part::Keyspace));
        }
    }
    None
}

fn describe(
    sequence: &Sequence,
    trace: &Trace,
    index: usize,
    store: &'static str,
    part: Part,
) -> RunError {
    let said = |observed: &Observed| match part {
        Part::Reply => show(&observed.reply),
        Part::Keyspace => show(&observed.keyspace),
    };
    let mut all = vec![("host", said(&trace.host[index])), ("valkey", said(&trace.valkey[index]))];
    if let Some(redis) = &trace.redis {
        all.push(("redis", said(&redis[index])));
    }
    let name = if part == Part::Reply { "reply" } else { "keyspace" };
    RunError::Diverged(Box::new(Divergence {
        step: index + 1,
        command: sequence.steps[index].command.clone(),
        what: format!("{store} has another {name}"),
        said: all,
    }))
}

impl ServerStore {
    fn answer(
        &mut self,
        store: &'static str,
        commands: &[Vec<Vec<u8>>],
    ) -> Result<Vec<Value>, RunError> {
        let replies = self.connection.pipeline(commands);
        replies.map_err(|error| RunError::Gone { store, error })
    }

    /// The server's clock, so that the host can share it.
    fn now_us(&mut self) -> Result<u64, RunError> {
        let time = self.answer("valkey", &[vec![b"TIME".to_vec()]])?;
        let number = |value: &Value| {
            let Value::Bulk(digits) = value else { return 0 };
            String::from_utf8_lossy(digits).parse().unwrap_or(0)
        };
        Ok(match time.as_slice() {
            [Value::Array(parts)] if parts.len() == 2 => {
                number(&parts[0]) * 1_000_000 + number(&parts[1])
            }
            _ => 0,
        })
    }
}

/// The commands that prepare every store for a sequence.
const CLEAN_START: &[&[&str]] = &[&["FLUSHALL"], &["FUNCTION", "FLUSH"], &["SCRIPT", "FLUSH"]];

const DUMP: &str = include_str!("dump.lua");
