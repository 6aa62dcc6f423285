//! What happens becomes a log line, a metric and the engine's health.
//!
//! Metrics go through the `metrics` facade: install any recorder. `selvedge serve` installs one for
//! Prometheus.

pub mod names;
mod sample;
pub(crate) mod work;

use metrics::{counter, gauge, histogram};
use selvedge_core::engine::{Observation, ScannerName, Tally};
use selvedge_core::error::{Class, ServerError};
use selvedge_core::partition::Partition;
use tokio::time::Instant;

pub(crate) use sample::{Sampler, sample_engine};

use crate::engine::{Record, Tap};

/// Says what an engine observes.
#[derive(Clone)]
pub(crate) struct Observer {
    record: Record,
    tap: Option<Tap>,
}

impl Observer {
    pub(crate) fn new(record: Record, tap: Option<Tap>) -> Self {
        Self { record, tap }
    }

    pub(crate) fn observe(&self, fact: &Observation) {
        if let Some(tap) = &self.tap {
            tap(fact);
        }
        match fact {
            Observation::ScanDone { scanner, partition, tally } => {
                tracing::debug!(%scanner, %partition, ?tally, "scanned");
                count(*scanner, tally);
            }
            Observation::CycleDone { scanner, elapsed_ms, tally } => {
                self.cycle_done(*scanner, *elapsed_ms, tally);
            }
            Observation::ItemFailed { scanner, partition, item, error } => {
                tracing::warn!(%scanner, %partition, item, error, "{scanner}: an item failed");
                self.record.lock().failed(error, Instant::now());
            }
            Observation::ItemBackedOff { scanner, item, failures, backoff_cycles } => {
                tracing::error!(%scanner, item, failures, backoff_cycles,
                    "{scanner}: an item fails again and again, and is left alone for a while");
            }
            Observation::PoisonSetAside { scanner, partition, member, reason } => {
                let member = String::from_utf8_lossy(member);
                tracing::error!(%scanner, %partition, %member, reason,
                    "{scanner}: an index entry makes no sense, and was set aside");
                counter!(names::SET_ASIDE, "scanner" => scanner.as_str()).increment(1);
            }
            Observation::PartitionFailed { partition, error } => {
                let class = class_name(error.class);
                counter!(names::PARTITION_FAILURES, "class" => class).increment(1);
                self.partition_failed(*partition, error);
            }
            Observation::LibraryMissing { text } => {
                tracing::warn!(error = text, "a server lacks the function library");
                counter!(names::LIBRARY_MISSING).increment(1);
                self.record.lock().library_missing(text, Instant::now());
            }
            Observation::Denied { text } => self.denied(text),
            Observation::CancelBacklog(_)
            | Observation::CancelBacklogPartial
            | Observation::SiblingCancelDispatched { .. }
            | Observation::SiblingCancelled(_)
            | Observation::SiblingReconciled(_) => cancels(fact),
            Observation::Dispatched { .. }
            | Observation::DepthReached { .. }
            | Observation::HandedOver { .. } => dispatch(fact),
            Observation::AnswerIgnored(ticket) => {
                tracing::debug!(?ticket, "an answer came too late");
            }
            Observation::TicketExpired(ticket) => {
                tracing::warn!(?ticket, "a batch got no answer in time");
                counter!(names::TICKETS_EXPIRED).increment(1);
            }
            Observation::Drained => tracing::debug!("everything in flight has ended"),
        }
    }

    /// The store was asked for a sign of life.
    pub(crate) fn pulse(&self, began: Instant, error: Option<&ServerError>) {
        match error {
            None => {
                if let Some(over) = self.record.lock().all_well(began) {
                    tracing::info!(trouble = over, "the store accepts work again");
                }
            }
            Some(error) => match error.class {
                Class::Denied => self.denied(&error.text),
                Class::Silence
                | Class::NotNow
                | Class::Redirect
                | Class::Library
                | Class::Broken => {
                    self.record.lock().failed(&error.text, Instant::now());
                }
            },
        }
    }

