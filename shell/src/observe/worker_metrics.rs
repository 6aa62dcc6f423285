//! The metrics of workers.

use std::time::Duration;

use super::metrics::{counter, histogram};
use selvedge_core::error::Refusal;
use selvedge_core::id::LaneId;

use super::metric_names;

/// How an attempt ended, as the contract's metric labels it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttemptOutcome {
    /// Completed.
    Ok,
    /// Failed, and will not be retried.
    Error,
    /// Timed out, or its lease expired.
    Timeout,
    /// Cancelled.
    Cancelled,
    /// Failed, and will be retried.
    Retry,
}

impl AttemptOutcome {
    /// The outcome of an attempt whose report was refused. The refusal's first detail is the
    /// execution's outcome, if it has ended.
    pub(crate) fn of_refused(refusal: &Refusal) -> Self {
        match refusal.detail(0).as_str() {
            "cancelled" => Self::Cancelled,
            _ => Self::Timeout,
        }
    }
}

/// Counts a successful claim: the call took `took`, the execution had waited for `waited_ms`.
pub(crate) fn claimed(lane: &LaneId, took: Duration, waited_ms: Option<u64>) {
    histogram!(metric_names::CLAIM_SECONDS, "lane" => lane.to_string()).record(took.as_secs_f64());
    if let Some(waited) = waited_ms.map(Duration::from_millis) {
        let seconds = waited.as_secs_f64();
        histogram!(metric_names::SCHEDULE_TO_START, "lane" => lane.to_string()).record(seconds);
    }
}

/// Counts a lease renewal.
pub(crate) fn renewed(ok: bool) {
    counter!(metric_names::LEASE_RENEWALS, "outcome" => if ok { "ok" } else { "err" }).increment(1);
}

/// Counts an ended attempt.
pub(crate) fn ended(lane: &LaneId, outcome: AttemptOutcome) {
    let word = match outcome {
        AttemptOutcome::Ok => "ok",
        AttemptOutcome::Error => "error",
        AttemptOutcome::Timeout => "timeout",
        AttemptOutcome::Cancelled => "cancelled",
        AttemptOutcome::Retry => "retry",
    };
    let labels = [("lane", lane.to_string()), ("outcome", word.to_owned())];
    counter!(metric_names::ATTEMPT_OUTCOMES, &labels).increment(1);
    if outcome == AttemptOutcome::Retry {
        counter!(metric_names::RETRIES, "lane" => lane.to_string()).increment(1);
    }
}

/// Counts a push about ready executions while all permits were in use.
pub(crate) fn at_capacity() {
    counter!(metric_names::WORKER_AT_CAPACITY).increment(1);
}
