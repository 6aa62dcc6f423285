//! [`Worker`]: claims executions of a lane, runs their handlers, and says how it went.
//!
//! ```
//! use selvedge::client::{Client, Task};
//! use selvedge::worker::{Context, Failed, Worker};
//! use tokio_util::sync::CancellationToken;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let client = Client::connect("memory://").await?;
//! let greeting = client.start(Task::new("greet", "greet").payload("world")).await?;
//!
//! let stop = CancellationToken::new();
//! let worker = Worker::builder(client.clone())
//!     .handler("greet", |context: Context| async move {
//!         let name = String::from_utf8_lossy(context.payload()).into_owned();
//!         Ok::<_, Failed>(format!("Hello, {name}!"))
//!     })
//!     .run_until(stop.clone());
//! let worker = tokio::spawn(worker);
//!
//! assert_eq!(client.wait(&greeting).await?.result, b"Hello, world!");
//! stop.cancel();
//! worker.await??;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! An idle worker listens: it is told where work became ready, and looks at one partition a second
//! besides. A claim is one call under a lease id of the worker's choice, repeated with that id
//! when its reply is lost; so is a completion with its fence. Neither loses nor doubles work.

mod admission;
mod attempt;
mod claimer;
mod context;
mod handler;
mod hot;
mod leases;
mod registry;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use selvedge_core::capability::Capabilities;
use selvedge_core::id::{LaneId, WorkerId, WorkerInstanceId};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

pub use context::{Context, ReceivedSignal, Suspend};
pub use handler::{Done, Failed};
pub use selvedge_core::call::suspension::{SuspensionReason, TimeoutBehavior};

use crate::client::{Client, ClientError, check_name, default_lane};
use claimer::Claimer;
use handler::Handlers;
use leases::Leases;

/// Runs handlers for the executions of its lanes.
pub struct Worker {
    shared: Arc<Shared>,
}

/// What the parts of one worker share.
struct Shared {
    client: Client,
    lanes: Vec<LaneId>,
    capabilities: Capabilities,
    worker: WorkerId,
    /// New at every start: nobody can take it for somebody that died.
    instance: WorkerInstanceId,
    concurrency: usize,
    lease_ttl: Duration,
    poll_every: Duration,
    drain_within: Duration,
    handlers: Handlers,
    leases: Leases,
}

/// How a worker is set up.
pub struct WorkerBuilder {
    client: Client,
    name: String,
    lanes: Vec<String>,
    capabilities: Vec<String>,
    concurrency: usize,
    lease_ttl: Duration,
    poll_every: Duration,
    drain_within: Duration,
    handlers: Handlers,
}

impl Worker {
    /// Starts to set up a worker.
    #[must_use]
    pub fn builder(client: Client) -> WorkerBuilder {
        WorkerBuilder {
            client,
            name: "selvedge-worker".to_owned(),
            lanes: Vec::new(),
            capabilities: Vec::new(),
            concurrency: 16,
            lease_ttl: Duration::from_secs(30),
            poll_every: Duration::from_secs(1),
            drain_within: Duration::from_secs(20),
            handlers: Handlers::default(),
        }
    }

    /// The id of this instance, as registries and records show it.
    #[must_use]
    pub fn instance(&self) -> &WorkerInstanceId {
        &self.shared.instance
    }

    /// Works until the token fires; then claims nothing more, lets handlers finish within the
    /// drain time, tells those that remain to stop, and gives back what is left.
    ///
    /// # Errors
    /// When the store cannot be reached at the start. Later trouble is waited out.
    pub async fn run_until(self, stop: CancellationToken) -> Result<(), ClientError> {
        let registered = registry::register(&self.shared).await?;
        let leases = leases::keep(self.shared.clone());
        let registry = registry::keep(self.shared.clone(), registered);
        let claiming = Claimer::new(self.shared.clone()).run(stop);
        tokio::select! {
            () = claiming => {}
            () = leases => {}
            () = registry => {}
        }
        registry::leave(&self.shared).await;
        Ok(())
    }
}

impl WorkerBuilder {
    /// What this kind of worker is called; instances get ids of their own.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// A lane to serve, more than one if called again; `default` when never called.
    #[must_use]
    pub fn lane(mut self, lane: impl Into<String>) -> Self {
        self.lanes.push(lane.into());
        self
    }

