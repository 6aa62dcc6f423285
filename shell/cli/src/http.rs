//! The daemon's HTTP server.
//!
//! | path | answer |
//! | --- | --- |
//! | `/metrics` | all metrics in the Prometheus text format |
//! | `/livez` | 200 while the engine runs, else 503: restart the process |
//! | `/readyz` | 200 while work gets done, else 503; the reason as JSON |

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use metrics_exporter_prometheus::PrometheusHandle;
use selvedge::engine::{Health, Probe};
use selvedge::observe::publish_engine_gauges;
use serde_json::{Value as Json, json};

/// The state behind the HTTP handlers.
#[derive(Clone)]
pub(crate) struct HttpState {
    stage: Arc<RwLock<EngineStage>>,
    metrics: PrometheusHandle,
}

/// How far the engine is.
pub(crate) enum EngineStage {
    /// Not started yet, with the last error.
    Starting(Option<String>),
    Running(Probe),
}

impl HttpState {
    /// An engine that is not started yet.
    pub(crate) fn new(metrics: PrometheusHandle) -> Self {
        Self { stage: Arc::new(RwLock::new(EngineStage::Starting(None))), metrics }
    }

    pub(crate) fn set(&self, stage: EngineStage) {
        *self.stage.write().unwrap_or_else(PoisonError::into_inner) = stage;
    }

    fn stage(&self) -> RwLockReadGuard<'_, EngineStage> {
        self.stage.read().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn router(state: HttpState) -> Router {
    Router::new()
        .route("/metrics", get(metrics_page))
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .with_state(state)
}

async fn metrics_page(State(state): State<HttpState>) -> Response {
    if let EngineStage::Running(probe) = &*state.stage() {
        publish_engine_gauges(probe);
    }
    state.metrics.run_upkeep();
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], state.metrics.render()).into_response()
}

async fn livez(State(state): State<HttpState>) -> Response {
    let live = match &*state.stage() {
        EngineStage::Starting(_) => true,
        EngineStage::Running(probe) => probe.health().is_live(),
    };
    if live {
        (StatusCode::OK, "live\n").into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "the engine does not respond\n").into_response()
    }
}

async fn readyz(State(state): State<HttpState>) -> Response {
    let body = match &*state.stage() {
        EngineStage::Starting(error) => {
            json!({ "ready": false, "phase": "starting", "why": error, "last_error": error })
        }
        EngineStage::Running(probe) => describe(&probe.health()),
    };
    let status = match body["ready"] == Json::Bool(true) {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, [(header::CONTENT_TYPE, "application/json")], format!("{body}\n")).into_response()
}

/// Health as JSON.
fn describe(health: &Health) -> Json {
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    json!({
        "ready": health.is_ready(),
        "live": health.is_live(),
        "phase": health.phase.as_str(),
        "why": health.why_not_ready(),
        "scan_lag_ms": millis(health.scan_lag),
        "slowest_scanner": health.slowest_scanner.as_str(),
        "push_alive": health.push_alive,
        "library_loaded": health.library_loaded,
        "last_error": health.last_error.as_ref().map(|(text, _)| text),
        "last_error_ago_ms": health.last_error.as_ref().map(|(_, ago)| millis(*ago)),
        "restarts": health.restarts,
        "in_flight": health.in_flight,
    })
}
