//! [`Client`]: submits flows and executions, reads them, controls them, and waits for them.
//!
//! ```
//! use selvedge::client::{Client, Flow, PublicState, Task};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let client = Client::connect("memory://").await?;
//! let report = client
//!     .submit(
//!         Flow::new("report")
//!             .task(Task::new("fetch", "http.get").payload("https://example.org"))
//!             .task(Task::new("render", "pdf").after(["fetch"])),
//!     )
//!     .await?;
//! let fetch = client.execution(&report["fetch"]).await?;
//! assert_eq!(fetch.state, Some(PublicState::Waiting));
//! let render = client.execution(&report["render"]).await?;
//! assert_eq!(render.state, Some(PublicState::WaitingChildren));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Idempotent calls are retried while the server does not answer, always with the same ids, so that
//! a lost reply neither loses nor duplicates anything.

mod completions;
mod content;
mod control;
mod driver;
mod error;
mod flow;
mod frames;
mod invalid_flow;
mod invalid_input;
mod lanes;
mod limits;
mod limits_delete;
mod list;
mod names;
mod records;
mod replay;
mod signal;
mod spend;
mod submit;
mod task;
mod task_order;
mod wait;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use selvedge_core::call::Function;
use selvedge_core::client::{Call, Limits, Needs, Procedure, Read, RegisterLanes};
use selvedge_core::command::Command;
use selvedge_core::id::{LaneId, Namespace};
use selvedge_core::lane_state::LaneStates;
use selvedge_core::partition::PartitionCounts;
use selvedge_core::value::Value;
use tokio::time::Instant;

pub use error::ClientError;
pub use flow::Flow;
pub use frames::{Frame, FramePage, Tail};
pub use invalid_flow::InvalidFlow;
pub use invalid_input::InvalidInput;
pub use limits::{Budget, BudgetSpec, Quota, QuotaSpec};
pub use list::{ExecutionCursor, FlowCursor, ListedExecution, MemberCursor};
pub use names::{InvalidName, NAME_BYTES_MAX};
pub(crate) use names::{check_argument, check_name};
pub use records::{Execution, FlowRecord};
pub use replay::ReplayNeed;
pub use selvedge_core::call::budget::UsageVerdict;
pub use selvedge_core::call::flow::OnSatisfied;
pub use selvedge_core::call::signal::SignalEffect;
pub use selvedge_core::client::{CancelledFlow, FlowOutcome, Outcome};
pub use selvedge_core::key::LaneIndex;
pub use selvedge_core::policy::{Backoff, ExecutionPolicy, RetryPolicy};
pub use selvedge_core::state::{PublicState, TerminalOutcome};
pub use selvedge_core::time::DURATION_MAX;
pub use selvedge_core::token::WaitpointToken;
pub use signal::{Signal, SignalTicket};
pub use submit::SubmittedFlow;
pub use task::{DEFAULT_LANE, PAYLOAD_BYTES_MAX, PRIORITY_MAX, Task};

pub(crate) use selvedge_core::reply::text;
pub(crate) use selvedge_core::reply::{as_bytes, fields, text_hash};
pub(crate) use spend::deltas;
#[cfg(feature = "inspect")]
pub(crate) use submit::NAME_TAG;
pub(crate) use submit::member_id;
pub(crate) use wait::from_json;

use crate::deployment;
use crate::store::{Store, StoreOptions, StoreUrl};
use completions::CompletionListener;

/// A client of a deployment. Cloning is cheap; clones share the store and its connections.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    store: Store,
    partitions: PartitionCounts,
    namespace: Namespace,
    identity: String,
    retry_for: Duration,
    completions: CompletionListener,
    /// Whether the deployment is known to have these partition counts.
    counts_known: AtomicBool,
    /// When each lane was registered last.
    lanes_registered: Mutex<BTreeMap<LaneId, Instant>>,
}

/// Settings of a [`Client`]. Made by [`Client::builder`].
#[derive(Clone, Debug)]
pub struct ClientBuilder {
    store: Store,
    partitions: Option<PartitionCounts>,
    namespace: Namespace,
    identity: String,
    retry_for: Duration,
}

impl ClientBuilder {
    /// The namespace of what it submits; `default` by default. At most [`NAME_BYTES_MAX`] bytes.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Namespace::new(namespace);
        self
    }

    /// The creator recorded with what it submits; `selvedge` by default. At most
    /// [`NAME_BYTES_MAX`] bytes.
    #[must_use]
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = identity.into();
        self
    }

    /// How long an idempotent call is retried while the server does not answer; 15 seconds by
    /// default.
    #[must_use]
    pub fn retry_for(mut self, retry_for: Duration) -> Self {
        self.retry_for = retry_for;
        self
    }

    /// The partition counts that the deployment must have. The first submission, worker or engine
    /// stores them; they never change afterwards. Without this, the client uses the stored counts,
    /// or [`PartitionCounts::DEFAULT`] if none are stored.
    #[must_use]
    pub fn partitions(mut self, counts: PartitionCounts) -> Self {
        self.partitions = Some(counts);
        self
    }

    /// Reads the partition counts of the deployment and makes the client.
    ///
    /// # Errors
    /// When the namespace or the identity is invalid, the deployment has other partition counts
    /// than those given, or the store does not answer.
    pub async fn build(self) -> Result<Client, ClientError> {
        for (what, name) in [("namespace", self.namespace.as_str()), ("identity", &self.identity)] {
            check_argument(what, name)?;
        }
        let stored = deployment::counts(&self.store).await?;
        let partitions = self.partitions.or(stored).unwrap_or(PartitionCounts::DEFAULT);
        if let Some(stored) = stored {
            deployment::check_counts(stored, partitions)?;
        }
        Ok(Client(Arc::new(Inner {
            completions: CompletionListener::new(self.store.clone(), partitions.flow.get()),
            store: self.store,
            partitions,
            namespace: self.namespace,
            identity: self.identity,
            retry_for: self.retry_for,
            counts_known: AtomicBool::new(stored.is_some()),
            lanes_registered: Mutex::default(),
        })))
    }
}

