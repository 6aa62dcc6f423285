//! What pushes and other parts of the engine say about where to look, and when.

use alloc::string::ToString;
use alloc::vec::Vec;
use core::time::Duration;

use super::Scanning;
use crate::engine::scanners::{self, SCANNERS, ScannerName, Source};
use crate::id::QuotaPolicyId;
use crate::partition::Partition;
use crate::time::LocalTime;

/// How long a visit that a push asks for is put off: one visit serves all pushes of that time.
const EXPEDITE_DELAY: Duration = Duration::from_millis(20);

/// The same for a push that says that something is due.
const DUE_DELAY: Duration = Duration::from_millis(5);

/// How soon the dependency reconciler looks after what dispatch handed over.
const HAND_OVER_PAUSE: Duration = Duration::from_millis(500);

impl Scanning {
    /// Something is held on a partition. The slot that it lacked may have become free between its
    /// refusal and now, so that no further message comes: look once for all that is held.
    pub(in crate::engine) fn execution_held(&mut self, now: LocalTime, partition: Partition) {
        let scanner = scanners::position(ScannerName::Unblock);
        self.cadence.mark_occupied(partition, scanner);
        self.cadence.expedite(now.after(EXPEDITE_DELAY), partition, scanner);
    }

    /// A slot is free: looks for executions that wait for it, wherever some are known to wait.
    pub(in crate::engine) fn slot_freed(&mut self, now: LocalTime, quota: QuotaPolicyId) {
        let scanner = scanners::position(ScannerName::Unblock);
        self.states.scratch(scanner).reset_prefix(&quota.to_string());
        for partition in self.cadence.occupied(scanner) {
            self.cadence.expedite(now.after(EXPEDITE_DELAY), partition, scanner);
        }
    }

    /// Something is due on a partition after a time. Whatever pushes tell of is looked at then.
    pub(in crate::engine) fn due_soon(
        &mut self,
        now: LocalTime,
        partition: Partition,
        wait: Duration,
    ) {
        let at = now.after(wait.max(DUE_DELAY));
        for (scanner, of) in SCANNERS.iter().enumerate() {
            if of.spec().sources.iter().any(Source::is_told) {
                self.cadence.expedite(at, partition, scanner);
            }
        }
    }

    /// Pushes may have been missed: every partition is visited, and the dependency reconciler goes
    /// through all its indexes, from the front and now.
    pub(in crate::engine) fn pushes_missed(&mut self, now: LocalTime) {
        for scanner in SCANNERS.iter().map(|scanner| scanner.spec()) {
            if scanner.sources.iter().any(Source::is_told) {
                self.expedite_everywhere(now.after(EXPEDITE_DELAY), scanner.name);
            }
        }
        let scanner = scanners::position(ScannerName::DependencyReconciler);
        let partitions: Vec<Partition> = self.cadence.partitions_of(scanner).collect();
        for partition in partitions {
            self.cursors.restart(scanner, partition);
            self.cadence.start_full_pass(now, partition, scanner);
        }
    }

    /// Dispatch left work on a partition to the dependency reconciler.
    pub(in crate::engine) fn dispatch_handed_over(&mut self, now: LocalTime, partition: Partition) {
        let scanner = scanners::position(ScannerName::DependencyReconciler);
        self.cadence.expedite(now.after(HAND_OVER_PAUSE), partition, scanner);
    }

    /// The library was loaded: whatever failed for want of it is tried now.
    pub(in crate::engine) fn library_loaded(&mut self, now: LocalTime) {
        self.audits.forget();
        for &name in ScannerName::ALL {
            self.expedite_everywhere(now, name);
        }
    }

    pub(super) fn expedite_everywhere(&mut self, now: LocalTime, name: ScannerName) {
        let scanner = scanners::position(name);
        let partitions: Vec<Partition> = self.cadence.partitions_of(scanner).collect();
        for partition in partitions {
            self.cadence.expedite(now, partition, scanner);
        }
    }
}
