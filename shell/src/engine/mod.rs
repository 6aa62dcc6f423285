//! [`Engine`]: the background work of a deployment, in this process.
//!
//! It brings back the work of dead workers, moves what is due, resolves dependencies, finishes
//! cancels, and cleans up. Any number of engines may run on one deployment; each can do all of it.
//!
//! ```
//! use std::time::Duration;
//! use selvedge::engine::Engine;
//! use selvedge::store::{Store, StoreOptions, StoreUrl};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let store = Store::open(&StoreUrl::memory(), StoreOptions::default()).await?;
//! let engine = Engine::builder(store).lanes(["mail".parse()?]).start().await?;
//! assert!(engine.health().is_live());
//! engine.shutdown(Duration::from_secs(5)).await?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod health;
mod run;

use std::time::Duration;

use selvedge_core::engine::{EngineConfig, Observation, ScannerName};
use selvedge_core::id::LaneId;
use thiserror::Error;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::AbortOnDropHandle;

pub use health::{Health, Phase};

pub(crate) use health::Record;

use crate::deployment::{self, DeploymentError};
use crate::observe::Observer;
use crate::secret::SecretSource;
use crate::store::Store;
use crate::store::pause::Pause;
use run::Parts;

/// An engine that has been told everything but to start.
pub struct EngineBuilder {
    store: Store,
    config: EngineConfig,
    secrets: SecretSource,
    tap: Option<Tap>,
}

/// Somebody who wants to see what an engine observes.
pub(crate) type Tap = std::sync::Arc<dyn Fn(&Observation) + Send + Sync>;

impl EngineBuilder {
    /// The lanes to look after, besides those in the registry. They are entered there.
    #[must_use]
    pub fn lanes(mut self, lanes: impl IntoIterator<Item = LaneId>) -> Self {
        self.config.lanes = lanes.into_iter().collect();
        self
    }

    /// Everything that core lets one configure.
    #[must_use]
    pub fn config(mut self, config: EngineConfig) -> Self {
        self.config = config;
        self
    }

    /// Where the waitpoint secret comes from, if none is installed yet. Unless told otherwise it
    /// is drawn for `memory://`, and must be there for a server.
    #[must_use]
    pub fn secrets(mut self, secrets: SecretSource) -> Self {
        self.secrets = secrets;
        self
    }

    /// Calls `tap` with everything that the engine observes, on the engine's own task.
    #[must_use]
    pub fn tap(mut self, tap: impl Fn(&Observation) + Send + Sync + 'static) -> Self {
        self.tap = Some(std::sync::Arc::new(tap));
        self
    }

    /// Checks that configuration and deployment fit, and starts.
    ///
    /// # Errors
    /// When they do not fit, or the store cannot be used now.
    pub async fn start(self) -> Result<Engine, DeploymentError> {
        let Self { store, mut config, secrets, tap } = self;
        if config.lanes.is_empty() {
            config.lanes = EngineConfig::default().lanes;
        }
        deployment::prepare(&store, config.partitions, &config.lanes, &secrets).await?;
        let record = Record::new(&config, Instant::now());
        let stop = CancellationToken::new();
        let parts = Parts {
            store: store.clone(),
            observer: Observer::new(record.clone(), tap),
            record: record.clone(),
            config,
            secrets,
            stop: stop.clone(),
        };
        tracing::info!(
            store = %store.url(),
            flow_partitions = parts.config.partitions.flow,
            budget_partitions = parts.config.partitions.budget,
            quota_partitions = parts.config.partitions.quota,
            "the engine starts, with all scanners and completion dispatch"
        );
        let task = AbortOnDropHandle::new(tokio::spawn(supervise(parts)));
        Ok(Engine { store, record, task, stop: stop.drop_guard() })
    }
}

/// A running engine. Dropping it ends it in mid-air, which loses nothing: the next one goes on.
pub struct Engine {
    store: Store,
    record: Record,
    task: AbortOnDropHandle<()>,
    stop: DropGuard,
}

/// A shutdown that took too long. What was in flight will be found by the next engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{in_flight} batches were still unanswered after {waited:?}")]
pub struct ShutdownTimeout {
    /// How many.
    pub in_flight: usize,
    /// How long they were waited for.
    pub waited: Duration,
}

impl Engine {
    /// An engine for this store, with the contract's defaults.
    #[must_use]
    pub fn builder(store: Store) -> EngineBuilder {
        let secrets = match store.url().is_memory() {
            true => SecretSource::Generate,
            false => SecretSource::Stored,
        };
        EngineBuilder { store, config: EngineConfig::default(), secrets, tap: None }
    }

    /// How it is doing.
    #[must_use]
    pub fn health(&self) -> Health {
        self.probe().health()
    }

    /// Starts nothing new, waits for what is in flight, and ends.
    ///
    /// # Errors
    /// When something is still unanswered at the deadline. The engine has ended all the same.
    pub async fn shutdown(self, deadline: Duration) -> Result<(), ShutdownTimeout> {
        drop(self.stop);
        if timeout(deadline, self.task).await.is_ok() {
            tracing::info!("the engine has ended");
            return Ok(());
        }
        metrics::counter!(crate::observe::names::SHUTDOWN_TIMEOUT).increment(1);
        let in_flight = self.record.lock().in_flight;
        tracing::warn!(in_flight, "the engine has ended before everything was answered");
        Err(ShutdownTimeout { in_flight, waited: deadline })
    }

    /// A handle to its health that outlives it.
    #[must_use]
    pub fn probe(&self) -> Probe {
        Probe { store: self.store.clone(), record: self.record.clone() }
    }
}

/// Tells how an engine is doing, for whoever has only to look.
#[derive(Clone)]
pub struct Probe {
    store: Store,
    record: Record,
}

impl Probe {
    /// How it is doing.
    #[must_use]
    pub fn health(&self) -> Health {
        self.record.health(Instant::now(), self.store.trouble().map(|error| error.text))
    }

    pub(crate) fn lags(&self) -> Vec<(ScannerName, f64)> {
        self.record.lock().lags(Instant::now())
    }
}

/// Lets the engine live, and live again after a panic, with growing pauses.
async fn supervise(parts: Parts) {
    let mut pause = Pause::new(RESTART_FIRST, RESTART_LONGEST);
    while !parts.stop.is_cancelled() {
        let since = Instant::now();
        let life = AbortOnDropHandle::new(tokio::spawn(run::live(parts.clone())));
        match life.await {
            Ok(()) => break,
            Err(error) => {
                let restarts = {
                    let mut record = parts.record.lock();
                    record.phase = Phase::Restarting;
                    record.restarts += 1;
                    record.failed(&error.to_string(), Instant::now());
                    record.restarts
                };
                metrics::counter!(crate::observe::names::RESTARTS).increment(1);
                tracing::error!(restart_count = restarts, %error, "the engine panicked");
            }
        }
        if since.elapsed() > RESTART_LONGEST {
            pause.reset();
        }
        tokio::select! {
            () = sleep(pause.grow()) => parts.record.lock().phase = Phase::Running,
            () = parts.stop.cancelled() => {}
        }
    }
    parts.record.lock().phase = Phase::Stopped;
}

/// A panic that was a matter of luck is over at once; one that is not must not burn a core.
const RESTART_FIRST: Duration = Duration::from_millis(500);
const RESTART_LONGEST: Duration = Duration::from_secs(30);
