//! An engine as a daemon: metrics and health over HTTP, a start that waits for its store, and an
//! end that leaves nothing behind.
//!
//! | path | answer |
//! | --- | --- |
//! | `/metrics` | everything that is counted, as Prometheus reads it |
//! | `/livez` | 200 while the process is worth keeping, else 503 |
//! | `/readyz` | 200 while work gets done, else 503 and why; JSON |

use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use selvedge_core::error::Class;
use serde_json::{Value as Json, json};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::time::{MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;

use crate::config::Settings;
use crate::deployment::DeploymentError;
use crate::engine::{Engine, Health, Probe, ShutdownTimeout};
use crate::observe::{Sampler, names, sample_engine};
use crate::store::pause::Pause;
use crate::store::{Store, StoreError};

/// Why the daemon ended.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The address to listen on is not to be had.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        error: std::io::Error,
    },
    /// The store cannot be used, and waiting will not help.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Configuration and deployment do not fit.
    #[error(transparent)]
    Deployment(#[from] DeploymentError),
    /// The process already has a recorder for metrics.
    #[error("metrics cannot be recorded: {0}")]
    Metrics(String),
    /// The engine did not end in time.
    #[error(transparent)]
    Shutdown(#[from] ShutdownTimeout),
}

/// What the HTTP side knows.
#[derive(Clone)]
struct Desk {
    stage: Arc<RwLock<Stage>>,
    metrics: PrometheusHandle,
}

enum Stage {
    /// Not started yet, and why not.
    Starting(Option<String>),
    Running(Probe),
}

/// Runs an engine until `stop` fires, and answers over HTTP all the while. `ready` is called with
/// the address as soon as it answers.
///
/// # Errors
/// When it cannot listen, or when configuration and deployment do not fit. A store that is away,
/// loading, full or refuses us is waited for.
pub async fn serve(
    settings: Settings,
    stop: CancellationToken,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), ServeError> {
    let address = settings.listen;
    let listening = |error| ServeError::Listen { address, error };
    let listener = TcpListener::bind(address).await.map_err(listening)?;
    ready(listener.local_addr().map_err(listening)?);
    let desk =
        Desk { stage: Arc::new(RwLock::new(Stage::Starting(None))), metrics: record_metrics()? };
    let http_stop = CancellationToken::new();
    let http = tokio::spawn(
        axum::serve(listener, router(desk.clone()))
            .with_graceful_shutdown(http_stop.clone().cancelled_owned())
            .into_future(),
    );
    let outcome = run_engine(&settings, &desk, &stop).await;
    http_stop.cancel();
    // Whoever keeps a connection open does not keep the process.
    let _ = tokio::time::timeout(HTTP_END_WITHIN, http).await;
    outcome
}

async fn run_engine(
    settings: &Settings,
    desk: &Desk,
    stop: &CancellationToken,
) -> Result<(), ServeError> {
    let Some((store, engine)) = start(settings, desk, stop).await? else { return Ok(()) };
    let probe = engine.probe();
    desk.set(Stage::Running(probe.clone()));
    let lanes = settings.engine.lanes.clone();
    let sampler = Sampler::new(store, settings.engine.partitions, lanes);
    tokio::select! {
        () = stop.cancelled() => {}
        () = sample(sampler, &probe) => {}
    }
    tracing::info!("asked to stop");
    Ok(engine.shutdown(SHUTDOWN_WITHIN).await?)
}

/// Starts the engine as soon as its store lets it; none when asked to stop before that.
async fn start(
    settings: &Settings,
    desk: &Desk,
    stop: &CancellationToken,
) -> Result<Option<(Store, Engine)>, ServeError> {
    let mut pause = Pause::new(Duration::from_millis(200), Duration::from_secs(5));
    loop {
        let error = match try_start(settings).await {
            Ok(started) => return Ok(Some(started)),
            Err(error) if may_pass(&error) => error.to_string(),
            Err(error) => return Err(error),
        };
        metrics::counter!(names::UNREADY_BOOT, "backend" => "valkey", "stage" => "start")
            .increment(1);
        tracing::warn!(store = %settings.store, error, "the engine cannot start yet");
        desk.set(Stage::Starting(Some(error)));
        tokio::select! {
            () = sleep(pause.grow()) => {}
            () = stop.cancelled() => return Ok(None),
        }
    }
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

fn may_pass(error: &ServeError) -> bool {
    match error {
        ServeError::Store(StoreError::Server(error)) => error.class != Class::Broken,
        // It is still being made.
        ServeError::Store(StoreError::NoSlots) => true,
        ServeError::Deployment(error) => error.may_pass(),
        ServeError::Store(
            StoreError::Tls(_)
            | StoreError::Library(_)
            | StoreError::IsCluster(_)
            | StoreError::NoHost,
        )
        | ServeError::Listen { .. }
        | ServeError::Metrics(_)
        | ServeError::Shutdown(_) => false,
    }
}

async fn sample(sampler: Sampler, probe: &Probe) {
    let mut every = interval(SAMPLE_EVERY);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        every.tick().await;
        if let Err(error) = sampler.sample().await {
            tracing::debug!(%error, "the queues could not be sampled");
        }
        sample_engine(probe);
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
    names::describe();
    Ok(handle)
}

fn router(desk: Desk) -> Router {
    Router::new()
        .route("/metrics", get(metrics_page))
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .with_state(desk)
}

async fn metrics_page(State(desk): State<Desk>) -> Response {
    if let Stage::Running(probe) = &*desk.stage() {
        sample_engine(probe);
    }
    desk.metrics.run_upkeep();
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], desk.metrics.render()).into_response()
}

