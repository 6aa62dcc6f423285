//! All timers of a worker in one table: what is due, and when.

use alloc::collections::{BTreeMap, BTreeSet};

use crate::time::LocalTime;

/// At most one time for each key.
#[derive(Clone, Debug)]
pub(super) struct Timers<K> {
    by_time: BTreeSet<(LocalTime, K)>,
    by_key: BTreeMap<K, LocalTime>,
}

impl<K: Clone + Ord> Timers<K> {
    pub(super) const fn new() -> Self {
        Self { by_time: BTreeSet::new(), by_key: BTreeMap::new() }
    }

    /// Sets the time of a key, in place of an earlier one.
    pub(super) fn set(&mut self, key: K, at: LocalTime) {
        if let Some(before) = self.by_key.insert(key.clone(), at) {
            self.by_time.remove(&(before, key.clone()));
        }
        self.by_time.insert((at, key));
    }

    pub(super) fn clear(&mut self, key: &K) {
        if let Some(at) = self.by_key.remove(key) {
            self.by_time.remove(&(at, key.clone()));
        }
    }

    /// Takes the first key that is due.
    pub(super) fn take_due(&mut self, now: LocalTime) -> Option<K> {
        if self.by_time.first()?.0 > now {
            return None;
        }
        let (_, key) = self.by_time.pop_first()?;
        self.by_key.remove(&key);
        Some(key)
    }

    pub(super) fn is_set(&self, key: &K) -> bool {
        self.by_key.contains_key(key)
    }

    /// When the first key is due.
    pub(super) fn next(&self) -> Option<LocalTime> {
        self.by_time.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_time_and_is_taken_when_it_is_due() {
        let mut timers = Timers::new();
        timers.set('a', LocalTime(5));
        timers.set('b', LocalTime(3));
        timers.set('a', LocalTime(2));
        timers.set('c', LocalTime(1));
        timers.clear(&'c');
        assert_eq!(timers.next(), Some(LocalTime(2)));
        assert_eq!(timers.take_due(LocalTime(1)), None);
        assert_eq!(timers.take_due(LocalTime(9)), Some('a'));
        assert_eq!(timers.take_due(LocalTime(9)), Some('b'));
        assert_eq!(timers.take_due(LocalTime(9)), None);
    }
}
