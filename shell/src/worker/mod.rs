//! [`Worker`]: claims executions of its lanes, its namespace and the kinds that it has handlers
//! for, runs their handlers, and reports their outcomes.
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
//!     .run_until(stop.clone().cancelled_owned());
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
//! An idle worker waits for pushes about ready executions, and polls one partition a second in case
//! a push was lost. One call claims several executions, with lease ids chosen by the worker; the
//! call that reports an end also claims the next execution. If a reply is lost, a claim is repeated
//! with the same ids, and a report with the same fence: both are idempotent.

mod context;
mod driver;
mod extract;
mod function;
mod handler;
mod invalid_worker;
mod middleware;
mod observe;
mod registration;
mod suspend;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use selvedge_core::capability::Capabilities;
use selvedge_core::id::{LaneId, WorkerId, WorkerInstanceId};
use selvedge_core::work_filter::WorkFilter;
use uuid::Uuid;

pub use context::Context;
pub use extract::{FromContext, Json, NeededState, State};
pub use function::Handler;
pub use handler::{Done, Failed, IntoDone};
pub use invalid_worker::{CONCURRENCY_MAX, InvalidWorker, LEASE_MAX, LEASE_MIN, POLL_EVERY_MIN};
pub use middleware::Next;
pub use selvedge_core::call::suspension::{SuspensionReason, TimeoutBehavior};
pub use suspend::{ReceivedSignal, Suspend};

use crate::client::{Client, ClientError, check_name, default_lane};
use extract::States;
use handler::Handlers;

/// Ready when the worker is to stop.
type Stop<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// A worker: runs handlers for the executions of its lanes.
pub struct Worker {
    shared: Arc<Shared>,
}

/// State shared by the parts of one worker.
struct Shared {
    client: Client,
    lanes: Vec<LaneId>,
    capabilities: Capabilities,
    filter: WorkFilter,
    worker: WorkerId,
    /// New at every start, so that it is never taken for a dead instance.
    instance: WorkerInstanceId,
    concurrency: usize,
    lease_ttl: Duration,
    poll_every: Duration,
    drain_within: Duration,
    handlers: Handlers,
    states: Arc<States>,
}

/// Settings of a [`Worker`]. Made by [`Worker::builder`].
pub struct WorkerBuilder {
    client: Client,
    name: String,
    lanes: Vec<String>,
    all_namespaces: bool,
    capabilities: Vec<String>,
    concurrency: usize,
    lease_ttl: Duration,
    poll_every: Duration,
    drain_within: Duration,
    handlers: Handlers,
    states: States,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("instance", &self.shared.instance)
            .field("lanes", &self.shared.lanes)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for WorkerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerBuilder")
            .field("name", &self.name)
            .field("lanes", &self.lanes)
            .field("kinds", &self.handlers.kinds().collect::<Vec<_>>())
            .field("concurrency", &self.concurrency)
            .field("lease_ttl", &self.lease_ttl)
            .finish_non_exhaustive()
    }
}

impl Worker {
    /// Default settings for a worker that uses this client.
    #[must_use]
    pub fn builder(client: Client) -> WorkerBuilder {
        WorkerBuilder {
            client,
            name: "selvedge-worker".to_owned(),
            lanes: Vec::new(),
            all_namespaces: false,
            capabilities: Vec::new(),
            concurrency: 16,
            lease_ttl: Duration::from_secs(30),
            poll_every: Duration::from_secs(1),
            drain_within: Duration::from_secs(20),
            handlers: Handlers::default(),
            states: States::default(),
        }
    }

    /// The id of this instance, as the worker registry and the records of executions show it.
    #[must_use]
    pub fn instance(&self) -> &WorkerInstanceId {
        &self.shared.instance
    }

    /// Runs until `stop` is ready, then drains: claims nothing more, waits for handlers up to the
    /// drain time, tells the remaining handlers to stop, and puts their executions back.
    ///
    /// Any future will do: that of a signal, of a channel, or `cancelled_owned()` of a
    /// `CancellationToken`.
    ///
    /// # Errors
    /// When the store cannot be reached at the start. Later outages are retried.
    pub async fn run_until(self, stop: impl Future<Output = ()> + Send) -> Result<(), ClientError> {
        // Boxed, so that the worker is compiled once and not again for every kind of future.
        let stop: Stop<'_> = Box::pin(stop);
        let registered = registration::register(&self.shared).await?;
        let lane_states = self.shared.client.lane_states().await?;
        let heartbeats = registration::send_heartbeats(self.shared.clone(), registered);
        tokio::select! {
            () = driver::run(self.shared.clone(), lane_states, stop) => {}
            () = heartbeats => {}
        }
        registration::deregister(&self.shared).await;
        Ok(())
    }
}

