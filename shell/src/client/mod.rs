//! [`Client`]: submit work, look at it, steer it, wait for it.
//!
//! ```
//! use selvedge::client::{Client, Flow, Task};
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
//! assert_eq!(fetch.state.as_str(), "waiting");
//! assert_eq!(client.execution(&report["render"]).await?.state.as_str(), "waiting_children");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Calls that are harmless to repeat are repeated when the server does not answer, always with the
//! same ids, so that a lost reply neither loses nor doubles anything.

mod control;
mod error;
mod flow;
mod frames;
mod invalid_flow;
mod limits;
mod list;
mod read;
mod signal;
mod submit;
mod task;
mod wait;
mod wording;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use selvedge_core::call::Function;
use selvedge_core::call::library::FixPartitionCounts;
use selvedge_core::engine::{Answer, Command};
use selvedge_core::error::{CallError, Class, ServerError};
use selvedge_core::id::{LaneId, Namespace};
use selvedge_core::key::Key;
use selvedge_core::partition::PartitionCounts;
use selvedge_core::time::ServerTime;
use selvedge_core::value::Value;
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep};

pub use control::CancelledFlow;
pub use error::ClientError;
pub use flow::Flow;
pub use frames::{Frame, FramePage, Tail};
pub use invalid_flow::InvalidFlow;
pub use limits::{Budget, BudgetSpec, Quota, QuotaSpec};
pub use list::{ExecutionCursor, FlowCursor, ListedExecution, MemberCursor};
pub use read::{Execution, FlowRecord};
pub use selvedge_core::call::budget::UsageVerdict;
pub use selvedge_core::call::flow::{CancellationPolicy, OnSatisfied};
pub use selvedge_core::policy::{Backoff, ExecutionPolicy, RetryPolicy};
pub use selvedge_core::state::{PublicState, TerminalOutcome};
pub use signal::{Signal, SignalTicket};
pub use submit::SubmittedFlow;
pub use task::{DEFAULT_LANE, PAYLOAD_BYTES_MAX, PRIORITY_MAX, SPAN_MAX, Task};
pub use wait::{FlowOutcome, Outcome};
pub use wording::NAME_BYTES_MAX;
pub(crate) use wording::check_name;

pub(crate) use limits::deltas;
pub(crate) use read::{as_bytes, fields, text, text_hash};
pub(crate) use submit::{NAME_TAG, member_id};

use crate::deployment;
use crate::store::{Store, StoreOptions, StoreUrl};
use wait::Ends;

/// A cheap handle to submit, read, steer and wait; clones share everything.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    store: Store,
    partitions: PartitionCounts,
    namespace: Namespace,
    identity: String,
    patience: Duration,
    ends: Ends,
    /// Whether the deployment is known to have these partition counts.
    counts_fixed: OnceCell<()>,
    lanes_announced: Mutex<BTreeSet<LaneId>>,
}

/// How a client is made from a store.
#[derive(Clone, Debug)]
pub struct ClientBuilder {
    store: Store,
    partitions: Option<PartitionCounts>,
    namespace: Namespace,
    identity: String,
    patience: Duration,
}

impl ClientBuilder {
    /// The namespace of what it submits; `default` otherwise. At most [`NAME_BYTES_MAX`] bytes.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Namespace::new(namespace);
        self
    }

    /// Who it says made what it submits.
    #[must_use]
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = identity.into();
        self
    }

    /// How long a call that is harmless to repeat is repeated while the server does not answer.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The partition counts that the deployment must have. Whoever writes first, with a submission,
    /// a worker or an engine, writes them down. Without them the client goes by those that are
    /// written, and by 256 flow partitions and so on before any are.
    #[must_use]
    pub fn partitions(mut self, counts: PartitionCounts) -> Self {
        self.partitions = Some(counts);
        self
    }

    /// Reads the partition counts of the deployment, which stay the same for ever.
    ///
    /// # Errors
    /// When the namespace is no name, the deployment has other counts than those that were given,
    /// or the store does not answer.
    pub async fn build(self) -> Result<Client, ClientError> {
        wording::check_name(self.namespace.as_str())
            .map_err(|why| ClientError::Input(format!("the namespace cannot be used: {why}")))?;
        let stored = deployment::counts(&self.store).await?;
        let partitions = self.partitions.or(stored).unwrap_or(PartitionCounts::DEFAULT);
        if let Some(stored) = stored {
            deployment::compare(stored, partitions)?;
        }
        Ok(Client(Arc::new(Inner {
            ends: Ends::new(self.store.clone(), partitions.flow.get()),
            store: self.store,
            partitions,
            namespace: self.namespace,
            identity: self.identity,
            patience: self.patience,
            counts_fixed: OnceCell::new_with(stored.map(|_| ())),
            lanes_announced: Mutex::default(),
        })))
    }
}

impl Client {
    /// Opens the store of this URL and makes a client for it. `memory://` is a store of its own
    /// each time: share the client, or its [`Client::store`], with the engine and the workers.
    ///
    /// # Errors
    /// When the URL or the store cannot be used.
    pub async fn connect(url: &str) -> Result<Self, ClientError> {
        let url: StoreUrl = url.parse()?;
        let store = Store::open(&url, StoreOptions::default()).await?;
        Self::builder(store).build().await
    }

