//! [`Store`]: one handle for whatever holds the data.
//!
//! The URL chooses: `memory://` is in this process, `valkey://` and `redis://` are a server,
//! several hosts or `?cluster=true` a cluster, the schemes with an `s` speak TLS. Nothing above
//! this module knows which one it is.
//!
//! A store never repeats a change that may have been applied. It follows slots that moved and
//! loads a missing library, because a server says before it runs anything that it will not; and it
//! asks a read once more whose connection ended before the answer.
//!
//! ```
//! use selvedge::store::{Store, StoreOptions, StoreUrl};
//! use selvedge_core::call::library::Version;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let store = Store::open(&StoreUrl::memory(), StoreOptions::default()).await?;
//! assert_eq!(store.call(&Version).await?, "34");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod access;
mod cluster;
mod fleet;
mod library;
mod link;
mod memory;
mod node;
pub(crate) mod pause;
mod reply;
mod slots;
mod subscription;
mod tls;
mod url;

use std::sync::Arc;
use std::time::Duration;

use selvedge_core::call::Function;
use selvedge_core::engine::{Answer, Command};
use selvedge_core::error::{CallError, ServerError};
use selvedge_core::time::ServerTime;
use selvedge_core::value::Value;
use thiserror::Error;
use tokio::sync::watch;

pub use library::LibraryUse;
pub use subscription::{Push, Subscription};
pub use tls::TlsOptions;
pub use url::{InvalidUrl, StoreUrl};

use crate::clock::wall_clock_us;
use fleet::Fleet;
use memory::Memory;
use subscription::Source;
use url::Place;

/// How to use a store, besides where it is.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// How long a single call may take.
    pub call_within: Duration,
    /// How long connecting may take, greeting and library included.
    pub connect_within: Duration,
    /// What to do about the function library.
    pub library: LibraryUse,
    /// Certificates, for the URLs that speak TLS.
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

/// Why there is no store.
#[derive(Clone, Debug, Error)]
pub enum StoreError {
    /// The server cannot be reached, or refuses us. Its class tells who has to act.
    #[error("{0}")]
    Server(#[from] ServerError),
    /// The certificates cannot be used.
    #[error("TLS: {0}")]
    Tls(String),
    /// The library cannot be used.
    #[error("the function library: {0}")]
    Library(String),
    /// The URL names a single server, which is none.
    #[error("{0} is a node of a cluster; add ?cluster=true to the URL")]
    IsCluster(String),
    /// The cluster has no slots assigned.
    #[error("the cluster has no slots assigned to any server")]
    NoSlots,
    /// The URL names no host.
    #[error("the store URL names no host")]
    NoHost,
}

/// A cheap handle to a store; clones share its connections.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

struct Inner {
    url: StoreUrl,
    options: StoreOptions,
    backend: Backend,
}

enum Backend {
    Memory(Box<Memory>),
    Servers(Arc<Fleet>),
}

impl Store {
    /// Connects, checks the library and loads it where it is missing.
    ///
    /// # Errors
    /// When the store cannot be reached or used. A store that is lost later comes back by itself.
    pub async fn open(url: &StoreUrl, options: StoreOptions) -> Result<Self, StoreError> {
        let backend = match &url.0 {
            Place::Memory => Backend::Memory(Box::new(Memory::open(0)?)),
            Place::Servers(servers) => {
                Backend::Servers(Arc::new(Fleet::open(servers, &options).await?))
            }
        };
        Ok(Self(Arc::new(Inner { url: url.clone(), options, backend })))
    }

    /// An empty store in this process whose clock goes by a server's.
    pub(crate) fn stage(now: ServerTime) -> Result<Self, StoreError> {
        let here = i64::try_from(wall_clock_us()).unwrap_or(i64::MAX);
        let ahead_us = now.0.saturating_mul(1_000).saturating_sub(here);
        let backend = Backend::Memory(Box::new(Memory::open(ahead_us)?));
        let options = StoreOptions::default();
        Ok(Self(Arc::new(Inner { url: StoreUrl::memory(), options, backend })))
    }

    /// Carries out commands: one pipeline per server, one answer per command, in order. What is
    /// not answered in time is *perhaps applied*; what was never sent is *not applied*.
    pub async fn run(&self, batch: Vec<Command>, within: Duration) -> Vec<Answer> {
        match &self.0.backend {
            Backend::Memory(memory) => {
                // It never waits; so that others get their turn, it has to offer one.
                tokio::task::coop::consume_budget().await;
                memory.run(&batch)
            }
            Backend::Servers(fleet) => fleet.run(&batch, within).await,
        }
    }