impl WorkerBuilder {
    /// The name of the worker; `selvedge-worker` by default. Each instance adds a random suffix.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Adds a lane to serve. Without one, the worker serves the lane `default`.
    #[must_use]
    pub fn lane(mut self, lane: impl Into<String>) -> Self {
        self.lanes.push(lane.into());
        self
    }

    /// Runs executions of all namespaces. Without this, the worker runs those of its client's
    /// namespace only. The client that handlers get from [`Context::client`] stays the same.
    #[must_use]
    pub fn all_namespaces(mut self) -> Self {
        self.all_namespaces = true;
        self
    }

    /// Adds capabilities. The worker claims only executions whose needed capabilities it has.
    #[must_use]
    pub fn capabilities<T: Into<String>>(mut self, tokens: impl IntoIterator<Item = T>) -> Self {
        self.capabilities.extend(tokens.into_iter().map(Into::into));
        self
    }

    /// How many handlers run at the same time; 16 by default, at least 1 and at most
    /// [`CONCURRENCY_MAX`].
    #[must_use]
    pub fn concurrency(mut self, most: usize) -> Self {
        self.concurrency = most;
        self
    }

    /// How long a lease lasts without renewal, and so how soon the executions of a dead worker are
    /// reclaimed; 30 seconds by default, from [`LEASE_MIN`] to [`LEASE_MAX`].
    #[must_use]
    pub fn lease(mut self, ttl: Duration) -> Self {
        self.lease_ttl = ttl;
        self
    }

    /// How often one partition is polled without a push; every second by default, at least
    /// [`POLL_EVERY_MIN`] apart.
    #[must_use]
    pub fn poll_every(mut self, interval: Duration) -> Self {
        self.poll_every = interval;
        self
    }

    /// How long handlers may go on running after the worker was told to stop; 20 seconds by
    /// default.
    #[must_use]
    pub fn drain_within(mut self, limit: Duration) -> Self {
        self.drain_within = limit;
        self
    }

    /// Runs `handler`, an async function of arguments that are [`FromContext`], for executions of
    /// this kind; those of other kinds are left to other workers. A later handler replaces it.
    #[must_use]
    pub fn handler<Arguments, H>(mut self, kind: impl Into<String>, handler: H) -> Self
    where
        H: Handler<Arguments>,
    {
        self.handlers.add(kind.into(), handler);
        self
    }