    /// A client for a store that is open already.
    #[must_use]
    pub fn builder(store: Store) -> ClientBuilder {
        ClientBuilder {
            store,
            partitions: None,
            namespace: Namespace::new("default"),
            identity: "selvedge".to_owned(),
            patience: Duration::from_secs(15),
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

    fn identity(&self) -> &str {
        &self.0.identity
    }

    fn ends(&self) -> &Ends {
        &self.0.ends
    }

    /// Makes a call that is harmless to repeat, and repeats it while nobody answers.
    pub(crate) async fn repeat<F: Function>(&self, call: &F) -> Result<F::Reply, ClientError> {
        let mut pauses = Pauses::new(self.0.patience);
        loop {
            match self.0.store.call(call).await {
                Ok(reply) => return Ok(reply),
                Err(CallError::Server(error)) if passes(&error) && pauses.next().await => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Reads, and repeats the read while nobody answers: one reply per command.
    pub(crate) async fn read(&self, batch: Vec<Command>) -> Result<Vec<Value>, ClientError> {
        let within = self.0.store.options().call_within;
        let mut pauses = Pauses::new(self.0.patience);
        loop {
            match replies(self.0.store.run(batch.clone(), within).await) {
                Ok(replies) => return Ok(replies),
                Err(error) if passes(&error) && pauses.next().await => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The time of the store, asked for again while nobody answers.
    pub(crate) async fn server_time(&self) -> Result<ServerTime, ClientError> {
        let mut pauses = Pauses::new(self.0.patience);
        loop {
            match self.0.store.server_time().await {
                Ok(now) => return Ok(now),
                Err(error) if passes(&error) && pauses.next().await => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Reads by one command, and repeats it while nobody answers.
    pub(crate) async fn read_one(&self, command: Command) -> Result<Value, ClientError> {
        let replies = self.read(vec![command]).await?;
        Ok(replies.into_iter().next().unwrap_or(Value::Nil))
    }
}

impl Client {
    /// Makes sure, before anything is written where these partition counts say, that everybody else
    /// will look for it there; once per client.
    pub(crate) async fn fix_counts(&self) -> Result<(), ClientError> {
        let counts = self.0.partitions;
        let fixing = async || {
            let reply = self.repeat(&FixPartitionCounts { counts }).await?;
            deployment::agreed(&reply, counts).map_err(ClientError::from)
        };
        self.0.counts_fixed.get_or_try_init(fixing).await.copied()
    }

    /// Puts lanes into the registry, so that engines look after them; once per lane and client.
    pub(crate) async fn announce_lanes<'a>(
        &self,
        lanes: impl Iterator<Item = &'a LaneId>,
    ) -> Result<(), ClientError> {
        let known = self.0.lanes_announced.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let new: BTreeSet<LaneId> = lanes.filter(|lane| !known.contains(*lane)).cloned().collect();
        if new.is_empty() {
            return Ok(());
        }
        self.fix_counts().await?;
        let lanes: Vec<LaneId> = new.iter().cloned().collect();
        self.read_one(deployment::register_lanes(&lanes)).await?;
        self.0.lanes_announced.lock().unwrap_or_else(PoisonError::into_inner).extend(new);
        Ok(())
    }
}

/// A plain write that may be repeated.
pub(crate) fn write(name: &str, key: &Key, rest: &[&[u8]]) -> Command {
    Command { reads: false, ..Command::read(name, key, rest) }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Client").field(&self.0.store).finish()
    }
}

/// Growing pauses between repetitions, until patience ends.
pub(crate) struct Pauses {
    until: Instant,
    pause: Duration,
}

impl Pauses {
    pub(crate) fn new(patience: Duration) -> Self {
        Self { until: Instant::now() + patience.min(AN_AGE), pause: PAUSE_FIRST }
    }

    /// Waits, unless patience has ended.
    pub(crate) async fn next(&mut self) -> bool {
        if Instant::now() + self.pause > self.until {
            return false;
        }
        sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSE_LONGEST);
        true
    }
}

/// Whether the trouble is of the kind that passes by itself. A server that lost its primary role is
/// about to be replaced by another one; other denials need a person.
pub(crate) fn passes(error: &ServerError) -> bool {
    match error.class {
        Class::Silence | Class::NotNow | Class::Redirect | Class::Library => true,
        Class::Denied => error.text.starts_with("READONLY"),
        Class::Broken => false,
    }
}

fn replies(answers: Vec<Answer>) -> Result<Vec<Value>, ServerError> {
    answers.into_iter().map(Answer::into_result).collect()
}

/// As long as anybody waits who waits for ever: no clock can add the longest [`Duration`].
pub(crate) const AN_AGE: Duration = Duration::from_secs(100 * 365 * 24 * 3_600);

/// Whole milliseconds, never too many for the wire.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

pub(crate) fn default_lane() -> LaneId {
    DEFAULT_LANE.parse().expect("`default` is printable ASCII")
}

/// Soon after a restart, rarely while the server stays away.
const PAUSE_FIRST: Duration = Duration::from_millis(20);
const PAUSE_LONGEST: Duration = Duration::from_secs(1);