impl Client {
    /// Opens the store at this URL and makes a client with default settings. Each `memory://` is a
    /// new store: share the client, or its [`Client::store`], with the engine and the workers.
    ///
    /// # Errors
    /// When the URL is invalid, or the store cannot be opened.
    pub async fn connect(url: &str) -> Result<Self, ClientError> {
        let url: StoreUrl = url.parse()?;
        let store = Store::open(&url, StoreOptions::default()).await?;
        Self::builder(store).build().await
    }

    /// Default settings for a client of an open store.
    #[must_use]
    pub fn builder(store: Store) -> ClientBuilder {
        ClientBuilder {
            store,
            partitions: None,
            namespace: Namespace::new("default"),
            identity: "selvedge".to_owned(),
            retry_for: Duration::from_secs(15),
        }
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.0.store
    }

    /// The namespace of what it submits.
    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        &self.0.namespace
    }

    /// The partition counts of the deployment.
    #[must_use]
    pub fn partitions(&self) -> &PartitionCounts {
        &self.0.partitions
    }

    pub(crate) fn retry_for(&self) -> Duration {
        self.0.retry_for
    }

    fn identity(&self) -> &str {
        &self.0.identity
    }

    fn completions(&self) -> &CompletionListener {
        &self.0.completions
    }

    /// Makes an idempotent call, and retries it while the server does not answer.
    pub(crate) async fn call_with_retry<F: Function>(
        &self,
        call: &F,
    ) -> Result<F::Reply, ClientError> {
        self.run(Call::new(call)).await
    }

    /// Runs reads, and retries them while the server does not answer. One reply per command, in
    /// order.
    pub(crate) async fn read(&self, batch: Vec<Command>) -> Result<Vec<Value>, ClientError> {
        self.run(Read::new(batch)).await
    }

    #[cfg(feature = "inspect")]
    /// The time by the store's clock, with retries.
    pub(crate) async fn server_time(&self) -> Result<selvedge_core::time::ServerTime, ClientError> {
        self.run(selvedge_core::client::ReadTime { slot: 0 }).await
    }

    /// [`Client::read`] for one command.
    pub(crate) async fn read_one(&self, command: Command) -> Result<Value, ClientError> {
        let replies = self.read(vec![command]).await?;
        Ok(replies.into_iter().next().unwrap_or(Value::Nil))
    }
}

impl Client {
    /// Whether the deployment is known to have the partition counts of this client.
    fn counts_known(&self) -> bool {
        self.0.counts_known.load(Ordering::Relaxed)
    }

    fn learn_counts(&self) {
        self.0.counts_known.store(true, Ordering::Relaxed);
    }

    /// What must be done before something is written that uses these lanes.
    fn needs(&self, lanes: impl IntoIterator<Item = LaneId>, limits: Limits) -> Needs {
        let known = self.0.lanes_registered.lock().unwrap_or_else(PoisonError::into_inner);
        let lanes: BTreeSet<LaneId> =
            lanes.into_iter().filter(|lane| !known.get(lane).is_some_and(is_fresh)).collect();
        let lanes = lanes.into_iter().collect();
        Needs { counts: *self.partitions(), counts_known: self.counts_known(), lanes, limits }
    }

    /// Runs a procedure, and remembers what it has prepared.
    async fn run_prepared<P: Procedure>(
        &self,
        needs: Needs,
        procedure: impl FnOnce(Needs) -> P,
    ) -> Result<P::Output, ClientError> {
        let (lanes, began) = (needs.lanes.clone(), Instant::now());
        let output = self.run(procedure(needs)).await?;
        self.learn_counts();
        let mut known = self.0.lanes_registered.lock().unwrap_or_else(PoisonError::into_inner);
        known.extend(lanes.into_iter().map(|lane| (lane, began)));
        Ok(output)
    }

    /// Adds lanes to the lane registry, so that engines serve them.
    pub(crate) async fn register_lanes<'a>(
        &self,
        lanes: impl Iterator<Item = &'a LaneId>,
    ) -> Result<(), ClientError> {
        let needs = self.needs(lanes.cloned(), Limits::default());
        self.run_prepared(needs, RegisterLanes::new).await
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Client").field(&self.0.store).finish()
    }
}

/// Whether a lane that was registered then is still known to be, and what state it has.
fn is_fresh(registered: &Instant) -> bool {
    registered.elapsed() < LaneStates::FRESH_FOR
}

/// Whole milliseconds; at most `u64::MAX`.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

pub(crate) fn default_lane() -> LaneId {
    LaneId::default_lane()
}
