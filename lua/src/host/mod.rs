//! An in-process Valkey: a Lua 5.1 VM over an in-memory keyspace.
//!
//! A [`Host`] answers commands as a server would, byte for byte, and runs the very function
//! library that servers run. Nothing in it reads a clock or draws a random number of its own:
//! time and seed are given, so that the same calls give the same replies every time.
//!
//! ```
//! use selvedge_lua::host::{Host, HostConfig};
//! use selvedge_core::value::Value;
//!
//! let mut host = Host::new(HostConfig::default());
//! host.call(&["SET", "greeting", "hello"]);
//! assert_eq!(host.call(&["GET", "greeting"]), Value::Bulk(b"hello".to_vec()));
//! ```

mod command;
mod dispatch;
mod image;
mod keyspace;
mod library;
mod number;
mod session;
mod shebang;
mod store;
#[cfg(test)]
mod tests;
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "Lua's types are a closed set; a rule names those it is about"
)]
mod vm;

use selvedge_core::value::Value;

pub use image::Image;
pub use session::Session;

use keyspace::Keyspace;
use library::{Libraries, Scripting};
use store::{Failure, SharedStore, Store};

/// What a host is told once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostConfig {
    /// Refuse commands and scripts whose keys lie in several hash slots, as a cluster does.
    pub cluster: bool,
    /// Where the draws of SPOP, SRANDMEMBER and `math.random` begin.
    pub seed: u64,
    /// Let SSCAN take all the liberties of a server that is just growing or shrinking its table:
    /// small sets in several pages, any order, and members that were answered before.
    pub unruly_scans: bool,
    /// How many Lua instructions one call may take before it is stopped. The highest number means
    /// that nobody counts, which costs less: for scripts that are known to end.
    pub instruction_budget: u64,
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
            // Room for a few copies of a value of 64 MiB.
            lua_memory_max: 1024 * 1024 * 1024,
            // The default of the server.
            value_bytes_max: 512 * 1024 * 1024,
        }
    }
}

/// A message that PUBLISH sent. Nobody listens inside the host, so that it is kept.
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
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of an inner command.
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
/// Time stands still unless [`Host::set_now_us`] moves it, so during every call.
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

    /// Calls a function: FCALL without putting a command together and taking it apart.
    pub fn fcall(
        &mut self,
        name: &str,
        keys: &[impl AsRef<[u8]>],
        arguments: &[impl AsRef<[u8]>],
    ) -> Value {
        self.store.lock().begin_call();
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

    /// Goes back to a snapshot. Time, randomness and sessions go on.
    pub fn restore(&mut self, snapshot: &Snapshot) {
        self.store.lock().keyspace = snapshot.keyspace.clone();
        self.scripting.set_libraries(snapshot.libraries.clone());
    }

    /// Begins anew with what a snapshot of this host holds: at time zero, with fresh draws, and
    /// without anything that earlier calls left behind. What is compiled stays compiled, which
    /// makes this far cheaper than a new host.
    pub fn begin_anew(&mut self, snapshot: &Snapshot, seed: u64) {
        self.session = Session::new();
        *self.store.lock() = Store::new(&HostConfig { seed, ..self.config.clone() });
        self.scripting.forget_scripts();
        self.restore(snapshot);
    }

    /// Begins the draws of SPOP, SRANDMEMBER and `math.random` anew.
    pub fn reseed(&mut self, seed: u64) {
        self.store.lock().reseed(seed);
    }

    /// Lets the `at`-th inner command of the next call that gets so far answer `error`, once.
    ///
    /// Counted from one. The command itself is not carried out.
    pub fn fail_at(&mut self, at: usize, error: impl Into<String>) {
        self.store.lock().failure = Some(Failure { at, error: error.into() });
    }

    /// Takes back what [`Host::fail_at`] asked for; tells whether it was still outstanding.
    pub fn clear_failure(&mut self) -> bool {
        self.store.lock().failure.take().is_some()
    }

    /// Keeps the inner commands of each call from now on, for [`Host::last_inner_log`], or no more.
    pub fn log_inner_commands(&mut self, wanted: bool) {
        self.store.lock().inner_log = wanted.then(Vec::new);
    }

    /// Lets every write answer this error from now on, or work again.
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

    /// Keeps the keyspace and the libraries as they are now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            keyspace: self.store.lock().keyspace.clone(),
            libraries: self.scripting.libraries().clone(),
        }
    }

    /// A digest of all live keys with their values and expiries, whatever their history.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        let store = self.store.lock();
        store.keyspace.digest(store.now_ms())
    }

    /// Spells what [`Host::digest`] is made of, piece by piece, for a hash of another kind.
    pub fn spell(&self, each: impl FnMut(&[u8])) {
        let store = self.store.lock();
        store.keyspace.spell(store.now_ms(), each);
    }

    /// A readable listing of all live keys, for telling two keyspaces apart.
    #[must_use]
    pub fn dump(&self) -> String {
        let store = self.store.lock();
        store.keyspace.dump(store.now_ms())
    }

    /// How many keys there are, dead ones included that nothing has touched since.
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
