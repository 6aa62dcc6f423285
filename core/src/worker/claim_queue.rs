//! The queue of (lane, partition) pairs to claim from next.
//!
//! Three sources fill it: pushes about executions that became ready, a count of all ready
//! executions after pushes may have been missed, and a slow poll of one pair at a time.

use alloc::collections::btree_map::Entry;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use crate::id::LaneId;
use crate::partition::{Family, Partition};

/// One lane of one partition, to claim executions from.
#[derive(Clone, Debug)]
pub(super) struct ClaimTarget {
    pub(super) lane: LaneId,
    pub(super) partition: Partition,
    /// Claims sent in one round trip; doubles while all of them return an execution.
    pub(super) claims_at_once: usize,
    /// Candidates to skip: an earlier call could claim none of them.
    pub(super) offset: u32,
}

impl ClaimTarget {
    pub(super) fn key(&self) -> TargetKey {
        (self.lane.clone(), self.partition)
    }
}

/// The targets to claim from, in order; each is queued at most once.
#[derive(Clone, Debug)]
pub(super) struct ClaimQueue {
    queue: VecDeque<ClaimTarget>,
    /// The offsets of the queued targets.
    queued: BTreeMap<TargetKey, u32>,
    /// Targets where something became ready while they were queued with an offset: what became
    /// ready may be before that offset.
    restart: BTreeSet<TargetKey>,
    /// Targets where paging through the candidates found nothing to claim. Other workers claim
    /// meanwhile, so candidates move up and paging may skip one. These are polled early.
    revisit: VecDeque<TargetKey>,
    lanes: Vec<LaneId>,
    partitions: u16,
    /// Index of the target that is polled next.
    poll_index: usize,
    /// Whether the last poll took a target from `revisit`.
    polled_revisit: bool,
}

pub(super) type TargetKey = (LaneId, Partition);

impl ClaimQueue {
    /// An empty queue. `start` sets where polling begins.
    pub(super) fn new(lanes: Vec<LaneId>, partitions: u16, start: u64) -> Self {
        let targets = lanes.len() * usize::from(partitions);
        Self {
            queue: VecDeque::new(),
            queued: BTreeMap::new(),
            restart: BTreeSet::new(),
            revisit: VecDeque::new(),
            lanes,
            partitions,
            poll_index: usize::try_from(start).unwrap_or(0) % targets.max(1),
            polled_revisit: false,
        }
    }

    /// Queues a target where something became ready. If it is queued with an offset, it is queued
    /// again from the start afterwards.
    pub(super) fn mark_ready(&mut self, lane: LaneId, partition: Partition) {
        let key = (lane, partition);
        if self.queued.get(&key).is_some_and(|offset| *offset > 0) {
            self.restart.insert(key);
        } else {
            self.push_from_start(key);
        }
    }

    /// Appends a target, unless it is queued already.
    pub(super) fn push(&mut self, target: ClaimTarget) {
        let key = target.key();
        if target.offset == 0 {
            self.restart.remove(&key);
        }
        if let Entry::Vacant(vacant) = self.queued.entry(key) {
            vacant.insert(target.offset);
            self.queue.push_back(target);
        }
    }

    /// Drops a target that has nothing more to claim for now.
    pub(super) fn finish(&mut self, target: ClaimTarget) {
        let key = target.key();
        if self.restart.remove(&key) {
            self.push_from_start(key);
        } else if target.offset > 0 && !self.revisit.contains(&key) {
            self.revisit.push_back(key);
        }
    }

    fn push_from_start(&mut self, (lane, partition): TargetKey) {
        self.push(ClaimTarget { lane, partition, claims_at_once: 1, offset: 0 });
    }

    /// Queues one target to poll: alternately the next one in order and one to revisit.
    pub(super) fn poll_next_target(&mut self) {
        self.polled_revisit = !self.polled_revisit;
        if let Some(key) = self.polled_revisit.then(|| self.revisit.pop_front()).flatten() {
            return self.push_from_start(key);
        }
        if let Some((lane, partition)) = self.target_at(self.poll_index) {
            self.mark_ready(lane, partition);
        }
        self.poll_index = (self.poll_index + 1) % self.target_count().max(1);
    }

