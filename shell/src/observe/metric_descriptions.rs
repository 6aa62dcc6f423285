//! The help text of each metric.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

use super::metric_names::*;

/// Registers units and help texts of all metrics with the installed recorder.
pub fn describe() {
    for (name, meaning) in COUNTERS {
        describe_counter!(*name, *meaning);
    }
    for (name, meaning) in GAUGES {
        describe_gauge!(*name, *meaning);
    }
    for (name, meaning) in HISTOGRAMS {
        describe_histogram!(*name, Unit::Seconds, *meaning);
    }
}

const COUNTERS: &[(&str, &str)] = &[
    (SCANNER_CYCLES, "Completed scan cycles, by scanner"),
    (SIBLING_CANCELS, "Sibling cancels sent, by reason"),
    (SIBLING_DISPOSITIONS, "Sibling cancels answered, by disposition"),
    (SIBLING_RECONCILES, "Edge groups reconciled, by action"),
    (SHUTDOWN_TIMEOUT, "Shutdowns that timed out"),
    (UNREADY_BOOT, "Starts that failed because the store was not ready, by backend and stage"),
    (LEASE_RENEWALS, "Lease renewals, by outcome"),
    (ATTEMPT_OUTCOMES, "Ended attempts, by lane and outcome"),
    (
        WORKER_AT_CAPACITY,
        "Pushes about ready executions while all permits of the worker were in use",
    ),
    (RETRIES, "Failed attempts that will be retried, by lane and the namespace of the worker"),
    (KIND_UNHANDLED, "Checks that found no worker for a kind whose executions wait for long"),
    (RECOVERED, "Executions reclaimed from dead workers"),
    (CANDIDATES, "Candidates processed, by scanner and result"),
    (SET_ASIDE, "Unreadable index entries set aside for an operator, by scanner"),
    (EDGES_RESOLVED, "Dependency edges resolved by dispatch"),
    (HANDED_OVER, "Completions that dispatch left to the reconciler, by reason"),
    (PARTITION_FAILURES, "Failed scans of a partition, by error class"),
    (BATCHES_TIMED_OUT, "Batches without a reply in time"),
    (DENIED, "Commands denied by a server: permissions, read-only, out of memory, disk"),
    (LIBRARY_MISSING, "Times a server lacked the function library"),
    (RESTARTS, "Restarts of the engine after a panic"),
];

const GAUGES: &[(&str, &str)] = &[
    (CANCEL_BACKLOG, "Cancelled flows with members still to cancel"),
    (QUEUE_DEPTH, "Executions by lane and index, sampled"),
    (OLDEST_WAITING, "Age of the oldest waiting execution, by lane, sampled"),
    (IN_FLIGHT, "Running executions, by lane, sampled"),
    (BLOCKED, "Blocked executions, by lane and reason, sampled"),
    (CONVERGENCE_LAG, "How late the oldest overdue entry of any index is, sampled"),
    (RETENTION_LAG, "Time since the oldest ended execution could be purged, by lane, sampled"),
    (SCANNER_LAG, "How far a scanner is behind its interval"),
    (ENGINE_IN_FLIGHT, "Batches of the engine in flight"),
    (PUSH_ALIVE, "1 while the push connection of the engine is up, else 0"),
    (READY, "1 while the engine is ready, else 0"),
];

const HISTOGRAMS: &[(&str, &str)] = &[
    (SCANNER_CYCLE_SECONDS, "Duration of a scan cycle, by scanner"),
    (CLAIM_SECONDS, "Duration of a successful claim, by lane"),
    (SCHEDULE_TO_START, "Time from eligible to claimed, by lane"),
];
