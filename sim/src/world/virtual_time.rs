//! Virtual time: the queue of scheduled items, and the loop that takes the next one and advances
//! the clock to it.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use selvedge_core::engine::Input;

use super::World;
use super::random_streams::Purpose;
use crate::actor::ClientWait;
use crate::event::{Actor, Argv, CallId};
use crate::fault::timed::FaultEnd;

/// Something that is scheduled.
pub(crate) enum Scheduled {
    /// A call arrives at its node.
    Arrive { batch: u64, at: usize },
    /// A duplicate of a call arrives at its node.
    ArriveDuplicate { sender: Actor, call: CallId, node: usize, slot: u16, argv: Argv },
    /// The results of a batch arrive at the sender.
    Deliver { batch: u64 },
    /// A client's timeout for a batch ends.
    GiveUp { batch: u64 },
    /// The deadline of an engine.
    Wake { engine: u8, incarnation: u32 },
    /// An input for an engine; for any incarnation of it, if none is given.
    EngineInput { engine: u8, incarnation: Option<u32>, input: Box<Input> },
    /// A dead engine is started again.
    Restart { engine: u8 },
    /// The missing library is loaded.
    Reload { engine: u8 },
    /// The timer of a client.
    Timer { actor: Actor, incarnation: u32, waiting: ClientWait },
    /// A step of the plan.
    Step(usize),
    /// A fault of the plan.
    Fault(usize),
    /// The end of a fault.
    FaultEnd(FaultEnd),
}

impl World {
    /// Advances the clock to the next scheduled item and carries it out, if it is due by
    /// `until_ms`. Returns whether it was.
    pub fn step(&mut self, until_ms: u64) -> bool {
        if self.queue.next_ms().is_none_or(|next| next > until_ms) {
            self.now_ms = until_ms.max(self.now_ms);
            return false;
        }
        let Some((due_ms, scheduled)) = self.queue.pop() else { return false };
        self.now_ms = due_ms.max(self.now_ms);
        match scheduled {
            Scheduled::Arrive { batch, at } => self.arrive(batch, at),
            Scheduled::ArriveDuplicate { sender, call, node, slot, argv } => {
                self.arrive_duplicate(sender, call, node, slot, &argv);
            }
            Scheduled::Deliver { batch } => self.deliver(batch),
            Scheduled::GiveUp { batch } => self.give_up(batch),
            Scheduled::Wake { engine, incarnation } => self.wake(engine, incarnation),
            Scheduled::EngineInput { engine, incarnation, input } => {
                self.engine_input(engine, incarnation, *input)
            }
            Scheduled::Restart { engine } => self.start_engine(engine),
            Scheduled::Reload { engine } => self.reload(engine),
            Scheduled::Timer { actor, incarnation, waiting } => {
                self.timer_fired(actor, incarnation, waiting)
            }
            Scheduled::Step(at) => self.take_step(at),
            Scheduled::Fault(at) => self.inject_timed(at),
            Scheduled::FaultEnd(fault_end) => self.end_fault(fault_end),
        }
        true
    }

    /// Schedules an item.
    pub(crate) fn schedule(&mut self, at_ms: u64, scheduled: Scheduled) {
        let permute = self.plan.config.permute;
        let tie = if permute { self.random(Purpose::Network, Actor::World).bits() } else { 0 };
        self.queue.push(at_ms.max(self.now_ms), tie, scheduled);
    }
}

/// Scheduled items in order of their time. Items with the same time are ordered by their tie value,
/// then in the order in which they were added.
pub struct EventQueue<T> {
    queue: BinaryHeap<Reverse<Slot<T>>>,
    sequence: u64,
}

struct Slot<T> {
    due_ms: u64,
    tie: u64,
    sequence: u64,
    item: T,
}

impl<T> EventQueue<T> {
    /// Adds an item.
    pub fn push(&mut self, due_ms: u64, tie: u64, item: T) {
        self.sequence += 1;
        self.queue.push(Reverse(Slot { due_ms, tie, sequence: self.sequence, item }));
    }

    /// Takes the first item.
    pub fn pop(&mut self) -> Option<(u64, T)> {
        self.queue.pop().map(|Reverse(slot)| (slot.due_ms, slot.item))
    }

    /// All items, in no particular order.
    pub fn items(&self) -> impl Iterator<Item = &T> {
        self.queue.iter().map(|Reverse(slot)| &slot.item)
    }

    /// When the first item is due.
    #[must_use]
    pub fn next_ms(&self) -> Option<u64> {
        self.queue.peek().map(|Reverse(slot)| slot.due_ms)
    }
}

impl<T> Default for EventQueue<T> {
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
    fn items_are_ordered_by_time_then_tie_then_insertion() {
        let mut heap = EventQueue::default();
        for (due, tie, item) in [(5, 0, 'd'), (3, 1, 'b'), (3, 0, 'a'), (3, 1, 'c')] {
            heap.push(due, tie, item);
        }
        assert_eq!(heap.next_ms(), Some(3));
        let order: String = std::iter::from_fn(|| heap.pop().map(|(_, item)| item)).collect();
        assert_eq!(order, "abcd");
    }
}
