//! Names of metrics. Those with `ff_` are the contract's, so that dashboards keep working; those
//! with `selvedge_` say what it lacks.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

/// Finished cycles by scanner.
pub const SCANNER_CYCLES: &str = "ff_scanner_cycle_total";
/// How long a cycle took, by scanner.
pub const SCANNER_CYCLE_SECONDS: &str = "ff_scanner_cycle_duration_seconds";
/// Flows that owe cancels to their members.
pub const CANCEL_BACKLOG: &str = "ff_cancel_backlog_depth";
/// Cancels of siblings attempted, by reason.
pub const SIBLING_CANCELS: &str = "ff_sibling_cancel_dispatched_total";
/// Cancels of siblings answered, by disposition.
pub const SIBLING_DISPOSITIONS: &str = "ff_sibling_cancel_disposition_total";
/// Groups reconciled, by action.
pub const SIBLING_RECONCILES: &str = "ff_sibling_cancel_reconcile_total";
/// Shutdowns that did not end in time.
pub const SHUTDOWN_TIMEOUT: &str = "ff_shutdown_timeout_total";
/// Starts that met an unready store, by backend and stage.
pub const UNREADY_BOOT: &str = "ff_backend_unready_boot_total";
/// How long a claim took, by lane.
pub const CLAIM_SECONDS: &str = "ff_claim_from_grant_duration_seconds";
/// Renewals of leases, by outcome.
pub const LEASE_RENEWALS: &str = "ff_lease_renewal_total";
/// Ends of attempts, by lane and outcome.
pub const ATTEMPT_OUTCOMES: &str = "ff_attempt_outcome_total";
/// Claims not made because the worker was full.
pub const WORKER_AT_CAPACITY: &str = "ff_worker_at_capacity_total";

/// Executions by lane and index, sampled.
pub const QUEUE_DEPTH: &str = "selvedge_queue_depth";
/// Age of the oldest execution in line, by lane, sampled.
pub const OLDEST_WAITING: &str = "selvedge_oldest_waiting_seconds";
/// From eligible to claimed, by lane.
pub const SCHEDULE_TO_START: &str = "selvedge_schedule_to_start_seconds";
/// Executions that are being worked on, by lane, sampled.
pub const IN_FLIGHT: &str = "selvedge_in_flight";
/// Failed attempts that are tried again, by lane.
pub const RETRIES: &str = "selvedge_retries_total";
/// Executions of dead workers brought back in line.
pub const RECOVERED: &str = "selvedge_recovered_total";
/// Executions held back, by lane and reason, sampled.
pub const BLOCKED: &str = "selvedge_blocked";
/// By how much the oldest due and undone thing is late, sampled.
pub const CONVERGENCE_LAG: &str = "selvedge_convergence_lag_seconds";
/// By how much a scanner has overrun its interval.
pub const SCANNER_LAG: &str = "selvedge_scanner_lag_seconds";
/// Candidates handled, by scanner and result.
pub const CANDIDATES: &str = "selvedge_scanner_candidates_total";
/// Index entries set aside for an operator, by scanner.
pub const SET_ASIDE: &str = "selvedge_poison_set_aside_total";
/// Edges resolved by dispatch.
pub const EDGES_RESOLVED: &str = "selvedge_dispatch_edges_total";
/// Completions that dispatch left to the reconciler, by reason.
pub const HANDED_OVER: &str = "selvedge_dispatch_handed_over_total";
/// Visits to a partition that failed, by class of error.
pub const PARTITION_FAILURES: &str = "selvedge_partition_failures_total";
/// Batches that got no answer in time.
pub const TICKETS_EXPIRED: &str = "selvedge_tickets_expired_total";
/// Refusals by a server: rights, role, memory, disk.
pub const DENIED: &str = "selvedge_denied_total";
/// Times that a server was found without the library.
pub const LIBRARY_MISSING: &str = "selvedge_library_missing_total";
/// Restarts of the engine after a panic.
pub const RESTARTS: &str = "selvedge_engine_restarts_total";
/// Batches on their way.
pub const ENGINE_IN_FLIGHT: &str = "selvedge_engine_batches_in_flight";
/// 1 while completions are pushed, else 0.
pub const PUSH_ALIVE: &str = "selvedge_push_alive";
/// 1 while the engine is ready, else 0.
pub const READY: &str = "selvedge_ready";

/// Tells the recorder what the names mean.
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
    (SCANNER_CYCLES, "Finished cycles by scanner"),
    (SIBLING_CANCELS, "Cancels of siblings attempted, by reason"),
    (SIBLING_DISPOSITIONS, "Cancels of siblings answered, by disposition"),
    (SIBLING_RECONCILES, "Groups reconciled, by action"),
    (SHUTDOWN_TIMEOUT, "Shutdowns that did not end in time"),
    (UNREADY_BOOT, "Starts that met an unready store"),
    (LEASE_RENEWALS, "Renewals of leases, by outcome"),
    (ATTEMPT_OUTCOMES, "Ends of attempts, by lane and outcome"),
    (WORKER_AT_CAPACITY, "Claims not made because the worker was full"),
    (RETRIES, "Failed attempts that are tried again, by lane"),
    (RECOVERED, "Executions of dead workers brought back in line"),
    (CANDIDATES, "Candidates handled, by scanner and result"),
    (SET_ASIDE, "Index entries set aside for an operator, by scanner"),
    (EDGES_RESOLVED, "Edges resolved by dispatch"),
    (HANDED_OVER, "Completions that dispatch left to the reconciler, by reason"),
    (PARTITION_FAILURES, "Visits to a partition that failed, by class of error"),
    (TICKETS_EXPIRED, "Batches that got no answer in time"),
    (DENIED, "Refusals by a server: rights, role, memory, disk"),
    (LIBRARY_MISSING, "Times that a server was found without the library"),
    (RESTARTS, "Restarts of the engine after a panic"),
];

const GAUGES: &[(&str, &str)] = &[
    (CANCEL_BACKLOG, "Flows that owe cancels to their members"),
    (QUEUE_DEPTH, "Executions by lane and index, sampled"),
    (OLDEST_WAITING, "Age of the oldest execution in line, by lane, sampled"),
    (IN_FLIGHT, "Executions that are being worked on, by lane, sampled"),
    (BLOCKED, "Executions held back, by lane and reason, sampled"),
    (CONVERGENCE_LAG, "By how much the oldest due and undone thing is late, sampled"),
    (SCANNER_LAG, "By how much a scanner has overrun its interval"),
    (ENGINE_IN_FLIGHT, "Batches on their way"),
    (PUSH_ALIVE, "1 while completions are pushed, else 0"),
    (READY, "1 while the engine is ready, else 0"),
];

const HISTOGRAMS: &[(&str, &str)] = &[
    (SCANNER_CYCLE_SECONDS, "How long a cycle took, by scanner"),
    (CLAIM_SECONDS, "How long a claim took, by lane"),
    (SCHEDULE_TO_START, "From eligible to claimed, by lane"),
];
