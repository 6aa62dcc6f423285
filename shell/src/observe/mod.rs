//! Turns the observations of the engine into log lines, metrics and health.
//!
//! Metrics go through the `metrics` facade: install any recorder. `selvedge serve` installs one for
//! Prometheus.

#[cfg(feature = "metrics")]
mod metric_descriptions;
pub mod metric_names;
pub(crate) mod metrics;
#[cfg(feature = "metrics")]
mod queue_sampler;
pub(crate) mod worker_metrics;

use selvedge_core::engine::{Observation, ScanCounts, ScannerName};
use selvedge_core::error::{Class, ServerError};
use selvedge_core::partition::Partition;
use tokio::time::Instant;

#[cfg(feature = "metrics")]
pub use metric_descriptions::describe;
#[cfg(feature = "metrics")]
pub use queue_sampler::{QueueSampler, publish_engine_gauges};

use metrics::{counter, gauge, histogram};

use crate::engine::{HealthRecord, Tap};

/// Logs and counts what an engine observes, and updates its health.
#[derive(Clone)]
pub(crate) struct Observer {
    record: HealthRecord,
    tap: Option<Tap>,
}

impl Observer {
    pub(crate) fn new(record: HealthRecord, tap: Option<Tap>) -> Self {
        Self { record, tap }
    }

    pub(crate) fn observe(&self, fact: &Observation) {
        if let Some(tap) = &self.tap {
            tap(fact);
        }
        match fact {
            Observation::ScanDone { scanner, partition, counts } => {
                tracing::debug!(%scanner, %partition, ?counts, "scanned");
                count_candidates(*scanner, counts);
            }
            Observation::CycleDone { scanner, elapsed_ms, counts } => {
                self.cycle_done(*scanner, *elapsed_ms, counts);
            }
            Observation::ItemFailed { scanner, partition, item, error } => {
                tracing::warn!(%scanner, %partition, item, error, "{scanner}: item failed");
                self.record.lock().on_error(error, Instant::now());
            }
            Observation::ItemBackedOff { scanner, item, failures, backoff_cycles } => {
                tracing::error!(%scanner, item, failures, backoff_cycles,
                    "{scanner}: item failed repeatedly, backing off");
            }
            Observation::EntrySetAside { scanner, partition, member, reason } => {
                let member = String::from_utf8_lossy(member);
                tracing::error!(%scanner, %partition, %member, reason,
                    "{scanner}: unreadable index entry set aside");
                counter!(metric_names::SET_ASIDE, "scanner" => scanner.as_str()).increment(1);
            }
            Observation::PartitionFailed { partition, error } => {
                let class = class_name(error.class);
                counter!(metric_names::PARTITION_FAILURES, "class" => class).increment(1);
                self.partition_failed(*partition, error);
            }
            Observation::LibraryMissing { text } => {
                tracing::warn!(error = text, "function library missing on a server");
                counter!(metric_names::LIBRARY_MISSING).increment(1);
                self.record.lock().on_library_missing(text, Instant::now());
            }
            Observation::Denied { text } => self.denied(text),
            Observation::CancelBacklog(_)
            | Observation::CancelBacklogPartial
            | Observation::SiblingCancelDispatched { .. }
            | Observation::SiblingCancelled(_)
            | Observation::SiblingReconciled(_) => observe_cancel(fact),
            Observation::Dispatched { .. }
            | Observation::DepthReached { .. }
            | Observation::HandedOver { .. } => observe_dispatch(fact),
            Observation::AnswerIgnored(ticket) => {
                tracing::debug!(?ticket, "late answer ignored");
            }
            Observation::BatchTimedOut(ticket) => {
                tracing::warn!(?ticket, "batch timed out without an answer");
                counter!(metric_names::BATCHES_TIMED_OUT).increment(1);
            }
            Observation::Drained => tracing::debug!("drained: nothing in flight"),
            _ => tracing::debug!(?fact, "observed"),
        }
    }

    /// Records the result of a heartbeat that was sent at `began`.
    pub(crate) fn on_heartbeat(&self, began: Instant, error: Option<&ServerError>) {
        match error {
            None => {
                if let Some(over) = self.record.lock().on_successful_write(began) {
                    tracing::info!(error = over, "store accepts writes again");
                }
            }
            Some(error) if error.class == Class::Denied => self.denied(&error.text),
            Some(error) => self.record.lock().on_error(&error.text, Instant::now()),
        }
    }

