//! An in-process Valkey: a Lua 5.1 VM over an in-memory keyspace.
//!
//! A [`Host`] answers commands as a server would, byte for byte, and runs the same function library
//! as servers. It reads no clock and has no random source: time and seed are given, so that the
//! same calls give the same replies every time.
//!
//! ```
//! use selvedge_lua::host::{Host, HostConfig};
//! use selvedge_core::value::Value;
//!
//! let mut host = Host::new(HostConfig::default());
//! host.call(&["SET", "greeting", "hello"]);
//! assert_eq!(host.call(&["GET", "greeting"]), Value::Bulk(b"hello".to_vec()));
//! ```

mod audit_view;
mod command;
mod dispatch;
mod function_command;
mod keyspace;
mod number;
mod replication;
mod scripting;
mod session;
mod shebang;
mod slot_moves;
mod store;
#[cfg(test)]
mod tests;
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "Lua's types are a closed set; a rule names those it is about"
)]
mod vm;

use selvedge_core::value::Value;

pub use replication::KeyCopy;
pub use session::Session;
pub use slot_moves::SlotMove;

use keyspace::Keyspace;
use scripting::{Libraries, Scripting};
use store::{Failure, SharedStore, Store};

/// The settings of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostConfig {
    /// Refuse commands and scripts whose keys lie in several hash slots, as a cluster does.
    pub cluster: bool,
    /// The seed of SPOP, SRANDMEMBER and `math.random`.
    pub seed: u64,
    /// Let SSCAN answer like a server that is resizing its table: small sets in several pages, in
    /// any order, with repeated members.
    pub unruly_scans: bool,
    /// How many Lua instructions one call may take before it is stopped. With the highest number
    /// instructions are not counted, which costs less: for scripts that are known to end.
    pub instruction_budget: u64,
    /// Count every instruction, for [`Host::last_instructions`]. Takes many times as long.
    pub exact_instructions: bool,
    /// How much memory each Lua VM may hold, in bytes.
    pub lua_memory_max: usize,
    /// Longest word of a command, in bytes.
    pub value_bytes_max: usize,
}

impl Default for HostConfig {
    fn default() -> Self {
        Self {
            cluster: false,
            seed: 0,
            unruly_scans: false,
            // Far above any function of the library, and over in a few seconds.
            instruction_budget: 400_000_000,
            exact_instructions: false,
            // Room for a few copies of a value of 64 MiB.
            lua_memory_max: 1024 * 1024 * 1024,
            // The default of the server.
            value_bytes_max: 512 * 1024 * 1024,
        }
    }
}

/// A message that PUBLISH sent. The host has no subscribers: it keeps messages until they are
/// taken.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Message {
    /// Where it was sent.
    pub channel: Vec<u8>,
    /// What was sent.
    pub payload: Vec<u8>,
}

/// A command that a script asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InnerCommand {
    /// Its name and arguments.
    pub argv: Vec<Vec<u8>>,
    /// Its outcome.
    pub outcome: Outcome,
}

/// The outcome of an inner command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It changed nothing.
    Read,
    /// It changed something.
    Wrote,
    /// It answered this error, injected ones included.
    Failed(String),
}

/// The keyspace and the loaded libraries at one moment; empty by default.
#[derive(Clone, Default)]
pub struct Snapshot {
    keyspace: Keyspace,
    libraries: Libraries,
}

/// An in-process Valkey.
///
/// Time changes only when [`Host::set_now_us`] sets it, so never during a call.
pub struct Host {
    config: HostConfig,
    store: SharedStore,
    scripting: Scripting,
    session: Session,
}

impl Host {
    /// An empty host at time zero.
    #[must_use]
    pub fn new(config: HostConfig) -> Self {
        let store = SharedStore::new(&config);
        let scripting = Scripting::new(&config, &store);
        Self { config, store, scripting, session: Session::new() }
    }

    /// Carries out one command as the host's own client.
    pub fn call(&mut self, argv: &[impl AsRef<[u8]>]) -> Value {
        let mut session = std::mem::take(&mut self.session);
        let reply = self.call_as(&mut session, argv);
        self.session = session;
        reply
    }

    /// Carries out one command as the client of a session.
    pub fn call_as(&mut self, session: &mut Session, argv: &[impl AsRef<[u8]>]) -> Value {
        self.store.lock().begin_call();
        self.dispatch(session, argv.iter().map(|word| word.as_ref().to_vec()).collect())
    }

    /// Calls a function: FCALL without building and parsing a command.
    pub fn fcall(
        &mut self,
        name: &str,
        keys: &[impl AsRef<[u8]>],
        arguments: &[impl AsRef<[u8]>],
    ) -> Value {
        let mut store = self.store.lock();
        store.begin_call();
        store.asking = std::mem::take(&mut self.session.asking);
        if self.config.cluster {
            let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
            if let Err(refusal) = store.judge_keys(&keys) {
                return refusal;
            }
        }
        drop(store);
        self.scripting.fcall_parts(name, keys, arguments)
    }

