//! The keyspace with everything that a running call may change or ask, shared by the host and
//! its two Lua VMs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use selvedge_core::partition::slot;
use selvedge_core::value::Value;

use super::command::{self, CommandSpec, Env};
use super::keyspace::Keyspace;
use super::slot_moves::SlotMoves;
use super::vm::{LuaRandom, Protocol};
use super::{HostConfig, InnerCommand, Message, Outcome};

/// One store, shared by a host and the native functions of its VMs.
///
/// Never contended: the host runs one call at a time, and a VM runs inside that call.
#[derive(Clone)]
pub(crate) struct SharedStore(Arc<Mutex<Store>>);

impl SharedStore {
    pub(crate) fn new(config: &HostConfig) -> Self {
        Self(Arc::new(Mutex::new(Store::new(config))))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Store> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one call, with all its inner commands, works on.
pub(crate) struct Store {
    pub(crate) keyspace: Keyspace,
    pub(crate) now_us: u64,
    pub(crate) published: Vec<Message>,
    /// Commands of the current call that changed something, in order.
    pub(crate) writes: Vec<Vec<Vec<u8>>>,
    /// How many commands the scripts of the current call have asked for.
    pub(crate) inner_commands: usize,
    /// These commands themselves, while they are logged.
    pub(crate) inner_log: Option<Vec<InnerCommand>>,
    pub(crate) failure: Option<Failure>,
    /// The error that refuses writes, while they are refused.
    pub(crate) write_refusal: Option<String>,
    pub(crate) lua_random: LuaRandom,
    pub(crate) script: ScriptRules,
    pub(crate) slot_moves: SlotMoves,
    /// Whether the client of the current call has said ASKING before it.
    pub(crate) asking: bool,
    random: ChaCha8Rng,
    unruly_scans: bool,
    cluster: bool,
}

/// An error to answer in place of one inner command.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    /// Which inner command of a call, counted from one.
    pub(crate) at: usize,
    pub(crate) error: String,
}

/// What the running script may do, and how it wants its replies.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScriptRules {
    pub(crate) protocol: Protocol,
    pub(crate) read_only: bool,
    /// Keys of several slots may be touched, one command at a time.
    pub(crate) any_slot: bool,
    /// The one slot of the script: that of its declared keys, or of the first key it touched.
    pub(crate) slot: Option<u16>,
}

impl Store {
    pub(crate) fn new(config: &HostConfig) -> Self {
        let (lua_random, random) = generators(config.seed);
        Self {
            keyspace: Keyspace::default(),
            now_us: 0,
            published: Vec::new(),
            writes: Vec::new(),
            inner_commands: 0,
            inner_log: None,
            failure: None,
            write_refusal: None,
            lua_random,
            script: ScriptRules::default(),
            slot_moves: SlotMoves::default(),
            asking: false,
            random,
            unruly_scans: config.unruly_scans,
            cluster: config.cluster,
        }
    }

    /// The time as expiries count it.
    pub(crate) fn now_ms(&self) -> i64 {
        i64::try_from(self.now_us / 1000).unwrap_or(i64::MAX)
    }

    /// Seeds all random draws again.
    pub(crate) fn reseed(&mut self, seed: u64) {
        (self.lua_random, self.random) = generators(seed);
    }

    /// Forgets what the last call left behind for inspection.
    pub(crate) fn begin_call(&mut self) {
        self.writes.clear();
        self.inner_commands = 0;
        if let Some(log) = &mut self.inner_log {
            log.clear();
        }
    }

    /// Refuses a command of a client whose keys are of several slots, or not all on this node.
    pub(crate) fn judge_keys(&self, keys: &[&[u8]]) -> Result<(), Value> {
        if !self.cluster {
            return Ok(());
        }
        let refusal = match common_slot(keys.iter().copied()) {
            Slots::None => None,
            Slots::One(slot) => self.move_refusal(slot, keys),
            Slots::Several => Some(CROSS_SLOT.to_owned()),
        };
        refusal.map_or(Ok(()), |text| Err(Value::Error(text)))
    }

    /// The same for a command that a transaction queues.
    pub(crate) fn judge_queued_keys(&self, keys: &[&[u8]]) -> Result<(), Value> {
        if !self.cluster {
            return Ok(());
        }
        let refusal = match common_slot(keys.iter().copied()) {
            Slots::None => None,
            Slots::One(slot) => self.slot_moves.refusal_of_queued(slot, self.asking),
            Slots::Several => Some(CROSS_SLOT.to_owned()),
        };
        refusal.map_or(Ok(()), |text| Err(Value::Error(text)))
    }

    fn move_refusal(&self, slot: u16, keys: &[&[u8]]) -> Option<String> {
        let has = |key: &[u8]| self.keyspace.get(key, self.now_ms()).is_some();
        self.slot_moves.refusal(slot, keys, self.asking, has)
    }