    /// A server that is away is told of by its own words. One that answers what cannot be read
    /// has a damaged key, and somebody has to look for it.
    fn partition_failed(&self, partition: Partition, error: &ServerError) {
        tracing::debug!(%partition, %error, "a partition could not be read");
        let mut record = self.record.lock();
        if error.class != Class::Broken {
            record.failed(&error.text, Instant::now());
        } else if record.unreadable(partition, &error.text, Instant::now()) {
            tracing::error!(%partition, error = error.text,
                "a key of this partition cannot be read; `selvedge fsck` names it");
        }
    }

    /// Every partition says the same, again and again; a person wants to read it once.
    fn denied(&self, text: &str) {
        counter!(names::DENIED).increment(1);
        if self.record.lock().refused(text, Instant::now()) {
            tracing::error!(error = text, "the store refuses us; trying on, more slowly");
        }
    }

    fn cycle_done(&self, scanner: ScannerName, elapsed_ms: u64, tally: &Tally) {
        if tally.is_empty() {
            tracing::trace!(%scanner, elapsed_ms, "{scanner}: a cycle with nothing to do");
        } else {
            let (processed, errors) = (tally.processed, tally.errors());
            tracing::info!(%scanner, processed, errors, elapsed_ms, "{scanner}: a cycle");
        }
        counter!(names::SCANNER_CYCLES, "scanner" => scanner.as_str()).increment(1);
        let seconds = std::time::Duration::from_millis(elapsed_ms).as_secs_f64();
        histogram!(names::SCANNER_CYCLE_SECONDS, "scanner" => scanner.as_str()).record(seconds);
        // What was put off is not done: a cycle that skips a dead partition is no progress.
        if tally.deferred == 0 {
            self.record.lock().completed(scanner, Instant::now());
        }
    }
}

fn count(scanner: ScannerName, tally: &Tally) {
    for (result, number) in tally.counts() {
        if number > 0 {
            let labels = [("scanner", scanner.as_str()), ("result", result)];
            counter!(names::CANDIDATES, &labels).increment(number);
        }
    }
    if scanner == ScannerName::LeaseReclaimer {
        counter!(names::RECOVERED).increment(tally.processed);
    }
}

/// The contract's metrics of cancels.
#[expect(clippy::wildcard_enum_match_arm, reason = "the caller sorts; this is about cancels")]
#[expect(clippy::cast_precision_loss, reason = "a gauge is a double; backlogs are small")]
fn cancels(fact: &Observation) {
    match fact {
        Observation::CancelBacklog(depth) => gauge!(names::CANCEL_BACKLOG).set(*depth as f64),
        Observation::CancelBacklogPartial => {
            tracing::debug!(scanner = "cancel_reconciler", "the backlog was not seen whole");
        }
        Observation::SiblingCancelDispatched { reason } => {
            counter!(names::SIBLING_CANCELS, "reason" => *reason).increment(1);
        }
        Observation::SiblingCancelled(disposition) => {
            let label = disposition.as_str();
            counter!(names::SIBLING_DISPOSITIONS, "disposition" => label).increment(1);
        }
        Observation::SiblingReconciled(action) => {
            counter!(names::SIBLING_RECONCILES, "action" => action.as_str()).increment(1);
        }
        _ => {}
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the caller sorts; this is about dispatch")]
fn dispatch(fact: &Observation) {
    match fact {
        Observation::Dispatched { execution, resolved, skipped } => {
            if *resolved > 0 {
                tracing::info!(execution_id = %execution, resolved, skipped_cascade = skipped,
                    "dispatch_dep: edges resolved");
            }
            counter!(names::EDGES_RESOLVED).increment(*resolved);
        }
        Observation::DepthReached { execution } => {
            tracing::warn!(execution_id = %execution, "dispatch_dep: as deep as a cascade may go");
        }
        Observation::HandedOver { execution, reason } => {
            tracing::info!(execution_id = %execution, reason,
                "dispatch_dep: left to the reconciler");
            counter!(names::HANDED_OVER, "reason" => *reason).increment(1);
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
    }
}
