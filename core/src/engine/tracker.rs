//! The failure tracker: what fails again and again is left alone for a while, so that it does not
//! take the place of what could be done.
//!
//! Its clock counts the scanner's intervals, whatever any partition does: a partition that cannot
//! be read freezes nobody's backoff.

use alloc::collections::BTreeMap;
use alloc::string::String;

/// Failures in a row after which an item is left alone.
pub const FAILURES_MAX: u32 = 3;
/// For how many cycles it is left alone.
pub const BACKOFF_CYCLES: u64 = 10;
/// For how many cycles a failure is remembered: whoever has not failed again by then is gone.
pub const KEPT_CYCLES: u64 = 50;
/// Most items remembered; past it the oldest news goes first.
pub const ITEMS_MAX: usize = 10_000;

const _: () = assert!(BACKOFF_CYCLES < KEPT_CYCLES, "no backoff may be forgotten before its end");

#[derive(Clone, Copy, Debug, Default)]
struct Record {
    failures: u32,
    skip_until: u64,
    /// The cycle of the last failure; decides who is forgotten first.
    seen: u64,
}

/// Remembers failures of one scanner's items.
#[derive(Clone, Debug, Default)]
pub struct Tracker {
    cycle: u64,
    records: BTreeMap<String, Record>,
}

impl Tracker {
    /// Moves the clock to `cycle`; it never runs backwards. Says whether it moved.
    pub fn advance_to(&mut self, cycle: u64) -> bool {
        let moved = cycle > self.cycle;
        if moved {
            self.cycle = cycle;
            self.forget_stale();
        }
        moved
    }

    /// Whether to leave `item` alone now. When its time is over it starts with a clean slate.
    pub fn should_skip(&mut self, item: &str) -> bool {
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

    /// Counts a failure; says so when it is the one that makes us leave the item alone.
    pub fn failed(&mut self, item: &str) -> bool {
        if !self.records.contains_key(item) && self.records.len() >= ITEMS_MAX {
            self.forget_oldest();
        }
        let cycle = self.cycle;
        let record = self.records.entry(item.into()).or_default();
        record.failures += 1;
        record.seen = cycle;
        let tired = record.failures == FAILURES_MAX;
        if tired {
            record.skip_until = cycle + BACKOFF_CYCLES;
        }
        tired
    }

    /// Forgets an item that went well.
    pub fn succeeded(&mut self, item: &str) {
        self.records.remove(item);
    }

    /// How many items are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Drops those that nobody has met for long.
    fn forget_stale(&mut self) {
        let cycle = self.cycle;
        self.records.retain(|_, record| cycle - record.seen <= KEPT_CYCLES);
    }

    /// Drops the half that failed longest ago, so that the next drop is far away.
    fn forget_oldest(&mut self) {
        let mut seen: alloc::vec::Vec<u64> = self.records.values().map(|r| r.seen).collect();
        seen.sort_unstable();
        let middle = seen[seen.len() / 2];
        let mut surplus = self.records.len() - ITEMS_MAX / 2;
        self.records.retain(|_, record| {
            let drop = surplus > 0 && record.seen <= middle;
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
        let mut tracker = Tracker::default();
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
        assert!(!tracker.failed("x"), "the slate is clean");
    }

    #[test]
    fn success_clears_and_others_do_not_matter() {
        let mut tracker = Tracker::default();
        tracker.failed("x");
        tracker.failed("x");
        tracker.succeeded("x");
        assert!(!tracker.failed("x"));
        assert!(!tracker.should_skip("y"));
    }

    #[test]
    fn memory_is_bounded_and_keeps_the_latest() {
        let mut tracker = Tracker::default();
        for n in 0..(ITEMS_MAX as u64 * 2) {
            tracker.advance_to(n / 1_000);
            tracker.failed(&n.to_string());
            assert!(tracker.len() <= ITEMS_MAX);
        }
        let last = (ITEMS_MAX as u64 * 2 - 1).to_string();
        tracker.failed(&last);
        assert!(tracker.failed(&last), "the newest was remembered");
    }
}