    /// Calls a function: one round trip.
    ///
    /// # Errors
    /// The function's refusal, or what went wrong; a [`ServerError`] says whether the call may
    /// have been applied.
    pub async fn call<F: Function>(&self, call: &F) -> Result<F::Reply, CallError> {
        let answers = self.run(vec![Command::call(call)], self.0.options.call_within).await;
        match answers.into_iter().next() {
            Some(answer) => parse::<F>(answer),
            None => Err(ServerError::silence("not answered").into()),
        }
    }

    /// Calls a function many times: one round trip per server that holds any of it.
    pub async fn call_all<F: Function>(&self, calls: &[F]) -> Vec<Result<F::Reply, CallError>> {
        let batch = calls.iter().map(Command::call).collect();
        let answers = self.run(batch, self.0.options.call_within).await;
        answers.into_iter().map(parse::<F>).collect()
    }

    /// Carries out one plain command on the server that holds `slot`.
    ///
    /// # Errors
    /// The server's error reply, or the failure to get a reply.
    pub async fn command(&self, command: Command) -> Result<Value, ServerError> {
        let answers = self.run(vec![command], self.0.options.call_within).await;
        reply_of(answers.into_iter().next())
    }

    /// Listens to channels over a connection of its own. Its first word is a [`Push::Gap`], once
    /// it really listens.
    #[must_use]
    pub fn subscribe(&self, channels: &[&str]) -> Subscription {
        let channels = channels.iter().map(|name| name.as_bytes().to_vec()).collect();
        match &self.0.backend {
            Backend::Memory(memory) => Subscription(Source::Memory(memory.listen(channels))),
            Backend::Servers(fleet) => Subscription::start(fleet.clone(), channels),
        }
    }

    /// The store's clock.
    ///
    /// # Errors
    /// When the server does not answer with a time.
    pub async fn server_time(&self) -> Result<ServerTime, ServerError> {
        let command = Command { slot: 0, argv: vec![b"TIME".to_vec()], reads: true };
        let reply = self.command(command).await?;
        read_time(&reply).ok_or_else(|| ServerError::from_reply(format!("no time: {reply:?}")))
    }

    /// What keeps us from a server of the store, if anything does at this moment.
    #[must_use]
    pub fn trouble(&self) -> Option<ServerError> {
        match &self.0.backend {
            Backend::Memory(_) => None,
            Backend::Servers(fleet) => fleet.trouble(),
        }
    }

    /// Counts how often the library was loaded, on whichever server; `None` where it cannot be
    /// lost.
    #[must_use]
    pub(crate) fn library_loads(&self) -> Option<watch::Receiver<u64>> {
        match &self.0.backend {
            Backend::Memory(_) => None,
            Backend::Servers(fleet) => Some(fleet.library_loads()),
        }
    }

    /// The servers that hold data, for people to read; none for `memory://`.
    #[must_use]
    pub fn servers(&self) -> Vec<String> {
        match &self.0.backend {
            Backend::Memory(_) => Vec::new(),
            Backend::Servers(fleet) => fleet.addresses(),
        }
    }

    /// One slot of each server that holds data, to address that server by.
    #[must_use]
    pub fn a_slot_per_server(&self) -> Vec<u16> {
        match &self.0.backend {
            Backend::Memory(_) => vec![0],
            Backend::Servers(fleet) => fleet.a_slot_per_server(),
        }
    }

    /// Where the store is.
    #[must_use]
    pub fn url(&self) -> &StoreUrl {
        &self.0.url
    }

    /// How it is used.
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

/// Reads bytes of a server as a connection does; a door for fuzzers only.
#[doc(hidden)]
#[must_use]
pub fn read_wire(bytes: &[u8]) -> Option<Value> {
    reply::read(bytes)
}

fn parse<F: Function>(answer: Answer) -> Result<F::Reply, CallError> {
    match answer {
        Answer::Applied(value) => F::parse(value),
        Answer::NotApplied(error) | Answer::PerhapsApplied(error) => Err(error.into()),
    }
}

/// The reply to a single command; none came when nobody answered it.
fn reply_of(answer: Option<Answer>) -> Result<Value, ServerError> {
    answer.map_or_else(|| Err(ServerError::silence("not answered")), Answer::into_result)
}

/// `TIME` answers seconds and microseconds, as texts.
fn read_time(reply: &Value) -> Option<ServerTime> {
    let Value::Array(parts) = reply else { return None };
    let [Value::Bulk(seconds), Value::Bulk(micros)] = &parts[..] else { return None };
    let number = |text: &[u8]| str::from_utf8(text).ok()?.parse::<i64>().ok();
    let (seconds, micros) = (number(seconds)?, number(micros)?);
    Some(ServerTime(seconds.checked_mul(1_000)?.checked_add(micros / 1_000)?))
}