    /// Moves the clock, in microseconds since the epoch.
    pub fn set_now_us(&mut self, now_us: u64) {
        self.store.lock().now_us = now_us;
    }

    /// Takes the messages published since the last time.
    pub fn take_published(&mut self) -> Vec<Message> {
        std::mem::take(&mut self.store.lock().published)
    }

    /// Goes back to a snapshot. Time, random draws and sessions are not changed.
    pub fn restore(&mut self, snapshot: &Snapshot) {
        self.store.lock().keyspace = snapshot.keyspace.clone();
        self.scripting.set_libraries(snapshot.libraries.clone());
    }

    /// Starts again from a snapshot of this host: at time zero, with a new seed, and without
    /// anything that earlier calls left behind. Compiled libraries are kept, so this is far cheaper
    /// than a new host.
    pub fn reset_to(&mut self, snapshot: &Snapshot, seed: u64) {
        self.session = Session::new();
        *self.store.lock() = Store::new(&HostConfig { seed, ..self.config.clone() });
        self.scripting.forget_scripts();
        self.restore(snapshot);
    }

    /// Sets the seed of SPOP, SRANDMEMBER and `math.random`.
    pub fn reseed(&mut self, seed: u64) {
        self.store.lock().reseed(seed);
    }

    /// Makes the `at`-th inner command answer `error`, once, in the next call that has so many.
    ///
    /// Counted from one. The command itself is not carried out.
    pub fn fail_at(&mut self, at: usize, error: impl Into<String>) {
        self.store.lock().failure = Some(Failure { at, error: error.into() });
    }

    /// Cancels [`Host::fail_at`]; answers whether the failure was still outstanding.
    pub fn clear_failure(&mut self) -> bool {
        self.store.lock().failure.take().is_some()
    }

    /// Starts or stops logging the inner commands of each call, for [`Host::last_inner_log`].
    pub fn log_inner_commands(&mut self, wanted: bool) {
        self.store.lock().inner_log = wanted.then(Vec::new);
    }

    /// Makes every write answer this error from now on, or lets writes work again.
    ///
    /// A function that may write is refused before it begins, as with a server that is a replica
    /// or out of memory.
    pub fn refuse_writes(&mut self, error: Option<String>) {
        self.store.lock().write_refusal = error;
    }

    /// The clock, in microseconds since the epoch.
    #[must_use]
    pub fn now_us(&self) -> u64 {
        self.store.lock().now_us
    }

    /// A copy of the keyspace and the libraries as they are now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            keyspace: self.store.lock().keyspace.clone(),
            libraries: self.scripting.libraries().clone(),
        }
    }

    /// A digest of all live keys with their values and expiries, independent of their history.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        let store = self.store.lock();
        store.keyspace.digest(store.now_ms())
    }

    /// Passes the content that [`Host::digest`] hashes to `each`, in pieces, for another hash.
    pub fn visit_bytes(&self, each: impl FnMut(&[u8])) {
        let store = self.store.lock();
        store.keyspace.visit_bytes(store.now_ms(), each);
    }

    /// A readable listing of all live keys, for comparing two keyspaces.
    #[must_use]
    pub fn dump(&self) -> String {
        let store = self.store.lock();
        store.keyspace.dump(store.now_ms())
    }

    /// How many keys there are, with expired ones that no command has removed yet.
    #[must_use]
    pub fn key_count(&self) -> usize {
        self.store.lock().keyspace.count()
    }

    /// The commands of the last call that changed something, in order, inner ones included.
    #[must_use]
    pub fn last_writes(&self) -> Vec<Vec<Vec<u8>>> {
        self.store.lock().writes.clone()
    }

    /// As [`Host::last_writes`], and forgets them.
    pub fn take_writes(&mut self) -> Vec<Vec<Vec<u8>>> {
        std::mem::take(&mut self.store.lock().writes)
    }

    /// Whether the last call changed anything.
    #[must_use]
    pub fn has_written(&self) -> bool {
        !self.store.lock().writes.is_empty()
    }

    /// How many instructions of Lua the last function call took, library code in C not included:
    /// the same on every machine. In steps of ten thousand unless the host counts exactly.
    #[must_use]
    pub fn last_instructions(&self) -> u64 {
        self.scripting.functions.last_instructions()
    }

    /// How many commands the scripts of the last call asked for.
    #[must_use]
    pub fn last_inner_commands(&self) -> usize {
        self.store.lock().inner_commands
    }

    /// The commands that the scripts of the last call asked for, in order. Empty unless
    /// [`Host::log_inner_commands`] was asked for.
    #[must_use]
    pub fn last_inner_log(&self) -> Vec<InnerCommand> {
        self.store.lock().inner_log.clone().unwrap_or_default()
    }
}