    /// Logs an error for a partition whose server answers but whose data cannot be read: an
    /// operator must repair a key. Outages are logged by the connections.
    fn partition_failed(&self, partition: Partition, error: &ServerError) {
        tracing::debug!(%partition, %error, "partition scan failed");
        let mut record = self.record.lock();
        if error.class != Class::Broken {
            record.on_error(&error.text, Instant::now());
        } else if record.on_unreadable_partition(partition, &error.text, Instant::now()) {
            tracing::error!(%partition, error = error.text,
                "unreadable key in this partition; `selvedge fsck` names it");
        }
    }

    /// Logs a denial once, although every partition reports it again and again.
    fn denied(&self, text: &str) {
        counter!(metric_names::DENIED).increment(1);
        if self.record.lock().on_refused(text, Instant::now()) {
            tracing::error!(error = text, "store denies commands; retrying more slowly");
        }
    }

    fn cycle_done(&self, scanner: ScannerName, elapsed_ms: u64, counts: &ScanCounts) {
        if counts.is_empty() {
            tracing::trace!(%scanner, elapsed_ms, "{scanner}: cycle done, nothing to do");
        } else {
            let (processed, errors) = (counts.processed, counts.errors());
            if errors > 0 {
                tracing::warn!(%scanner, processed, errors, elapsed_ms, "{scanner}: cycle done");
            } else {
                tracing::debug!(%scanner, processed, elapsed_ms, "{scanner}: cycle done");
            }
        }
        counter!(metric_names::SCANNER_CYCLES, "scanner" => scanner.as_str()).increment(1);
        let seconds = std::time::Duration::from_millis(elapsed_ms).as_secs_f64();
        histogram!(metric_names::SCANNER_CYCLE_SECONDS, "scanner" => scanner.as_str())
            .record(seconds);
        // A cycle that deferred something, such as an unreachable partition, is not complete.
        if counts.deferred == 0 {
            self.record.lock().on_cycle_completed(scanner, Instant::now());
        }
    }
}

fn count_candidates(scanner: ScannerName, counts: &ScanCounts) {
    for (result, number) in counts.by_name() {
        if number > 0 {
            let labels = [("scanner", scanner.as_str()), ("result", result)];
            counter!(metric_names::CANDIDATES, &labels).increment(number);
        }
    }
    if scanner == ScannerName::LeaseExpiry {
        counter!(metric_names::RECOVERED).increment(counts.processed);
    }
}

/// The contract's metrics of sibling cancels.
#[expect(clippy::wildcard_enum_match_arm, reason = "the caller passes only cancels")]
#[expect(clippy::cast_precision_loss, reason = "a gauge is a double; backlogs are small")]
fn observe_cancel(fact: &Observation) {
    match fact {
        Observation::CancelBacklog(depth) => {
            gauge!(metric_names::CANCEL_BACKLOG).set(*depth as f64)
        }
        Observation::CancelBacklogPartial => {
            tracing::debug!(scanner = "cancel_reconciler", "cancel backlog counted only in part");
        }
        Observation::SiblingCancelDispatched { reason } => {
            counter!(metric_names::SIBLING_CANCELS, "reason" => *reason).increment(1);
        }
        Observation::SiblingCancelled(disposition) => {
            let label = disposition.as_str();
            counter!(metric_names::SIBLING_DISPOSITIONS, "disposition" => label).increment(1);
        }
        Observation::SiblingReconciled(action) => {
            counter!(metric_names::SIBLING_RECONCILES, "action" => action.as_str()).increment(1);
        }
        _ => {}
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the caller passes only dispatch")]
fn observe_dispatch(fact: &Observation) {
    match fact {
        Observation::Dispatched { execution, resolved, skipped } => {
            if *resolved > 0 {
                tracing::debug!(execution = %execution, resolved, skipped_cascade = skipped,
                    "dispatch_dep: edges resolved");
            }
            counter!(metric_names::EDGES_RESOLVED).increment(*resolved);
        }
        Observation::DepthReached { execution } => {
            tracing::warn!(execution = %execution, "dispatch_dep: cascade depth limit reached");
        }
        Observation::HandedOver { execution, reason } => {
            tracing::info!(execution = %execution, reason,
                "dispatch_dep: left to the reconciler");
            counter!(metric_names::HANDED_OVER, "reason" => *reason).increment(1);
        }
        _ => {}
    }
}

const fn class_name(class: Class) -> &'static str {
    match class {
        Class::Silence => "silence",
        Class::NotNow => "not_now",
        Class::Redirect => "redirect",
        Class::Library => "library",
        Class::Broken => "broken",
        Class::Denied => "denied",
        _ => "other",
    }
}
