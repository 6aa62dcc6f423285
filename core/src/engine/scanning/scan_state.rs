//! The state of scans and cycles: what the running scans have counted, which items failed before,
//! and which partitions a cycle has left.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use super::cadence::{Cadence, ScanEnd};
use super::failure_tracker::{BACKOFF_CYCLES, FAILURES_MAX, FailureTracker};
use super::outcome::{CandidateOutcome, OutcomeKind};
use super::page::PageRequest;
use super::step::ScanScratch;
use crate::call::library::{Page, PageMode};
use crate::engine::observe::{Observation, ScanCounts};
use crate::engine::scanners::{SCANNERS, ScannerName};
use crate::error::Class;
use crate::partition::Partition;
use crate::time::{LocalTime, ServerTime};

/// One scanner at work on one partition.
#[derive(Debug, Default)]
struct RunningScan {
    /// Indexes that are not finished.
    indexes: usize,
    counts: ScanCounts,
    end: ScanEnd,
    /// Size of the scanned indexes; none once one could not be read.
    size: Option<u64>,
}

/// What a scan came to.
#[derive(Debug)]
pub(super) struct FinishedScan {
    pub(super) counts: ScanCounts,
    pub(super) end: ScanEnd,
    size: Option<u64>,
}

/// One scanner's way over all partitions.
#[derive(Debug)]
struct Cycle {
    started: LocalTime,
    partitions_left: BTreeSet<Partition>,
    counts: ScanCounts,
    /// Sum of the index sizes; none once one was unknown.
    size: Option<u64>,
    tracker: FailureTracker,
    scratch: ScanScratch,
    engine_started: LocalTime,
    interval_ms: u64,
}

impl Cycle {
    /// Tracker and scratch count intervals since the engine's start, so that no partition which
    /// cannot be read stops their clock.
    fn tick(&mut self, now: LocalTime) {
        let intervals = (now.0 - self.engine_started.0) / self.interval_ms;
        if self.tracker.advance_to(intervals) {
            self.scratch = ScanScratch::default();
        }
    }
}

#[derive(Debug)]
pub(super) struct ScanStates {
    running: BTreeMap<(usize, Partition), RunningScan>,
    /// One per scanner.
    cycles: Vec<Cycle>,
}

impl ScanStates {
    pub(super) fn new(cadence: &Cadence, now: LocalTime) -> Self {
        let cycles = (0..SCANNERS.len())
            .map(|scanner| Cycle {
                started: now,
                partitions_left: cadence.partitions_of(scanner).collect(),
                counts: ScanCounts::default(),
                size: Some(0),
                tracker: FailureTracker::default(),
                scratch: ScanScratch::default(),
                engine_started: now,
                interval_ms: millis(cadence.interval(scanner)).max(1),
            })
            .collect();
        Self { running: BTreeMap::new(), cycles }
    }

    pub(super) fn scratch(&mut self, scanner: usize) -> &mut ScanScratch {
        &mut self.cycles[scanner].scratch
    }

    /// A scan of so many indexes begins.
    pub(super) fn begin(
        &mut self,
        scanner: usize,
        partition: Partition,
        indexes: usize,
        now: LocalTime,
    ) {
        self.cycles[scanner].tick(now);
        let scan = RunningScan { indexes, size: Some(0), ..RunningScan::default() };
        self.running.insert((scanner, partition), scan);
    }

    pub(super) fn page_read(
        &mut self,
        partition: Partition,
        request: &PageRequest,
        now: ServerTime,
        page: &Page,
    ) {
        let Some(scan) = self.running.get_mut(&(request.scanner, partition)) else { return };
        scan.end.found |= !page.members.is_empty();
        if request.pages_read == 0 {
            scan.size = scan.size.map(|size| size.saturating_add(page.size));
        }
        if request.query.mode == PageMode::Due
            && let Some(next) = page.next
        {
            let now = u64::try_from(now.0).unwrap_or(0);
            let wait = next.saturating_add(request.query.lag_ms).saturating_sub(now);
            scan.end.due_in = earlier(scan.end.due_in, Some(Duration::from_millis(wait)));
        }
    }

    /// A page could not be read: its candidates and the size of its index are unknown.
    pub(super) fn page_failed(&mut self, scanner: usize, partition: Partition) {
        if let Some(scan) = self.running.get_mut(&(scanner, partition)) {
            scan.indexes = scan.indexes.saturating_sub(1);
            scan.size = None;
            scan.counts.deferred += 1;
        }
    }

    /// The scan of one index ends; `unfinished` says that the index goes on, `more_due` that work
    /// waits there.
    pub(super) fn index_done(
        &mut self,
        scanner: usize,
        partition: Partition,
        unfinished: bool,
        more_due: bool,
    ) {
        if let Some(scan) = self.running.get_mut(&(scanner, partition)) {
            scan.end.unfinished |= unfinished;
            scan.end.more_due |= more_due;
            scan.indexes = scan.indexes.saturating_sub(1);
        }
    }

    /// Whether the store does not let this scan act: then going on makes things worse.
    pub(super) fn is_denied(&self, scanner: usize, partition: Partition) -> bool {
        self.running.get(&(scanner, partition)).is_some_and(|scan| scan.end.denied)
    }

    /// Whether the failure tracker wants this item left alone.
    pub(super) fn should_skip(&mut self, scanner: usize, label: &str) -> bool {
        self.cycles[scanner].tracker.should_skip(label)
    }

