//! Names of metrics. Those that begin with `ff_` are the wire contract's, so that existing
//! dashboards work; those with `selvedge_` are our own.

/// Completed scan cycles, by scanner.
pub const SCANNER_CYCLES: &str = "ff_scanner_cycle_total";
/// Duration of a scan cycle, by scanner.
pub const SCANNER_CYCLE_SECONDS: &str = "ff_scanner_cycle_duration_seconds";
/// Cancelled flows with members still to cancel.
pub const CANCEL_BACKLOG: &str = "ff_cancel_backlog_depth";
/// Sibling cancels sent, by reason.
pub const SIBLING_CANCELS: &str = "ff_sibling_cancel_dispatched_total";
/// Sibling cancels answered, by disposition.
pub const SIBLING_DISPOSITIONS: &str = "ff_sibling_cancel_disposition_total";
/// Edge groups reconciled, by action.
pub const SIBLING_RECONCILES: &str = "ff_sibling_cancel_reconcile_total";
/// Shutdowns that timed out.
pub const SHUTDOWN_TIMEOUT: &str = "ff_shutdown_timeout_total";
/// Starts that failed because the store was not ready, by backend and stage.
pub const UNREADY_BOOT: &str = "ff_backend_unready_boot_total";
/// Duration of a successful claim, by lane.
pub const CLAIM_SECONDS: &str = "ff_claim_from_grant_duration_seconds";
/// Lease renewals, by outcome.
pub const LEASE_RENEWALS: &str = "ff_lease_renewal_total";
/// Ended attempts, by lane and outcome.
pub const ATTEMPT_OUTCOMES: &str = "ff_attempt_outcome_total";
/// Pushes about ready executions while all permits of the worker were in use.
pub const WORKER_AT_CAPACITY: &str = "ff_worker_at_capacity_total";

/// Executions by lane and index, sampled.
pub const QUEUE_DEPTH: &str = "selvedge_queue_depth";
/// Age of the oldest waiting execution, by lane, sampled.
pub const OLDEST_WAITING: &str = "selvedge_oldest_waiting_seconds";
/// Time from eligible to claimed, by lane and the namespace of the worker.
pub const SCHEDULE_TO_START: &str = "selvedge_schedule_to_start_seconds";
/// Running executions, by lane, sampled.
pub const IN_FLIGHT: &str = "selvedge_in_flight";
/// Failed attempts that will be retried, by lane and the namespace of the worker.
pub const RETRIES: &str = "selvedge_retries_total";
/// Checks that found no worker for a kind of which executions have waited for long, by lane,
/// namespace and kind; each worker checks at most once a minute.
pub const KIND_UNHANDLED: &str = "selvedge_kind_unhandled_total";
/// Executions reclaimed from dead workers.
pub const RECOVERED: &str = "selvedge_recovered_total";
/// Blocked executions, by lane and reason, sampled.
pub const BLOCKED: &str = "selvedge_blocked";
/// How late the oldest overdue entry of any index is, sampled.
pub const CONVERGENCE_LAG: &str = "selvedge_convergence_lag_seconds";
/// For how long ended executions could have been purged, by lane: the longest, sampled.
pub const RETENTION_LAG: &str = "selvedge_retention_lag_seconds";
/// How far a scanner is behind its interval.
pub const SCANNER_LAG: &str = "selvedge_scanner_lag_seconds";
/// Candidates processed, by scanner and result.
pub const CANDIDATES: &str = "selvedge_scanner_candidates_total";
/// Unreadable index entries set aside for an operator, by scanner.
pub const SET_ASIDE: &str = "selvedge_entries_set_aside_total";
/// Dependency edges resolved by dispatch.
pub const EDGES_RESOLVED: &str = "selvedge_dispatch_edges_total";
/// Completions that dispatch left to the reconciler, by reason.
pub const HANDED_OVER: &str = "selvedge_dispatch_handed_over_total";
/// Failed scans of a partition, by error class.
pub const PARTITION_FAILURES: &str = "selvedge_partition_failures_total";
/// Batches without a reply in time.
pub const BATCHES_TIMED_OUT: &str = "selvedge_batches_timed_out_total";
/// Commands denied by a server: permissions, read-only, out of memory, disk.
pub const DENIED: &str = "selvedge_denied_total";
/// Times a server lacked the function library.
pub const LIBRARY_MISSING: &str = "selvedge_library_missing_total";
/// Restarts of the engine after a panic.
pub const RESTARTS: &str = "selvedge_engine_restarts_total";
/// Batches of the engine in flight.
pub const ENGINE_IN_FLIGHT: &str = "selvedge_engine_batches_in_flight";
/// 1 while the push connection of the engine is up, else 0.
pub const PUSH_ALIVE: &str = "selvedge_push_alive";
/// 1 while the engine is ready, else 0.
pub const READY: &str = "selvedge_ready";