async fn livez(State(desk): State<Desk>) -> Response {
    let live = match &*desk.stage() {
        Stage::Starting(_) => true,
        Stage::Running(probe) => probe.health().is_live(),
    };
    if live {
        (StatusCode::OK, "live\n").into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "the engine hangs\n").into_response()
    }
}

async fn readyz(State(desk): State<Desk>) -> Response {
    let body = match &*desk.stage() {
        Stage::Starting(error) => {
            json!({ "ready": false, "phase": "starting", "why": error, "last_error": error })
        }
        Stage::Running(probe) => describe(&probe.health()),
    };
    let status = match body["ready"] == Json::Bool(true) {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, [(header::CONTENT_TYPE, "application/json")], format!("{body}\n")).into_response()
}

/// Health as JSON.
#[must_use]
pub fn describe(health: &Health) -> Json {
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    json!({
        "ready": health.is_ready(),
        "live": health.is_live(),
        "phase": health.phase.as_str(),
        "why": health.why_not_ready(),
        "scan_lag_ms": millis(health.scan_lag),
        "slowest_scanner": health.slowest_scanner.as_str(),
        "push_alive": health.push_alive,
        "library_right": health.library_right,
        "last_error": health.last_error.as_ref().map(|(text, _)| text),
        "last_error_ago_ms": health.last_error.as_ref().map(|(_, ago)| millis(*ago)),
        "restarts": health.restarts,
        "in_flight": health.in_flight,
    })
}

impl Desk {
    fn set(&self, stage: Stage) {
        *self.stage.write().unwrap_or_else(PoisonError::into_inner) = stage;
    }

    fn stage(&self) -> std::sync::RwLockReadGuard<'_, Stage> {
        self.stage.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How often queues are sampled: some hundred calls each time.
const SAMPLE_EVERY: Duration = Duration::from_secs(15);

/// The contract's time for an engine to end.
const SHUTDOWN_WITHIN: Duration = Duration::from_secs(15);

const HTTP_END_WITHIN: Duration = Duration::from_secs(1);

/// The contract's bounds, whatever the unit.
const CONTRACT_BUCKETS: &[f64] = &[
    0.0, 5.0, 10.0, 25.0, 50.0, 75.0, 100.0, 250.0, 500.0, 750.0, 1_000.0, 2_500.0, 5_000.0,
    7_500.0, 10_000.0,
];

/// From a loopback round trip to a coffee break, in seconds.
const BUCKETS: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
];