    /// Runs a command of a client.
    pub(crate) fn execute(&mut self, argv: Vec<Vec<u8>>) -> Value {
        command::execute(&mut self.env(), argv)
    }

    fn env(&mut self) -> Env<'_> {
        Env {
            keyspace: &mut self.keyspace,
            now_us: self.now_us,
            random: &mut self.random,
            unruly_scans: self.unruly_scans,
            published: &mut self.published,
            writes: &mut self.writes,
        }
    }

    /// Runs a command that a script asked for, if the script may.
    pub(crate) fn inner_call(&mut self, argv: Vec<Vec<u8>>) -> Value {
        self.inner_commands += 1;
        if self.inner_log.is_none() {
            return self.judged_inner_call(argv);
        }
        let writes_before = self.writes.len();
        let reply = self.judged_inner_call(argv.clone());
        let outcome = if let Value::Error(text) = &reply {
            Outcome::Failed(text.clone())
        } else if self.writes.len() > writes_before {
            Outcome::Wrote
        } else {
            Outcome::Read
        };
        if let Some(log) = &mut self.inner_log {
            log.push(InnerCommand { argv, outcome });
        }
        reply
    }

    fn judged_inner_call(&mut self, argv: Vec<Vec<u8>>) -> Value {
        if let Some(failure) = self.failure.take_if(|failure| failure.at == self.inner_commands) {
            return Value::Error(failure.error);
        }
        match self.admitted(&argv) {
            Ok(spec) => command::execute_as(spec, &mut self.env(), argv),
            Err(text) => Value::Error(text),
        }
    }

    /// The command that a script asked for, or why it may not have it.
    fn admitted(&mut self, argv: &[Vec<u8>]) -> Result<&'static CommandSpec, String> {
        let refuse = |text: &str| Err(format!("ERR {text}"));
        let name = argv.first().map_or(&[][..], Vec::as_slice);
        let Some(spec) = command::lookup(name) else {
            if super::dispatch::is_known(name) {
                return refuse("This Valkey command is not allowed from script");
            }
            if command::is_unsupported(name) {
                let name = String::from_utf8_lossy(name).to_lowercase();
                return refuse(&format!("The command '{name}' is not part of the in-process host"));
            }
            return refuse("Unknown command called from script");
        };
        if !spec.accepts(argv.len()) {
            return refuse("Wrong number of args calling command from script");
        }
        if spec.flags.noscript {
            return refuse("This Valkey command is not allowed from script");
        }
        if let Some(text) = self.slot_refusal(spec, argv) {
            return Err(text);
        }
        if self.script.read_only && (spec.flags.write || spec.name == "publish") {
            return refuse("Write commands are not allowed from read-only scripts.");
        }
        if spec.flags.write
            && let Some(text) = &self.write_refusal
        {
            return Err(text.clone());
        }
        Ok(spec)
    }

    fn slot_refusal(&mut self, spec: &CommandSpec, argv: &[Vec<u8>]) -> Option<String> {
        if !self.cluster {
            return None;
        }
        let refuse = |text: &str| Some(format!("ERR {text}"));
        let keys = spec.keys(argv);
        match common_slot(keys.iter().copied()) {
            Slots::None => None,
            Slots::Several => refuse(NON_LOCAL_KEY),
            Slots::One(slot) if self.move_refusal(slot, &keys).is_some() => refuse(NON_LOCAL_KEY),
            Slots::One(_) if self.script.any_slot => None,
            Slots::One(found) if *self.script.slot.get_or_insert(found) == found => None,
            Slots::One(_) => {
                refuse("Script attempted to access keys that do not hash to the same slot")
            }
        }
    }
}

const CROSS_SLOT: &str = "CROSSSLOT Keys in request don't hash to the same slot";

const NON_LOCAL_KEY: &str = "Attempted to access a non local key in a cluster node";

/// Where the draws of scripts and of commands begin.
fn generators(seed: u64) -> (LuaRandom, ChaCha8Rng) {
    // The generator of scripts has 32 bits of seed; both halves of ours count.
    (LuaRandom::seeded((seed ^ (seed >> 32)) as u32), ChaCha8Rng::seed_from_u64(seed))
}

/// The slots of some keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slots {
    None,
    One(u16),
    Several,
}

/// Whether keys share a slot.
pub(crate) fn common_slot<'a>(keys: impl IntoIterator<Item = &'a [u8]>) -> Slots {
    keys.into_iter().fold(Slots::None, |slots, key| match (slots, slot(key)) {
        (Slots::None, found) => Slots::One(found),
        (Slots::One(common), found) if common == found => slots,
        (Slots::One(_) | Slots::Several, _) => Slots::Several,
    })
}
