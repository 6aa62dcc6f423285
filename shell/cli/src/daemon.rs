//! An engine as a daemon: a start that waits for the store, metrics and health over HTTP, and a
//! graceful shutdown.

use std::net::SocketAddr;
use std::time::Duration;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use selvedge_core::retry::RetryDelays;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::http::{EngineStage, HttpState, router};
use crate::settings::Settings;
use selvedge::deployment::DeploymentError;
use selvedge::engine::{Engine, Probe, ShutdownTimeout};
use selvedge::low_level::{Idempotency, Retry};
use selvedge::observe::{QueueSampler, metric_names, publish_engine_gauges};
use selvedge::store::{Store, StoreError};
use selvedge_core::error::ServerError;

/// Why the daemon ended.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address to listen on cannot be bound.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        error: std::io::Error,
    },
    /// The store cannot be used, and a retry will not help.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The configuration does not match the deployment.
    #[error(transparent)]
    Deployment(#[from] DeploymentError),
    /// The process already has a metrics recorder.
    #[error("metrics cannot be recorded: {0}")]
    Metrics(String),
    /// The shutdown timed out.
    #[error(transparent)]
    Shutdown(#[from] ShutdownTimeout),
}

/// Runs an engine and the HTTP server until `stop` fires. `ready` is called with the address as
/// soon as the server listens.
///
/// # Errors
/// When it cannot listen, or the configuration does not match the deployment. A store that is down,
/// loading, full or denies access is retried.
pub async fn serve(
    settings: Settings,
    stop: CancellationToken,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), ServeError> {
    let address = settings.listen;
    let listening = |error| ServeError::Listen { address, error };
    let listener = TcpListener::bind(address).await.map_err(listening)?;
    ready(listener.local_addr().map_err(listening)?);
    let state = HttpState::new(record_metrics()?);
    let http_stop = CancellationToken::new();
    let http = tokio::spawn(
        axum::serve(listener, router(state.clone()))
            .with_graceful_shutdown(http_stop.clone().cancelled_owned())
            .into_future(),
    );
    let outcome = run_engine(&settings, &state, &stop).await;
    http_stop.cancel();
    // An open connection does not delay the exit for long.
    let _ = tokio::time::timeout(HTTP_END_WITHIN, http).await;
    outcome
}

async fn run_engine(
    settings: &Settings,
    state: &HttpState,
    stop: &CancellationToken,
) -> Result<(), ServeError> {
    let Some((store, engine)) = start(settings, state, stop).await? else { return Ok(()) };
    let probe = engine.probe();
    state.set(EngineStage::Running(probe.clone()));
    let lanes = settings.engine.lanes.clone();
    let sampler = QueueSampler::new(store, settings.engine.partitions, lanes)
        .retention(settings.engine.retention);
    tokio::select! {
        () = stop.cancelled() => {}
        () = sample(sampler, &probe) => {}
    }
    tracing::info!("stopping");
    Ok(engine.shutdown(SHUTDOWN_WITHIN).await?)
}

/// Starts the engine as soon as the store is usable; `None` when stopped before that.
async fn start(
    settings: &Settings,
    state: &HttpState,
    stop: &CancellationToken,
) -> Result<Option<(Store, Engine)>, ServeError> {
    let mut delays = RetryDelays::new(Duration::from_millis(200), Duration::from_secs(5));
    loop {
        let error = match try_start(settings).await {
            Ok(started) => return Ok(Some(started)),
            Err(error) if is_retryable(&error) => explain(&error),
            Err(error) => return Err(error),
        };
        metrics::counter!(metric_names::UNREADY_BOOT, "backend" => "valkey", "stage" => "start")
            .increment(1);
        tracing::warn!(store = %settings.store, error, "engine not started, retrying");
        state.set(EngineStage::Starting(Some(error)));
        tokio::select! {
            () = tokio::time::sleep(delays.next(random())) => {}
            () = stop.cancelled() => return Ok(None),
        }
    }
}

fn random() -> u64 {
    uuid::Uuid::new_v4().as_u64_pair().0
}

async fn try_start(settings: &Settings) -> Result<(Store, Engine), ServeError> {
    let store = Store::open(&settings.store, settings.options.clone()).await?;
    let engine = Engine::builder(store.clone())
        .config(settings.engine.clone())
        .secrets(settings.secret_source())
        .start()
        .await?;
    Ok((store, engine))
}

/// Whether the service goes on trying to start: also while somebody must first change the rights,
/// the memory or the configuration of the server.
fn is_retryable(error: &ServeError) -> bool {
    let retryable = match error {
        ServeError::Store(error) => error.is_retryable(),
        ServeError::Deployment(error) => error.is_retryable(),
        ServeError::Listen { .. } | ServeError::Metrics(_) | ServeError::Shutdown(_) => false,
    };
    let repairable = |error: &ServerError| error.retry(Idempotency::Idempotent) != Retry::Never;
    retryable || server_error(error).is_some_and(repairable)
}

/// The error, with the right that the user of the store lacks.
fn explain(error: &ServeError) -> String {
    match server_error(error).and_then(ServerError::missing_right) {
        Some(right) => format!("{error} (missing right: {right})"),
        None => error.to_string(),
    }
}

/// The server error behind it, if there is one.
fn server_error(error: &ServeError) -> Option<&ServerError> {
    match error {
        ServeError::Store(error) => error.server(),
        ServeError::Deployment(error) => error.server(),
        ServeError::Listen { .. } | ServeError::Metrics(_) | ServeError::Shutdown(_) => None,
    }
}

async fn sample(sampler: QueueSampler, probe: &Probe) {
    let mut every = interval(SAMPLE_EVERY);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        every.tick().await;
        if let Err(error) = sampler.sample().await {
            tracing::debug!(%error, "sampling the queues failed");
        }
        publish_engine_gauges(probe);
    }
}

fn record_metrics() -> Result<PrometheusHandle, ServeError> {
    let refused = |error: &dyn std::fmt::Display| ServeError::Metrics(error.to_string());
    let recorder = PrometheusBuilder::new()
        .add_global_label("otel_scope_name", "ff")
        .set_buckets_for_metric(Matcher::Prefix("ff_".to_owned()), CONTRACT_BUCKETS)
        .and_then(|builder| {
            builder.set_buckets_for_metric(Matcher::Prefix("selvedge_".to_owned()), BUCKETS)
        })
        .map_err(|error| refused(&error))?
        .build_recorder();
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder).map_err(|error| refused(&error))?;
    selvedge::observe::describe();
    Ok(handle)
}

/// How often queues are sampled; one sample takes some hundred calls.
const SAMPLE_EVERY: Duration = Duration::from_secs(15);

/// Time limit of the shutdown, from the contract.
const SHUTDOWN_WITHIN: Duration = Duration::from_secs(15);

const HTTP_END_WITHIN: Duration = Duration::from_secs(1);

/// The histogram buckets of the contract, for any unit.
const CONTRACT_BUCKETS: &[f64] = &[
    0.0, 5.0, 10.0, 25.0, 50.0, 75.0, 100.0, 250.0, 500.0, 750.0, 1_000.0, 2_500.0, 5_000.0,
    7_500.0, 10_000.0,
];

/// Histogram buckets in seconds, from a local round trip to five minutes.
const BUCKETS: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
];
