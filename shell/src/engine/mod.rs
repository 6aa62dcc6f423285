//! [`Engine`]: runs the background work of a deployment in this process.
//!
//! It reclaims executions of dead workers, promotes delayed ones, enforces timeouts, resolves
//! dependencies, completes cancels and deletes expired records. Any number of engines may run on
//! one deployment.
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

mod driver;
mod health;
pub(crate) mod registration;

use std::fmt;
use std::time::Duration;

use selvedge_core::id::LaneId;
use thiserror::Error;
use tokio::time::{Instant, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

pub use health::{Health, Phase};
pub use selvedge_core::engine::{
    CancelDisposition, EngineConfig, Filter, InvalidSetting, Observation, ReconcileAction,
    ScanCounts, ScannerName,
};

pub(crate) use health::HealthRecord;

use crate::deployment::{self, DeploymentError};
use crate::observe::metrics::counter;
use crate::observe::{Observer, metric_names};
use crate::retry::Backoff;
use crate::secret::SecretSource;
use crate::store::Store;
use driver::Parts;

/// Settings of an [`Engine`]. Made by [`Engine::builder`].
pub struct EngineBuilder {
    store: Store,
    config: EngineConfig,
    /// Those of the configuration unless named.
    lanes: Option<Vec<LaneId>>,
    secrets: SecretSource,
    tap: Option<Tap>,
}

/// A callback for everything an engine observes.
pub(crate) type Tap = std::sync::Arc<dyn Fn(&Observation) + Send + Sync>;

impl fmt::Debug for EngineBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineBuilder")
            .field("store", &self.store)
            .field("config", &self.config)
            .field("lanes", &self.lanes)
            .field("secrets", &self.secrets)
            .finish_non_exhaustive()
    }
}

impl EngineBuilder {
    /// Lanes to serve besides those in the lane registry; they are added to it. They replace the
    /// lanes of [`EngineBuilder::config`], whichever of the two is called first. No lane at all
    /// means the lane `default`.
    #[must_use]
    pub fn lanes(mut self, lanes: impl IntoIterator<Item = LaneId>) -> Self {
        self.lanes = Some(lanes.into_iter().collect());
        self
    }

    /// Replaces the configuration, except for the lanes of [`EngineBuilder::lanes`].
    #[must_use]
    pub fn config(mut self, config: EngineConfig) -> Self {
        self.config = config;
        self
    }

    /// Where the waitpoint secret comes from if none is installed yet. By default it is generated;
    /// [`SecretSource::Stored`] forbids that.
    #[must_use]
    pub fn secrets(mut self, secrets: SecretSource) -> Self {
        self.secrets = secrets;
        self
    }

    /// Calls `tap` with everything the engine observes, on the engine's task: it must not block.
    #[must_use]
    pub fn tap(mut self, tap: impl Fn(&Observation) + Send + Sync + 'static) -> Self {
        self.tap = Some(std::sync::Arc::new(tap));
        self
    }

    /// Prepares the deployment and starts the engine.
    ///
    /// # Errors
    /// When a given waitpoint secret cannot be used, the partition counts or the secret do not
    /// match the deployment, or the store does not answer.
    pub async fn start(self) -> Result<Engine, DeploymentError> {
        let Self { store, mut config, lanes, secrets, tap } = self;
        if let Some(lanes) = lanes {
            config.lanes = lanes;
        }
        deployment::check_config(&config)?;
        if config.lanes.is_empty() {
            config.lanes = EngineConfig::default().lanes;
        }
        deployment::prepare(&store, config.partitions, &config.lanes, &secrets).await?;
        let record = HealthRecord::new(&config, Instant::now());
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
            "engine starting, with all scanners and completion dispatch"
        );
        let task = AbortOnDropHandle::new(tokio::spawn(supervise(parts)));
        Ok(Engine { store, record, task, stop: stop.drop_guard() })
    }
}

/// A running engine. Dropping it aborts it. That is safe: another engine continues the work.
pub struct Engine {
    store: Store,
    record: HealthRecord,
    task: AbortOnDropHandle<()>,
    stop: DropGuard,
}

/// A shutdown timed out. The next engine repeats what was in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("shutdown timed out after {waited:?} with {in_flight} batches in flight")]
#[non_exhaustive]
pub struct ShutdownTimeout {
    /// How many batches were still in flight.
    pub in_flight: usize,
    /// The time limit.
    pub waited: Duration,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("store", &self.store).finish_non_exhaustive()
    }
}

impl Engine {
    /// Default settings for an engine on this store.
    #[must_use]
    pub fn builder(store: Store) -> EngineBuilder {
        let config = EngineConfig::default();
        EngineBuilder { store, config, lanes: None, secrets: SecretSource::Generate, tap: None }
    }

    /// The health of the engine at this moment.
    #[must_use]
    pub fn health(&self) -> Health {
        self.probe().health()
    }