    /// Counts an outcome, and records it in the failure tracker.
    pub(super) fn count(
        &mut self,
        scanner: usize,
        partition: Partition,
        item: String,
        outcome: &CandidateOutcome,
    ) -> Vec<Observation> {
        let name = SCANNERS[scanner].spec().name;
        let mut observations = Vec::new();
        let mut failure = None;
        let Some(scan) = self.running.get_mut(&(scanner, partition)) else { return observations };
        scan.end.retry_in = earlier(scan.end.retry_in, outcome.retry_in);
        let counts = &mut scan.counts;
        match &outcome.kind {
            OutcomeKind::Processed(work) => counts.processed += u64::from(*work),
            OutcomeKind::Nothing => counts.nothing += 1,
            OutcomeKind::Skipped => counts.skipped += 1,
            OutcomeKind::NotNow(error) => {
                counts.deferred += 1;
                scan.end.denied |= error.class == Class::Denied;
            }
            OutcomeKind::Perhaps(_) => counts.deferred += 1,
            OutcomeKind::Refused(refusal) => {
                counts.refused += 1;
                failure = Some(refusal.to_string());
            }
            OutcomeKind::Failed(error) => {
                counts.failed += 1;
                failure = Some(error.to_string());
            }
            OutcomeKind::Unreadable(reason) => {
                counts.set_aside += 1;
                observations.push(Observation::EntrySetAside {
                    scanner: name,
                    partition,
                    member: item.clone().into_bytes(),
                    reason,
                });
            }
        }
        let tracker = &mut self.cycles[scanner].tracker;
        match failure {
            Some(error) => {
                if tracker.failed(&item) {
                    observations.push(Observation::ItemBackedOff {
                        scanner: name,
                        item: item.clone(),
                        failures: FAILURES_MAX,
                        backoff_cycles: BACKOFF_CYCLES,
                    });
                }
                observations.push(Observation::ItemFailed {
                    scanner: name,
                    partition,
                    item,
                    error,
                });
            }
            None if matches!(outcome.kind, OutcomeKind::Processed(_) | OutcomeKind::Nothing) => {
                tracker.succeeded(&item);
            }
            None => {}
        }
        observations
    }

    /// Takes out a scan whose indexes are all done.
    pub(super) fn take_finished(
        &mut self,
        scanner: usize,
        partition: Partition,
    ) -> Option<FinishedScan> {
        let key = (scanner, partition);
        if self.running.get(&key)?.indexes > 0 {
            return None;
        }
        let RunningScan { counts, mut end, size, .. } = self.running.remove(&key)?;
        // Going on at once only helps where something moves.
        end.more_due &= counts.processed > 0;
        end.idle_candidates =
            if counts.processed > 0 { 0 } else { counts.nothing.saturating_add(counts.skipped) };
        Some(FinishedScan { counts, end, size })
    }

    /// Adds a finished scan to its cycle; the last partition ends the cycle.
    pub(super) fn add_to_cycle(
        &mut self,
        scanner: usize,
        partition: Partition,
        scan: &FinishedScan,
        now: LocalTime,
        cadence: &Cadence,
    ) -> Vec<Observation> {
        let name = SCANNERS[scanner].spec().name;
        let cycle = &mut self.cycles[scanner];
        cycle.counts.add(&scan.counts);
        if cycle.partitions_left.remove(&partition) {
            cycle.size = match (cycle.size, scan.size) {
                (Some(sum), Some(size)) => Some(sum.saturating_add(size)),
                (Some(_) | None, _) => None,
            };
        }
        if !cycle.partitions_left.is_empty() {
            return Vec::new();
        }
        let mut observations = Vec::new();
        if name == ScannerName::CancelReconciler {
            observations.push(match cycle.size {
                Some(sum) => Observation::CancelBacklog(sum),
                None => Observation::CancelBacklogPartial,
            });
        }
        observations.push(Observation::CycleDone {
            scanner: name,
            elapsed_ms: now.0 - cycle.started.0,
            counts: cycle.counts,
        });
        cycle.started = now;
        cycle.partitions_left = cadence.partitions_of(scanner).collect();
        cycle.counts = ScanCounts::default();
        cycle.size = Some(0);
        observations
    }
}

fn earlier(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    [one, other].into_iter().flatten().min()
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::config::EngineConfig;
    use crate::engine::scanners;
    use crate::engine::scanning::cursors::Cursors;
    use crate::engine::scanning::page::first_pages;

    #[test]
    fn an_entry_is_due_after_the_lag_of_its_index() {
        let cadence = Cadence::new(&EngineConfig::default(), 1, LocalTime(0));
        let mut states = ScanStates::new(&cadence, LocalTime(0));
        let (partition, lanes) = (Partition::flow(0), ["default".parse().unwrap()]);
        let scanner = scanners::position(ScannerName::LeaseExpiry);
        let config = EngineConfig::default();
        let pages = first_pages(scanner, partition, &lanes, &Cursors::default(), &config);
        let lagged = pages.iter().find(|page| page.query.lag_ms > 0).unwrap();
        states.begin(scanner, partition, 1, LocalTime(0));
        let page = Page { size: 1, next: Some(9_000), members: Vec::new() };
        states.page_read(partition, lagged, ServerTime(10_000), &page);
        states.index_done(scanner, partition, false, false);
        let due_in = states.take_finished(scanner, partition).unwrap().end.due_in;
        assert_eq!(due_in, Some(Duration::from_millis(lagged.query.lag_ms - 1_000)));
    }
}