    /// Gives handlers a value that they take as [`State<T>`](State). A later value of the same type
    /// replaces it.
    #[must_use]
    pub fn state<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.states.add(value);
        self
    }

    /// Wraps the handlers added so far: `middleware` runs around each of them, and runs the handler
    /// with [`Next::run`]. The last one added is the outermost.
    ///
    /// ```
    /// # use selvedge::{Context, worker::{Next, WorkerBuilder}};
    /// # fn wrapped(worker: WorkerBuilder) -> WorkerBuilder {
    /// worker.wrap(|context: Context, next: Next| async move {
    ///     let id = context.id().clone();
    ///     let outcome = next.run(context).await;
    ///     println!("{id}: {outcome:?}");
    ///     outcome
    /// })
    /// # }
    /// ```
    #[must_use]
    pub fn wrap<F, R>(mut self, middleware: F) -> Self
    where
        F: Fn(Context, Next) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Done, Failed>> + Send + 'static,
    {
        self.handlers.wrap(middleware);
        self
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// The first setting that cannot be used.
    pub fn build(self) -> Result<Worker, InvalidWorker> {
        if self.handlers.is_empty() {
            return Err(InvalidWorker::NoHandler);
        }
        check_name(&self.name).map_err(InvalidWorker::Name)?;
        for kind in self.handlers.kinds() {
            check_name(kind).map_err(InvalidWorker::Kind)?;
        }
        if let Some((kind, state)) = self.handlers.lacks_state(&self.states) {
            return Err(InvalidWorker::NoState { kind: kind.clone(), state: state.name() });
        }
        if !(1..=CONCURRENCY_MAX).contains(&self.concurrency) {
            return Err(InvalidWorker::Concurrency(self.concurrency));
        }
        if !(LEASE_MIN..=LEASE_MAX).contains(&self.lease_ttl) {
            return Err(InvalidWorker::Lease(self.lease_ttl));
        }
        if self.poll_every < POLL_EVERY_MIN {
            return Err(InvalidWorker::PollInterval(self.poll_every));
        }
        let mut lanes = Vec::new();
        for lane in &self.lanes {
            let lane: LaneId = lane.parse().map_err(InvalidWorker::Lane)?;
            if !lanes.contains(&lane) {
                lanes.push(lane);
            }
        }
        if lanes.is_empty() {
            lanes.push(default_lane());
        }
        let capabilities =
            Capabilities::new(self.capabilities).map_err(InvalidWorker::Capability)?;
        let namespace = (!self.all_namespaces).then(|| self.client.namespace().clone());
        let kinds = self.handlers.kinds().map(str::to_owned).collect();
        let filter = WorkFilter::new(namespace, Some(kinds)).map_err(InvalidWorker::Kinds)?;
        let instance = WorkerInstanceId::new(format!("{}-{}", self.name, Uuid::new_v4()));
        let shared = Shared {
            client: self.client,
            lanes,
            capabilities,
            filter,
            worker: WorkerId::new(self.name),
            instance,
            concurrency: self.concurrency,
            lease_ttl: self.lease_ttl,
            poll_every: self.poll_every,
            drain_within: self.drain_within,
            handlers: self.handlers,
            states: Arc::new(self.states),
        };
        Ok(Worker { shared: Arc::new(shared) })
    }

    /// Builds the worker and runs it: [`WorkerBuilder::build`], then [`Worker::run_until`].
    ///
    /// # Errors
    /// As for both.
    pub async fn run_until(self, stop: impl Future<Output = ()> + Send) -> Result<(), ClientError> {
        self.build()?.run_until(stop).await
    }
}

#[cfg(all(test, feature = "memory"))]
mod tests {
    use super::*;

    async fn builder() -> WorkerBuilder {
        let client = Client::connect("memory://").await.expect("memory:// needs no server");
        Worker::builder(client).handler("k", |_: Context| async { Ok::<_, Failed>(()) })
    }

    #[tokio::test]
    async fn worker_names_are_checked() {
        assert!(builder().await.name("mailer").build().is_ok());
        for (name, says) in
            [("", "empty"), ("a\nb", "character 2"), (&"n".repeat(300), "300 bytes")]
        {
            let refused = builder().await.name(name).build().expect_err("an invalid name");
            assert!(matches!(refused, InvalidWorker::Name(_)), "{refused:?}");
            assert!(refused.to_string().contains(says), "{refused}");
        }
    }

    #[tokio::test]
    async fn settings_out_of_range_are_refused_and_not_changed() {
        let second = Duration::from_secs(1);
        let invalid = |builder: WorkerBuilder| builder.build().expect_err("out of range");
        for concurrency in [0, CONCURRENCY_MAX + 1] {
            let refused = invalid(builder().await.concurrency(concurrency));
            assert_eq!(refused, InvalidWorker::Concurrency(concurrency));
        }
        for lease in [Duration::ZERO, LEASE_MIN - POLL_EVERY_MIN, LEASE_MAX + second] {
            let refused = invalid(builder().await.lease(lease));
            assert_eq!(refused, InvalidWorker::Lease(lease));
        }
        let refused = invalid(builder().await.poll_every(Duration::ZERO));
        assert_eq!(refused, InvalidWorker::PollInterval(Duration::ZERO));
        assert!(matches!(invalid(builder().await.lane("")), InvalidWorker::Lane(_)));
        let unnamed = builder().await.handler("", |_: Context| async { Ok::<_, Failed>(()) });
        assert!(matches!(invalid(unnamed), InvalidWorker::Kind(_)));
        let nothing = Worker::builder(builder().await.client);
        assert_eq!(invalid(nothing), InvalidWorker::NoHandler);
        let limits = builder().await.concurrency(CONCURRENCY_MAX).lease(LEASE_MIN);
        assert!(limits.poll_every(POLL_EVERY_MIN).build().is_ok());
    }

    #[tokio::test]
    async fn a_worker_runs_until_any_future_is_ready() {
        builder().await.run_until(async {}).await.expect("it starts and ends");
        let error = builder().await.concurrency(0).run_until(async {}).await;
        assert!(matches!(error, Err(ClientError::Worker(InvalidWorker::Concurrency(0)))));
    }
}