    fn target_count(&self) -> usize {
        self.lanes.len() * usize::from(self.partitions)
    }

    fn target_at(&self, index: usize) -> Option<TargetKey> {
        let partitions = usize::from(self.partitions).max(1);
        let partition = u16::try_from(index % partitions).ok()?;
        Some((self.lanes.get(index / partitions)?.clone(), Partition::flow(partition)))
    }

    /// Takes the first target that may be claimed from now.
    pub(super) fn pop(&mut self, may: impl Fn(&ClaimTarget) -> bool) -> Option<ClaimTarget> {
        let at = self.queue.iter().position(may)?;
        let target = self.queue.remove(at)?;
        self.queued.remove(&target.key());
        Some(target)
    }

    /// Whether this is a lane of a partition that the worker serves.
    pub(super) fn serves(&self, lane: &LaneId, partition: Partition) -> bool {
        partition.family == Family::Flow
            && partition.index < self.partitions
            && self.lanes.contains(lane)
    }

    /// Drops all targets.
    pub(super) fn clear(&mut self) {
        self.queue.clear();
        self.queued.clear();
        self.restart.clear();
        self.revisit.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(name: &str) -> LaneId {
        name.parse().unwrap()
    }

    fn target(partition: u16, offset: u32) -> ClaimTarget {
        let partition = Partition::flow(partition);
        ClaimTarget { lane: lane("a"), partition, claims_at_once: 1, offset }
    }

    #[test]
    fn a_target_is_queued_once_and_popped_in_order() {
        let mut queue = ClaimQueue::new(alloc::vec![lane("a")], 4, 0);
        for partition in [2, 1, 2] {
            queue.mark_ready(lane("a"), Partition::flow(partition));
        }
        let order: Vec<u16> = core::iter::from_fn(|| queue.pop(|_| true))
            .map(|target| target.partition.index)
            .collect();
        assert_eq!(order, [2, 1]);
    }

    #[test]
    fn a_target_that_becomes_ready_while_queued_with_an_offset_is_restarted_once() {
        let mut queue = ClaimQueue::new(alloc::vec![lane("a")], 4, 0);
        let mut offsets = Vec::new();
        queue.push(target(1, 64));
        queue.mark_ready(lane("a"), Partition::flow(1));
        for _ in 0..2 {
            let Some(target) = queue.pop(|_| true) else { break };
            offsets.push(target.offset);
            queue.finish(target);
        }
        assert_eq!(offsets, [64, 0]);
        assert!(queue.pop(|_| true).is_none(), "restarted only once");
    }

    #[test]
    fn polling_returns_early_to_a_target_where_paging_found_nothing() {
        let mut queue = ClaimQueue::new(alloc::vec![lane("a")], 4, 0);
        queue.finish(target(3, 64));
        let mut seen = Vec::new();
        for _ in 0..4 {
            queue.poll_next_target();
            seen.extend(queue.pop(|_| true).map(|target| (target.partition.index, target.offset)));
        }
        assert_eq!(seen, [(3, 0), (0, 0), (1, 0), (2, 0)]);
    }

    #[test]
    fn polling_visits_every_lane_and_partition() {
        let mut queue = ClaimQueue::new(alloc::vec![lane("a"), lane("b")], 3, 4);
        for _ in 0..6 {
            queue.poll_next_target();
        }
        let polled: Vec<_> = core::iter::from_fn(|| queue.pop(|_| true))
            .map(|target| (target.lane, target.partition))
            .collect();
        assert_eq!(polled.first(), Some(&(lane("b"), Partition::flow(1))), "begins at `start`");
        assert_eq!(polled.into_iter().collect::<BTreeSet<_>>().len(), 6, "each of them once");
    }
}
