//! What workers count.

use std::time::Duration;

use metrics::{counter, histogram};
use selvedge_core::id::LaneId;

use super::names;

/// How an attempt ended; the contract's metric label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// Completed.
    Ok,
    /// Failed for good.
    Error,
    /// Took too long.
    Timeout,
    /// Cancelled.
    Cancelled,
    /// Failed, and will be tried again.
    Retry,
}

/// A claim gave an execution that had been in line for `waited`, after a call of `took`.
pub fn claimed(lane: &LaneId, took: Duration, waited: Duration) {
    histogram!(names::CLAIM_SECONDS, "lane" => lane.to_string()).record(took.as_secs_f64());
    histogram!(names::SCHEDULE_TO_START, "lane" => lane.to_string()).record(waited.as_secs_f64());
}

/// A lease was renewed, or was not.
pub fn renewed(ok: bool) {
    counter!(names::LEASE_RENEWALS, "outcome" => if ok { "ok" } else { "err" }).increment(1);
}

/// An attempt has ended.
pub fn ended(lane: &LaneId, outcome: AttemptOutcome) {
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
pub fn at_capacity() {
    counter!(names::WORKER_AT_CAPACITY).increment(1);
}