    /// What it can do.
    #[must_use]
    pub fn capabilities<T: Into<String>>(mut self, tokens: impl IntoIterator<Item = T>) -> Self {
        self.capabilities.extend(tokens.into_iter().map(Into::into));
        self
    }

    /// How many handlers run at a time; 16 otherwise.
    #[must_use]
    pub fn concurrency(mut self, most: usize) -> Self {
        self.concurrency = most.max(1);
        self
    }

    /// How long a lease stands without being renewed, and so how soon the work of a worker that
    /// died comes back; 30 seconds otherwise, and a day at most.
    #[must_use]
    pub fn lease(mut self, ttl: Duration) -> Self {
        self.lease_ttl = ttl.clamp(LEASE_LEAST, LEASE_MOST);
        self
    }

    /// How often it looks at one more partition without having been told; once a second otherwise.
    #[must_use]
    pub fn poll_every(mut self, interval: Duration) -> Self {
        self.poll_every = interval.max(POLL_LEAST);
        self
    }

    /// How long handlers may go on after it was told to stop; 20 seconds otherwise.
    #[must_use]
    pub fn drain_within(mut self, limit: Duration) -> Self {
        self.drain_within = limit;
        self
    }

    /// Runs `handler` for executions of this kind.
    #[must_use]
    pub fn handler<F, R, D>(mut self, kind: impl Into<String>, handler: F) -> Self
    where
        F: Fn(Context) -> R + Send + Sync + 'static,
        R: Future<Output = Result<D, Failed>> + Send + 'static,
        D: Into<Done>,
    {
        self.handlers.add(kind.into(), handler);
        self
    }

    /// Checks what was said.
    ///
    /// # Errors
    /// When the name, a lane or a capability cannot be used, or there is no handler.
    pub fn build(self) -> Result<Worker, ClientError> {
        let invalid = |error: &dyn std::fmt::Display| ClientError::Input(error.to_string());
        if self.handlers.is_empty() {
            return Err(invalid(&"a worker needs at least one handler"));
        }
        check_name(&self.name)
            .map_err(|why| invalid(&format!("the name of the worker cannot be used: {why}")))?;
        let mut lanes = Vec::new();
        for lane in &self.lanes {
            let lane: LaneId = lane.parse().map_err(|error| invalid(&error))?;
            if !lanes.contains(&lane) {
                lanes.push(lane);
            }
        }
        if lanes.is_empty() {
            lanes.push(default_lane());
        }
        let capabilities = Capabilities::new(self.capabilities).map_err(|error| invalid(&error))?;
        let instance = WorkerInstanceId::new(format!("{}-{}", self.name, Uuid::new_v4()));
        let shared = Shared {
            client: self.client,
            lanes,
            capabilities,
            worker: WorkerId::new(self.name),
            instance,
            concurrency: self.concurrency,
            lease_ttl: self.lease_ttl,
            poll_every: self.poll_every,
            drain_within: self.drain_within,
            handlers: self.handlers,
            leases: Leases::default(),
        };
        Ok(Worker { shared: Arc::new(shared) })
    }

    /// The same as `build` and [`Worker::run_until`].
    ///
    /// # Errors
    /// As for both.
    pub async fn run_until(self, stop: CancellationToken) -> Result<(), ClientError> {
        self.build()?.run_until(stop).await
    }
}

/// Shorter leases would be lost to a busy scheduler.
const LEASE_LEAST: Duration = Duration::from_millis(200);
/// Work whose worker died comes back some day.
const LEASE_MOST: Duration = Duration::from_secs(24 * 3_600);
/// More than this is no slow look.
const POLL_LEAST: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_worker_has_a_name_that_can_be_told() {
        let client = Client::connect("memory://").await.expect("it needs no server");
        let named = |name: &str| {
            let worker = Worker::builder(client.clone()).name(name);
            worker.handler("k", |_: Context| async { Ok::<_, Failed>(()) }).build()
        };
        assert!(named("mailer").is_ok());
        for (name, says) in
            [("", "empty"), ("a\nb", "character 2"), (&"n".repeat(300), "300 bytes")]
        {
            let refused = named(name).err().expect("a name that cannot be told").to_string();
            assert!(refused.contains(says), "{refused}");
        }
    }
}
