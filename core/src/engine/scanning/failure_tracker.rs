//! The failure tracker: items that fail repeatedly are left alone for some cycles, so that they do
//! not take the place of work that can be done.
//!
//! Its clock counts intervals of the scanner, so a partition that cannot be read does not prolong
//! the backoff of any item.

use alloc::collections::BTreeMap;
use alloc::string::String;

/// Failures in a row after which an item is left alone.
pub(super) const FAILURES_MAX: u32 = 3;
/// For how many cycles it is left alone.
pub(super) const BACKOFF_CYCLES: u64 = 10;
/// Cycles after which a failure is forgotten: an item that has not failed again is gone.
const KEPT_CYCLES: u64 = 50;
/// Most items remembered; past it the oldest failures are forgotten first.
const ITEMS_MAX: usize = 10_000;

const _: () = assert!(BACKOFF_CYCLES < KEPT_CYCLES, "a backoff is remembered until its end");

#[derive(Clone, Copy, Debug, Default)]
struct Record {
    failures: u32,
    skip_until: u64,
    /// The cycle of the last failure.
    failed_at: u64,
}

/// Remembers failures of one scanner's items.
#[derive(Clone, Debug, Default)]
pub(super) struct FailureTracker {
    cycle: u64,
    records: BTreeMap<String, Record>,
}

impl FailureTracker {
    /// Moves the clock to `cycle`; it never runs backwards. Says whether it moved.
    pub(super) fn advance_to(&mut self, cycle: u64) -> bool {
        let moved = cycle > self.cycle;
        if moved {
            self.cycle = cycle;
            self.forget_stale();
        }
        moved
    }

    /// Whether to leave `item` alone now. After its backoff it starts with a clean record.
    pub(super) fn should_skip(&mut self, item: &str) -> bool {
        match self.records.get(item) {
            Some(record) if record.failures >= FAILURES_MAX => {
                if record.skip_until > self.cycle {
                    return true;
                }
                self.records.remove(item);
                false
            }
            Some(_) | None => false,
        }
    }

    /// Counts a failure; true when it is the one that starts the backoff.
    pub(super) fn failed(&mut self, item: &str) -> bool {
        if !self.records.contains_key(item) && self.records.len() >= ITEMS_MAX {
            self.forget_oldest();
        }
        let cycle = self.cycle;
        let record = self.records.entry(item.into()).or_default();
        record.failures += 1;
        record.failed_at = cycle;
        let backs_off = record.failures == FAILURES_MAX;
        if backs_off {
            record.skip_until = cycle + BACKOFF_CYCLES;
        }
        backs_off
    }

    /// Forgets an item that succeeded.
    pub(super) fn succeeded(&mut self, item: &str) {
        self.records.remove(item);
    }

    /// Drops items that failed too long ago.
    fn forget_stale(&mut self) {
        let cycle = self.cycle;
        self.records.retain(|_, record| cycle - record.failed_at <= KEPT_CYCLES);
    }

    /// Drops the half that failed longest ago, so that this is rarely needed.
    fn forget_oldest(&mut self) {
        let mut seen: alloc::vec::Vec<u64> = self.records.values().map(|r| r.failed_at).collect();
        seen.sort_unstable();
        let middle = seen[seen.len() / 2];
        let mut surplus = self.records.len() - ITEMS_MAX / 2;
        self.records.retain(|_, record| {
            let drop = surplus > 0 && record.failed_at <= middle;
            surplus -= usize::from(drop);
            !drop
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn the_third_failure_backs_off_for_ten_cycles() {
        let mut tracker = FailureTracker::default();
        tracker.advance_to(5);
        assert!(!tracker.failed("x"));
        assert!(!tracker.failed("x"));
        assert!(!tracker.should_skip("x"));
        assert!(tracker.failed("x"));
        for cycle in 6..15 {
            tracker.advance_to(cycle);
            assert!(tracker.should_skip("x"), "{cycle}");
        }
        tracker.advance_to(15);
        assert!(!tracker.should_skip("x"));
        assert!(!tracker.failed("x"), "a clean record");
    }

    #[test]
    fn success_clears_an_item_and_leaves_others_alone() {
        let mut tracker = FailureTracker::default();
        tracker.failed("x");
        tracker.failed("x");
        tracker.succeeded("x");
        assert!(!tracker.failed("x"));
        assert!(!tracker.should_skip("y"));
    }

    #[test]
    fn memory_is_bounded_and_keeps_the_latest() {
        let mut tracker = FailureTracker::default();
        for n in 0..(ITEMS_MAX as u64 * 2) {
            tracker.advance_to(n / 1_000);
            tracker.failed(&n.to_string());
            assert!(tracker.records.len() <= ITEMS_MAX);
        }
        let last = (ITEMS_MAX as u64 * 2 - 1).to_string();
        tracker.failed(&last);
        assert!(tracker.failed(&last), "the newest was remembered");
    }

    #[test]
    fn f6_items_that_vanished_are_forgotten_and_no_count_is_reset() {
        let mut tracker = FailureTracker::default();
        for n in 0..400 {
            tracker.failed(&alloc::format!("gone-{n}"));
        }
        for cycle in 1..=120 {
            tracker.advance_to(cycle);
            // Failures far apart still add up.
            if [40, 48, 56].contains(&cycle) {
                assert_eq!(tracker.failed("slow"), cycle == 56, "in cycle {cycle}");
            }
        }
        assert_eq!(tracker.records.len(), 0, "no item is remembered for ever");
    }
}
