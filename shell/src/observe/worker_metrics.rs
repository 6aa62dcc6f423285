//! The metrics of workers.

use std::time::Duration;

use super::metrics::{counter, histogram};
use selvedge_core::id::LaneId;
use selvedge_core::worker::AttemptOutcome;

use super::metric_names;

/// Counts a successful claim: the call took `took`, the execution had waited for `waited_ms`.
pub(crate) fn claimed(namespace: &str, lane: &LaneId, took: Duration, waited_ms: Option<u64>) {
    histogram!(metric_names::CLAIM_SECONDS, "lane" => lane.to_string()).record(took.as_secs_f64());
    if let Some(waited) = waited_ms.map(Duration::from_millis) {
        let seconds = waited.as_secs_f64();
        let labels = [("lane", lane.to_string()), ("namespace", namespace.to_owned())];
        histogram!(metric_names::SCHEDULE_TO_START, &labels).record(seconds);
    }
}

/// Counts a lease renewal.
pub(crate) fn renewed(ok: bool) {
    counter!(metric_names::LEASE_RENEWALS, "outcome" => if ok { "ok" } else { "err" }).increment(1);
}

/// Counts an ended attempt.
pub(crate) fn ended(namespace: &str, lane: &LaneId, outcome: AttemptOutcome) {
    let labels = [("lane", lane.to_string()), ("outcome", outcome.as_str().to_owned())];
    counter!(metric_names::ATTEMPT_OUTCOMES, &labels).increment(1);
    if outcome == AttemptOutcome::Retry {
        let labels = [("lane", lane.to_string()), ("namespace", namespace.to_owned())];
        counter!(metric_names::RETRIES, &labels).increment(1);
    }
}

/// Counts that no worker handles a kind of which executions wait.
pub(crate) fn kind_unhandled(namespace: &str, lane: &LaneId, kind: &str) {
    let (namespace, kind) = (namespace.to_owned(), kind.to_owned());
    let labels = [("lane", lane.to_string()), ("namespace", namespace), ("kind", kind)];
    counter!(metric_names::KIND_UNHANDLED, &labels).increment(1);
}

/// Counts a push about ready executions while all permits were in use.
pub(crate) fn at_capacity() {
    counter!(metric_names::WORKER_AT_CAPACITY).increment(1);
}
