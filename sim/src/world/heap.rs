//! Virtual time: what is to happen, in the order in which it is due.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// What is to happen. Of two things due at the same time the one with the lower tie comes first,
/// then the one that was put in first.
pub struct Heap<T> {
    queue: BinaryHeap<Reverse<Slot<T>>>,
    sequence: u64,
}

struct Slot<T> {
    due_ms: u64,
    tie: u64,
    sequence: u64,
    item: T,
}

impl<T> Heap<T> {
    /// Puts something in.
    pub fn push(&mut self, due_ms: u64, tie: u64, item: T) {
        self.sequence += 1;
        self.queue.push(Reverse(Slot { due_ms, tie, sequence: self.sequence, item }));
    }

    /// Takes what is due first.
    pub fn pop(&mut self) -> Option<(u64, T)> {
        self.queue.pop().map(|Reverse(slot)| (slot.due_ms, slot.item))
    }

    /// Everything in it, in no order.
    pub fn items(&self) -> impl Iterator<Item = &T> {
        self.queue.iter().map(|Reverse(slot)| &slot.item)
    }

    /// When the first thing is due.
    #[must_use]
    pub fn next_ms(&self) -> Option<u64> {
        self.queue.peek().map(|Reverse(slot)| slot.due_ms)
    }
}

impl<T> Default for Heap<T> {
    fn default() -> Self {
        Self { queue: BinaryHeap::new(), sequence: 0 }
    }
}

impl<T> Slot<T> {
    const fn key(&self) -> (u64, u64, u64) {
        (self.due_ms, self.tie, self.sequence)
    }
}

impl<T> PartialEq for Slot<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for Slot<T> {}

impl<T> PartialOrd for Slot<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Slot<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_orders_then_ties_then_arrival() {
        let mut heap = Heap::default();
        for (due, tie, item) in [(5, 0, 'd'), (3, 1, 'b'), (3, 0, 'a'), (3, 1, 'c')] {
            heap.push(due, tie, item);
        }
        assert_eq!(heap.next_ms(), Some(3));
        let order: String = std::iter::from_fn(|| heap.pop().map(|(_, item)| item)).collect();
        assert_eq!(order, "abcd");
    }
}
