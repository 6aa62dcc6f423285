//! [`Store`]: the connection to the data, in memory or on servers.
//!
//! The URL selects the kind: `memory://` is in this process, `valkey://` and `redis://` are a
//! server, several hosts or `?cluster=true` a cluster; `valkeys://` and `rediss://` use TLS.
//! Nothing above this module depends on the kind.
//!
//! A store never retries a write that may have been applied. It follows redirects and loads a
//! missing library, because then the server has refused before running anything. A read whose
//! connection ended before the reply is retried once.
//!
//! ```
//! use selvedge::store::{Store, StoreOptions, StoreUrl};
//! use selvedge::low_level::call::library::Version;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let store = Store::open(&StoreUrl::memory(), StoreOptions::default()).await?;
//! assert_eq!(store.call(&Version).await?, "34");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cluster;
mod connection;
mod connector;
mod error;
mod library;
#[cfg(feature = "memory")]
mod memory;
#[cfg(not(feature = "memory"))]
#[path = "memory_disabled.rs"]
mod memory;
mod node;
mod reply;
mod slots;
mod subscription;
mod tls;
mod topology;
mod url;

use std::sync::Arc;
use std::time::Duration;

use selvedge_core::call::Function;
use selvedge_core::command::{Answer, Command};
use selvedge_core::error::{CallError, ServerError};
use selvedge_core::time::ServerTime;
use selvedge_core::value::Value;
use tokio::sync::watch;

pub use error::{LIMIT_MAX, StoreError, TlsError, TlsFile};
pub use library::LibraryUse;
pub use subscription::{Push, Subscription};
pub use tls::TlsOptions;
pub use url::{InvalidUrl, StoreUrl};

#[cfg(feature = "inspect")]
use crate::clock::wall_clock_us;
use memory::Memory;
use subscription::Source;
use topology::Topology;
use url::Location;

/// Timeouts and options of a [`Store`].
///
/// ```
/// use std::time::Duration;
/// use selvedge::store::StoreOptions;
///
/// let options = StoreOptions::default().call_within(Duration::from_secs(2));
/// assert_eq!(options.connect_within, Duration::from_secs(3));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoreOptions {
    /// Timeout of a single call.
    pub call_within: Duration,
    /// Timeout of connecting, and of authenticating and of loading the library each.
    pub connect_within: Duration,
    /// Whether to load the function library.
    pub library: LibraryUse,
    /// Certificates, for URLs that use TLS.
    pub tls: TlsOptions,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            call_within: Duration::from_secs(5),
            connect_within: Duration::from_secs(3),
            library: LibraryUse::Ensure,
            tls: TlsOptions::default(),
        }
    }
}

impl StoreOptions {
    /// The same options with another limit for a single call, from 1 ms to [`LIMIT_MAX`].
    #[must_use]
    pub fn call_within(mut self, limit: Duration) -> Self {
        self.call_within = limit;
        self
    }

    /// The same options with another limit for connecting, from 1 ms to [`LIMIT_MAX`].
    #[must_use]
    pub fn connect_within(mut self, limit: Duration) -> Self {
        self.connect_within = limit;
        self
    }

    /// The same options with another treatment of the function library.
    #[must_use]
    pub fn library(mut self, library: LibraryUse) -> Self {
        self.library = library;
        self
    }

    /// The same options with these certificates.
    #[must_use]
    pub fn tls(mut self, tls: TlsOptions) -> Self {
        self.tls = tls;
        self
    }
}

/// A handle to a store. Cloning is cheap; clones share the connections.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

struct Inner {
    url: StoreUrl,
    options: StoreOptions,
    backend: Backend,
}

enum Backend {
    Memory(Box<Memory>),
    Servers(Arc<Topology>),
}

impl Store {
    /// Connects, and loads the function library where it is missing or older.
    ///
    /// # Errors
    /// When the store cannot be reached or used. A connection that is lost later is reopened in the
    /// background.
    pub async fn open(url: &StoreUrl, options: StoreOptions) -> Result<Self, StoreError> {
        for (option, limit) in
            [("call_within", options.call_within), ("connect_within", options.connect_within)]
        {
            if !(Duration::from_millis(1)..=LIMIT_MAX).contains(&limit) {
                return Err(StoreError::InvalidLimit { option, limit });
            }
        }
        let backend = match &url.0 {
            Location::Memory => Backend::Memory(Box::new(Memory::open(0)?)),
            Location::Servers(servers) => {
                Backend::Servers(Arc::new(Topology::open(servers, &options).await?))
            }
        };
        Ok(Self(Arc::new(Inner { url: url.clone(), options, backend })))
    }

    /// An empty in-memory store whose clock starts at `now`, to match the clock of a server.
    #[cfg(feature = "inspect")]
    pub(crate) fn memory_at(now: ServerTime) -> Result<Self, StoreError> {
        let here = i64::try_from(wall_clock_us()).unwrap_or(i64::MAX);
        let clock_offset_us = now.0.saturating_mul(1_000).saturating_sub(here);
        let backend = Backend::Memory(Box::new(Memory::open(clock_offset_us)?));
        let options = StoreOptions::default();
        Ok(Self(Arc::new(Inner { url: StoreUrl::memory(), options, backend })))
    }

