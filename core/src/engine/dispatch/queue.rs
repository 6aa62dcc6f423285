//! The queue of completions: bounded, each execution at most once, and shared out so that no
//! partition holds up the others.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::id::ExecutionId;
use crate::partition::Partition;
use crate::time::LocalTime;

/// An execution whose outgoing edges are to be resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pending {
    pub(super) execution: ExecutionId,
    /// How many skipped ancestors led here.
    pub(super) depth: u32,
}

/// A dispatch that was started.
#[derive(Clone, Debug)]
struct Running {
    execution: ExecutionId,
    started: LocalTime,
}

/// Why [`Queue::push`] did nothing, or that it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pushed {
    Queued,
    /// It is queued or running already; its depth is now the larger of the two.
    Known,
    /// The queue is full.
    Full,
}

#[derive(Debug)]
pub(super) struct Queue {
    concurrency: usize,
    capacity: usize,
    /// Those that wait, by partition, with their place in the order of all. A search over all that
    /// wait would be repeated for every end of a large flow.
    waiting: BTreeMap<Partition, VecDeque<(u64, ExecutionId)>>,
    next_place: u64,
    /// Everything that waits or runs, with its depth.
    known: BTreeMap<ExecutionId, u32>,
    running: BTreeMap<u64, Running>,
    /// How many run on each partition. Every partition may have one, so that those of an
    /// unresponsive node delay no others. Beyond these there are `concurrency` places, and one
    /// partition takes at most half of them.
    running_by_partition: BTreeMap<Partition, usize>,
    /// Those running that have to run once more: an edge may have been added behind their cursor.
    rerun: BTreeSet<ExecutionId>,
    next_id: u64,
}

impl Queue {
    pub(super) fn new(concurrency: usize, capacity: usize) -> Self {
        Self {
            concurrency: concurrency.max(1),
            capacity: capacity.max(1),
            waiting: BTreeMap::new(),
            next_place: 0,
            known: BTreeMap::new(),
            running: BTreeMap::new(),
            running_by_partition: BTreeMap::new(),
            rerun: BTreeSet::new(),
            next_id: 0,
        }
    }

    pub(super) fn push(&mut self, pending: Pending) -> Pushed {
        let Pending { execution, depth } = pending;
        if self.raise_depth(&execution, depth) {
            return Pushed::Known;
        }
        if self.known.len() >= self.capacity {
            return Pushed::Full;
        }
        self.known.insert(execution.clone(), depth);
        self.wait(execution);
        Pushed::Queued
    }

    fn wait(&mut self, execution: ExecutionId) {
        let line = self.waiting.entry(execution.partition()).or_default();
        line.push_back((self.next_place, execution));
        self.next_place += 1;
    }

    /// Gives an execution at least this depth; false when it neither waits nor runs.
    pub(super) fn raise_depth(&mut self, execution: &ExecutionId, depth: u32) -> bool {
        let known = self.known.get_mut(execution);
        known.map(|known| *known = depth.max(*known)).is_some()
    }

    /// Whether an execution waits or runs.
    pub(super) fn is_known(&self, execution: &ExecutionId) -> bool {
        self.known.contains_key(execution)
    }

    /// Runs an execution once more when its present run has ended; nothing if it does not run.
    pub(super) fn rerun(&mut self, execution: &ExecutionId) {
        if self.is_known(execution)
            && self.running.values().any(|running| running.execution == *execution)
        {
            self.rerun.insert(execution.clone());
        }
    }

    /// The next dispatch to start, while there is room.
    pub(super) fn start(&mut self, now: LocalTime) -> Option<(u64, ExecutionId)> {
        let share = (self.concurrency / 2).max(1);
        let has_room = self.running.len() - self.running_by_partition.len() < self.concurrency;
        let may_start = |partition: &Partition| {
            let taken = self.running_by_partition.get(partition).copied().unwrap_or(0);
            taken == 0 || has_room && taken < share
        };
        let lines = self.waiting.iter().filter(|(partition, _)| may_start(partition));
        let first = lines.filter_map(|(partition, line)| Some((line.front()?.0, *partition))).min();
        let (_, partition) = first?;
        let line = self.waiting.get_mut(&partition)?;
        let (_, execution) = line.pop_front()?;
        if line.is_empty() {
            self.waiting.remove(&partition);
        }
        let id = self.next_id;
        self.next_id += 1;
        *self.running_by_partition.entry(execution.partition()).or_default() += 1;
        self.running.insert(id, Running { execution: execution.clone(), started: now });
        Some((id, execution))
    }

    /// Ends a dispatch; returns it, and when it was started.
    pub(super) fn finish(&mut self, id: u64) -> Option<(Pending, LocalTime)> {
        let Running { execution, started } = self.running.remove(&id)?;
        let depth = self.known.remove(&execution).unwrap_or(0);
        let partition = execution.partition();
        match self.running_by_partition.get_mut(&partition) {
            Some(count) if *count > 1 => *count -= 1,
            Some(_) | None => drop(self.running_by_partition.remove(&partition)),
        }
        if self.rerun.remove(&execution) {
            self.known.insert(execution.clone(), depth);
            self.wait(execution.clone());
        }
        Some((Pending { execution, depth }, started))
    }

