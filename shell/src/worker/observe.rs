//! Turns the observations of a worker into log lines and metrics.

use std::time::Duration;

use selvedge_core::error::Refusal;
use selvedge_core::id::{ExecutionId, LaneId};
use selvedge_core::worker::{AttemptOutcome, Observation};

use crate::observe::worker_metrics;

/// `namespace` is that of the worker.
pub(super) fn observe(fact: &Observation, namespace: &str) {
    count(fact, namespace);
    log(fact);
}

fn count(fact: &Observation, namespace: &str) {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others have no metric")]
    match fact {
        Observation::Claimed { lane, took_ms, waited_ms, .. } => {
            worker_metrics::claimed(namespace, lane, Duration::from_millis(*took_ms), *waited_ms);
        }
        Observation::AtCapacity => worker_metrics::at_capacity(),
        Observation::Renewed { ok } => worker_metrics::renewed(*ok),
        Observation::AttemptEnded { lane, outcome, .. } => {
            worker_metrics::ended(namespace, lane, *outcome);
        }
        Observation::KindUnhandled { lane, kind, .. } => {
            worker_metrics::kind_unhandled(namespace, lane, kind);
        }
        _ => {}
    }
}

fn log(fact: &Observation) {
    match fact {
        Observation::Claimed { execution, kind, .. } => {
            tracing::debug!(%execution, kind, "claimed");
        }
        Observation::ClaimFailed { partition, error } => {
            tracing::warn!(%partition, %error, "claim failed, retrying");
        }
        Observation::ClaimSlow(partition) => tracing::debug!(%partition, "claims unanswered"),
        Observation::ClaimRepeated(partition) => tracing::debug!(%partition, "claim repeated"),
        Observation::ClaimGivenUp(partition) => {
            tracing::warn!(%partition, "claim without a reply given up, its lease has lapsed");
        }
        Observation::NoPermit(execution) => {
            tracing::debug!(%execution, "claimed late, waiting for a free handler");
        }
        Observation::PutBack(execution) => tracing::info!(%execution, "execution put back"),
        Observation::LanePaused { lane, is_paused } => log_pause(lane, *is_paused),
        Observation::Surveyed => tracing::debug!("pushes may be lost, counting ready work"),
        Observation::Admitted(execution) => tracing::debug!(%execution, "admitted"),
        Observation::NotAdmitted { execution, reason, detail } => {
            tracing::debug!(%execution, %reason, detail, "not admitted, blocked");
        }
        Observation::NotBlocked { execution, refusal } => {
            tracing::debug!(%execution, %refusal, "execution not blocked: its state has changed");
        }
        Observation::AdmissionFailed { execution, error } => {
            tracing::warn!(%execution, %error, "admission check failed, retrying");
        }
        Observation::RenewalFailed { execution, error } => {
            tracing::debug!(%execution, %error, "lease renewal failed, retrying");
        }
        Observation::LeaseLost { execution, refusal } => log_lost(execution, refusal.as_ref()),
        Observation::ReportUnanswered { execution, error } => {
            tracing::warn!(%execution, %error, "outcome not acknowledged, retrying");
        }
        Observation::ReportGivenUp { execution, error } => {
            tracing::error!(%execution, %error, "outcome cannot be reported, lease given up");
        }
        Observation::ReportFound(execution) => {
            tracing::debug!(%execution, "outcome had been acknowledged, its reply was lost");
        }
        Observation::ReportRejected { execution, refusal } => {
            tracing::warn!(%execution, %refusal, "outcome rejected by the store");
        }
        Observation::OutcomeDiscarded { execution, outcome } => {
            let outcome = outcome.as_ref().map(outcome_word);
            tracing::info!(%execution, ?outcome, "lease given up or lost, outcome discarded");
        }
        Observation::AttemptEnded { execution, outcome, .. } => log_end(execution, *outcome),
        Observation::Suspended(execution) => tracing::debug!(%execution, "suspended"),
        Observation::QuotaReleased(execution) => tracing::debug!(%execution, "quota slot released"),
        Observation::QuotaKept(execution) => tracing::debug!(%execution, "quota slot still needed"),
        Observation::QuotaNotReleased { execution, error } => {
            tracing::debug!(%execution, %error, "quota slot not released, left to the engine");
        }
        Observation::KindUnhandled { lane, kind, waited_ms } => {
            log_unhandled(lane, kind, *waited_ms);
        }
        Observation::DrainTimeOver => tracing::info!("drain time is over, stopping handlers"),
        Observation::AtCapacity
        | Observation::Renewed { .. }
        | Observation::AnswerIgnored(_)
        | Observation::BatchTimedOut(_)
        | Observation::Drained => {}
    }
}

fn log_lost(execution: &ExecutionId, refusal: Option<&Refusal>) {
    match refusal {
        Some(refusal) => tracing::info!(%execution, %refusal, "lease lost"),
        None => tracing::warn!(%execution, "lease expired before it could be renewed"),
    }
}

fn log_unhandled(lane: &LaneId, kind: &str, waited_ms: u64) {
    tracing::warn!(%lane, kind, waited_ms, "executions wait, no worker handles their kind");
}

fn log_pause(lane: &LaneId, is_paused: bool) {
    match is_paused {
        true => tracing::info!(%lane, "lane paused, claiming nothing from it"),
        false => tracing::info!(%lane, "lane resumed"),
    }
}

/// Success and a retry are the normal course.
fn log_end(execution: &ExecutionId, outcome: AttemptOutcome) {
    let word = outcome.as_str();
    match outcome {
        AttemptOutcome::Ok | AttemptOutcome::Retry => {
            tracing::debug!(%execution, outcome = word, "attempt ended");
        }
        AttemptOutcome::Error | AttemptOutcome::Timeout | AttemptOutcome::Cancelled => {
            tracing::info!(%execution, outcome = word, "attempt ended");
        }
    }
}

/// Results and reasons may be long or confidential: only the kind of an outcome is logged.
const fn outcome_word(outcome: &selvedge_core::worker::HandlerOutcome) -> &'static str {
    use selvedge_core::worker::HandlerOutcome;
    match outcome {
        HandlerOutcome::Completed(_) => "completed",
        HandlerOutcome::Failed { .. } => "failed",
        HandlerOutcome::Panicked(_) => "panicked",
        HandlerOutcome::Later(_) => "later",
        HandlerOutcome::Suspended => "suspended",
    }
}