    /// Stops the engine: starts nothing new and waits up to `deadline` for what is in flight.
    ///
    /// # Errors
    /// [`ShutdownTimeout`] when something is still in flight at the deadline. The engine has
    /// stopped all the same.
    pub async fn shutdown(self, deadline: Duration) -> Result<(), ShutdownTimeout> {
        drop(self.stop);
        if timeout(deadline, self.task).await.is_ok() {
            tracing::info!("engine stopped");
            return Ok(());
        }
        counter!(metric_names::SHUTDOWN_TIMEOUT).increment(1);
        let in_flight = self.record.lock().in_flight;
        tracing::warn!(in_flight, "engine stopped with batches in flight: shutdown timed out");
        Err(ShutdownTimeout { in_flight, waited: deadline })
    }

    /// A handle to its health, which may outlive the engine.
    #[must_use]
    pub fn probe(&self) -> Probe {
        Probe { store: self.store.clone(), record: self.record.clone() }
    }
}

/// Reads the health of an engine.
#[derive(Clone)]
pub struct Probe {
    store: Store,
    record: HealthRecord,
}

impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probe").field("store", &self.store).finish_non_exhaustive()
    }
}

impl Probe {
    /// The health of the engine at this moment.
    #[must_use]
    pub fn health(&self) -> Health {
        self.record.health(Instant::now(), self.store.connection_error().map(|error| error.text))
    }

    #[cfg(feature = "metrics")]
    pub(crate) fn lags(&self) -> Vec<(ScannerName, f64)> {
        self.record.lock().lags(Instant::now())
    }
}

/// Runs the engine, and restarts it with backoff after a panic.
async fn supervise(parts: Parts) {
    let mut backoff = Backoff::new(RESTART_FIRST, RESTART_LONGEST);
    let engine = Uuid::new_v4();
    let registered =
        AbortOnDropHandle::new(tokio::spawn(registration::keep(parts.clone(), engine)));
    while !parts.stop.is_cancelled() {
        let since = Instant::now();
        let driver = AbortOnDropHandle::new(tokio::spawn(driver::run(parts.clone())));
        match driver.await {
            Ok(()) => break,
            Err(error) => {
                let restarts = {
                    let mut record = parts.record.lock();
                    record.phase = Phase::Restarting;
                    record.restarts += 1;
                    record.on_error(&error.to_string(), Instant::now());
                    record.restarts
                };
                counter!(metric_names::RESTARTS).increment(1);
                tracing::error!(restart_count = restarts, %error, "engine panicked, restarting");
            }
        }
        if since.elapsed() > RESTART_LONGEST {
            backoff.reset();
        }
        tokio::select! {
            () = backoff.wait() => parts.record.lock().phase = Phase::Running,
            () = parts.stop.cancelled() => {}
        }
    }
    drop(registered);
    registration::leave(&parts, engine).await;
    parts.record.lock().phase = Phase::Stopped;
}

/// Restarts soon after a first panic, and every 30 s while it panics.
const RESTART_FIRST: Duration = Duration::from_millis(500);
const RESTART_LONGEST: Duration = Duration::from_secs(30);

#[cfg(all(test, feature = "memory"))]
mod tests {
    use selvedge_core::engine::ScannerName;

    use super::*;
    use crate::store::{StoreOptions, StoreUrl};

    #[tokio::test]
    async fn a_setting_of_zero_is_refused() {
        let store = Store::open(&StoreUrl::memory(), StoreOptions::default()).await.unwrap();
        let mut config = EngineConfig::default();
        config.window = 0;
        let refused = Engine::builder(store).config(config).start().await.expect_err("zero");
        assert_eq!(refused, DeploymentError::InvalidConfig { setting: "window" });
    }

    #[tokio::test]
    async fn an_interval_that_is_too_short_is_refused_and_not_changed() {
        let store = Store::open(&StoreUrl::memory(), StoreOptions::default()).await.unwrap();
        let interval = std::time::Duration::from_millis(99);
        let config = EngineConfig::default()
            .with_intervals([(ScannerName::LeaseExpiry, interval)].into_iter().collect());
        let refused = Engine::builder(store).config(config).start().await.expect_err("99 ms");
        let scanner = "lease_expiry";
        assert_eq!(refused, DeploymentError::ShortInterval { scanner, interval });
    }

    #[tokio::test]
    async fn lanes_and_config_mean_the_same_in_either_order() {
        let (named, configured): (LaneId, LaneId) =
            ("named".parse().unwrap(), "configured".parse().unwrap());
        let config = EngineConfig::default().with_lanes(vec![configured]);
        for lanes_first in [true, false] {
            let store = Store::open(&StoreUrl::memory(), StoreOptions::default()).await.unwrap();
            let builder = Engine::builder(store.clone());
            let builder = match lanes_first {
                true => builder.lanes([named.clone()]).config(config.clone()),
                false => builder.config(config.clone()).lanes([named.clone()]),
            };
            let engine = builder.start().await.unwrap();
            assert_eq!(
                deployment::lanes(&store).await.unwrap(),
                std::slice::from_ref(&named),
                "{engine:?}"
            );
        }
    }
}