    /// The largest depth among the dispatches that run on a partition.
    pub(super) fn deepest_running(&self, partition: Partition) -> Option<u32> {
        self.running_by_partition.get(&partition)?;
        let running = self.running.values().map(|running| &running.execution);
        running
            .filter(|execution| execution.partition() == partition)
            .filter_map(|execution| self.known.get(execution).copied())
            .max()
    }

    /// Drops what has not been started.
    pub(super) fn clear_waiting(&mut self) {
        for (_, execution) in core::mem::take(&mut self.waiting).into_values().flatten() {
            self.known.remove(&execution);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const NOW: LocalTime = LocalTime(0);

    fn pending(partition: u16, number: u128) -> Pending {
        let execution = ExecutionId::new(partition, uuid::Uuid::from_u128(number));
        Pending { execution, depth: 7 }
    }

    #[test]
    fn d2_a_rerun_while_running_happens_once_and_at_the_same_depth() {
        let mut queue = Queue::new(4, 4);
        let id = pending(0, 1).execution;
        queue.rerun(&id);
        assert_eq!(queue.push(pending(0, 1)), Pushed::Queued);
        queue.rerun(&id);
        let (first, _) = queue.start(NOW).unwrap();
        // An edge may be applied behind the cursor of the run that is under way.
        queue.rerun(&id);
        queue.rerun(&id);
        assert!(queue.start(NOW).is_none(), "not two at once");
        queue.finish(first);
        let (second, execution) = queue.start(NOW).unwrap();
        assert_eq!(execution, id);
        assert_eq!(queue.finish(second), Some((pending(0, 1), NOW)));
        assert!(queue.start(NOW).is_none(), "what only waits needs no second run");
    }

    #[test]
    fn a_known_execution_keeps_the_larger_depth() {
        let mut queue = Queue::new(4, 4);
        assert_eq!(queue.push(Pending { depth: 3, ..pending(0, 1) }), Pushed::Queued);
        assert_eq!(queue.push(Pending { depth: 9, ..pending(0, 1) }), Pushed::Known);
        assert_eq!(queue.push(Pending { depth: 0, ..pending(0, 1) }), Pushed::Known);
        let (id, _) = queue.start(NOW).unwrap();
        assert_eq!(queue.deepest_running(pending(0, 1).execution.partition()), Some(9));
        assert_eq!(queue.deepest_running(pending(1, 1).execution.partition()), None);
        assert_eq!(queue.push(Pending { depth: 11, ..pending(0, 1) }), Pushed::Known);
        assert_eq!(queue.finish(id).unwrap().0.depth, 11);
    }

    #[test]
    fn every_partition_may_run_one_and_none_takes_more_than_half_of_the_rest() {
        let mut queue = Queue::new(4, 100);
        for (partition, number) in [(0, 1), (0, 2), (0, 3), (1, 4), (1, 5), (2, 6), (2, 7), (3, 8)]
        {
            assert_eq!(queue.push(pending(partition, number)), Pushed::Queued);
        }
        let started: Vec<(u64, u16)> = core::iter::from_fn(|| queue.start(NOW))
            .map(|(id, execution)| (id, execution.partition().index))
            .collect();
        let partitions: Vec<u16> = started.iter().map(|(_, partition)| *partition).collect();
        assert_eq!(partitions, [0, 0, 1, 1, 2, 2, 3], "the third of the first has to wait");
        queue.finish(started[0].0);
        assert!(queue.start(NOW).is_some(), "now it has room");
        assert_eq!(queue.push(pending(4, 9)), Pushed::Queued);
        assert!(queue.start(NOW).is_some(), "the first of a partition always has room");
    }

    #[test]
    fn what_came_first_starts_first_whatever_its_partition() {
        let mut queue = Queue::new(2, 100);
        for (partition, number) in [(5, 1), (0, 2), (5, 3), (3, 4)] {
            assert_eq!(queue.push(pending(partition, number)), Pushed::Queued);
        }
        let started = core::iter::from_fn(|| queue.start(NOW)).map(|(_, id)| id.partition().index);
        assert_eq!(started.collect::<Vec<u16>>(), [5, 0, 3]);
        queue.clear_waiting();
        assert!(!queue.is_known(&pending(5, 3).execution), "what waited is forgotten");
    }

    #[test]
    fn d7_the_queue_is_bounded_and_a_known_execution_takes_no_room() {
        let mut queue = Queue::new(1, 2);
        assert_eq!(queue.push(pending(0, 1)), Pushed::Queued);
        assert_eq!(queue.push(pending(0, 2)), Pushed::Queued);
        assert_eq!(queue.push(pending(0, 2)), Pushed::Known);
        assert_eq!(queue.push(pending(0, 3)), Pushed::Full);
        let (id, _) = queue.start(NOW).unwrap();
        assert!(queue.start(NOW).is_none(), "one at a time");
        queue.finish(id);
        assert_eq!(queue.push(pending(0, 3)), Pushed::Queued, "room again");
    }
}