    /// Runs commands: one pipeline per server, one answer per command, in order. A command without
    /// a reply in time is *perhaps applied*; one that was never sent is *not applied*. Replies are
    /// waited for as long as `within` says.
    pub async fn run(&self, batch: Vec<Command>, within: Duration) -> Vec<Answer> {
        match &self.0.backend {
            Backend::Memory(memory) => {
                // The memory store never awaits, so it must yield to other tasks itself.
                tokio::task::coop::consume_budget().await;
                memory.run(&batch)
            }
            Backend::Servers(topology) => topology.run(&batch, within).await,
        }
    }

    /// Calls a function of the library: one round trip.
    ///
    /// # Errors
    /// The function's refusal, a reply that cannot be parsed, or a [`ServerError`], which tells
    /// whether the call may have been applied.
    pub async fn call<F: Function>(&self, call: &F) -> Result<F::Reply, CallError> {
        let answers = self.run(vec![Command::call(call)], self.0.options.call_within).await;
        match answers.into_iter().next() {
            Some(answer) => parse::<F>(answer),
            None => Err(ServerError::silence("not answered").into()),
        }
    }

    /// Calls a function many times: one round trip per server involved. One result per call, in
    /// order.
    pub async fn call_all<F: Function>(&self, calls: &[F]) -> Vec<Result<F::Reply, CallError>> {
        let batch = calls.iter().map(Command::call).collect();
        let answers = self.run(batch, self.0.options.call_within).await;
        answers.into_iter().map(parse::<F>).collect()
    }

    /// Runs one plain command on the server that owns its slot.
    ///
    /// # Errors
    /// The server's error reply, or the failure to get a reply.
    pub async fn command(&self, command: Command) -> Result<Value, ServerError> {
        let answers = self.run(vec![command], self.0.options.call_within).await;
        reply_of(answers.into_iter().next())
    }

    /// Subscribes to channels over a connection of its own. The first item is a [`Push::Gap`], sent
    /// once the subscription is active.
    #[must_use]
    pub fn subscribe(&self, channels: &[&str]) -> Subscription {
        let channels = channels.iter().map(|name| name.as_bytes().to_vec()).collect();
        match &self.0.backend {
            Backend::Memory(memory) => Subscription(Source::Memory(memory.subscribe(channels))),
            Backend::Servers(topology) => Subscription::start(topology.clone(), channels),
        }
    }

    /// The time by the store's clock.
    ///
    /// # Errors
    /// When the server does not answer, or not with a time.
    pub async fn server_time(&self) -> Result<ServerTime, ServerError> {
        let reply = self.command(Command::time(0)).await?;
        selvedge_core::reply::time(&reply).map_err(|broken| {
            ServerError::from_reply(format!("unexpected reply to TIME: {broken}"))
        })
    }

    /// Why a server of the store is not connected at this moment; `None` if all are.
    #[must_use]
    pub fn connection_error(&self) -> Option<ServerError> {
        match &self.0.backend {
            Backend::Memory(_) => None,
            Backend::Servers(topology) => topology.connection_error(),
        }
    }

    /// Counts loads of the library on all servers; `None` for `memory://`, which cannot lose it.
    #[must_use]
    pub(crate) fn library_loads(&self) -> Option<watch::Receiver<u64>> {
        match &self.0.backend {
            Backend::Memory(_) => None,
            Backend::Servers(topology) => Some(topology.library_loads()),
        }
    }

    /// The addresses of the servers that own data; empty for `memory://`.
    #[must_use]
    pub fn servers(&self) -> Vec<String> {
        match &self.0.backend {
            Backend::Memory(_) => Vec::new(),
            Backend::Servers(topology) => topology.addresses(),
        }
    }

    /// One slot owned by each server, to address each server once.
    #[must_use]
    pub fn slot_per_server(&self) -> Vec<u16> {
        match &self.0.backend {
            Backend::Memory(_) => vec![0],
            Backend::Servers(topology) => topology.slot_per_server().into_values().collect(),
        }
    }

    /// The address of each server that owns data, with a slot of it; empty for `memory://`.
    #[cfg(feature = "inspect")]
    pub(crate) fn servers_with_slot(&self) -> Vec<(String, u16)> {
        match &self.0.backend {
            Backend::Memory(_) => Vec::new(),
            Backend::Servers(topology) => {
                let slots = topology.slot_per_server().into_iter();
                slots.map(|(address, slot)| (address.to_string(), slot)).collect()
            }
        }
    }

    /// Whether the servers are a cluster.
    #[cfg(feature = "inspect")]
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(&self.0.url.0, Location::Servers(servers) if servers.cluster)
    }

    /// The URL it was opened with.
    #[must_use]
    pub fn url(&self) -> &StoreUrl {
        &self.0.url
    }

    /// The options it was opened with.
    #[must_use]
    pub fn options(&self) -> &StoreOptions {
        &self.0.options
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Store({})", self.0.url)
    }
}

/// Parses the bytes of a reply as a connection does.
#[cfg(feature = "fuzzing")]
pub(crate) fn read_wire(bytes: &[u8]) -> Option<Value> {
    reply::read(bytes)
}

fn parse<F: Function>(answer: Answer) -> Result<F::Reply, CallError> {
    match answer {
        Answer::Applied(value) => F::parse(value),
        Answer::NotApplied(error) | Answer::PerhapsApplied(error) => Err(error.into()),
    }
}

/// The reply to a single command; an error if there is none.
fn reply_of(answer: Option<Answer>) -> Result<Value, ServerError> {
    answer.map_or_else(|| Err(ServerError::silence("not answered")), Answer::into_result)
}

#[cfg(all(test, not(all(feature = "memory", feature = "tls"))))]
mod tests;
