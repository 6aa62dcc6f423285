//! What workers count.

use std::time::Duration;

use metrics::{counter, histogram};
use selvedge_core::error::Refusal;
use selvedge_core::id::LaneId;

use super::names;

/// How an attempt ended; the contract's metric label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttemptOutcome {
    /// Completed.
    Ok,
    /// Failed for good.
    Error,
    /// Its time or its lease ran out.
    Timeout,
    /// Cancelled.
    Cancelled,
    /// Failed, and will be tried again.
    Retry,
}

impl AttemptOutcome {
    /// What became of an attempt whose holder is refused. The refusal's first word is the
    /// execution's outcome, where it has one.
    pub(crate) fn of_refused(refusal: &Refusal) -> Self {
        match refusal.detail(0).as_str() {
            "cancelled" => Self::Cancelled,
            _ => Self::Timeout,
        }
    }
}

/// A claim gave an execution, after a call of `took`; it had been in line for `waited_ms`.
pub(crate) fn claimed(lane: &LaneId, took: Duration, waited_ms: Option<u64>) {
    histogram!(names::CLAIM_SECONDS, "lane" => lane.to_string()).record(took.as_secs_f64());
    if let Some(waited) = waited_ms.map(Duration::from_millis) {
        let seconds = waited.as_secs_f64();
        histogram!(names::SCHEDULE_TO_START, "lane" => lane.to_string()).record(seconds);
    }
}

/// A lease was renewed, or was not.
pub(crate) fn renewed(ok: bool) {
    counter!(names::LEASE_RENEWALS, "outcome" => if ok { "ok" } else { "err" }).increment(1);
}

/// An attempt has ended.
pub(crate) fn ended(lane: &LaneId, outcome: AttemptOutcome) {
    let word = match outcome {
        AttemptOutcome::Ok => "ok",
        AttemptOutcome::Error => "error",
        AttemptOutcome::Timeout => "timeout",
        AttemptOutcome::Cancelled => "cancelled",
        AttemptOutcome::Retry => "retry",
    };
    let labels = [("lane", lane.to_string()), ("outcome", word.to_owned())];
    counter!(names::ATTEMPT_OUTCOMES, &labels).increment(1);
    if outcome == AttemptOutcome::Retry {
        counter!(names::RETRIES, "lane" => lane.to_string()).increment(1);
    }
}

/// A worker did not ask for work because all its hands are full.
pub(crate) fn at_capacity() {
    counter!(names::WORKER_AT_CAPACITY).increment(1);
}
