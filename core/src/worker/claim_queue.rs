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
    /// Executions wanted from one call; doubles while every one of them is there.
    pub(super) claims_at_once: usize,
    /// Candidates to skip: an earlier call could claim none of them.
    pub(super) offset: u32,
}

impl ClaimTarget {
    pub(super) fn key(&self) -> TargetKey {
        (self.lane.clone(), self.partition)
    }

    /// A target, from its first candidate on.
    pub(super) fn whole((lane, partition): TargetKey) -> Self {
        Self { lane, partition, claims_at_once: 1, offset: 0 }
    }

    /// The same target, from behind its first candidate on.
    pub(super) fn behind(self) -> Self {
        Self { offset: self.offset.saturating_add(1), claims_at_once: 1, ..self }
    }
}

/// The targets to claim from, in order; each is queued at most once.
#[derive(Clone, Debug)]
pub(super) struct ClaimQueue {
    queue: VecDeque<ClaimTarget>,
    queued: BTreeMap<TargetKey, Queued>,
    /// Counts what is queued and marked as ready.
    stamp: u64,
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

/// What is known of a queued target.
#[derive(Clone, Copy, Debug)]
struct Queued {
    offset: u32,
    /// When it was queued or marked as ready, the last time.
    stamp: u64,
}

impl ClaimQueue {
    /// An empty queue. `start` sets where polling begins.
    pub(super) fn new(lanes: Vec<LaneId>, partitions: u16, start: u64) -> Self {
        let targets = lanes.len() * usize::from(partitions);
        Self {
            queue: VecDeque::new(),
            queued: BTreeMap::new(),
            stamp: 0,
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
    pub(super) fn mark_ready(&mut self, key: TargetKey) {
        self.stamp += 1;
        match self.queued.get_mut(&key) {
            Some(queued) if queued.offset > 0 => {
                self.restart.insert(key);
            }
            Some(queued) => queued.stamp = self.stamp,
            None => self.push_from_start(key),
        }
    }

    /// Appends a target, unless it is queued already.
    pub(super) fn push(&mut self, target: ClaimTarget) {
        let key = target.key();
        if target.offset == 0 {
            self.restart.remove(&key);
        }
        self.stamp += 1;
        match self.queued.entry(key) {
            Entry::Vacant(vacant) => {
                vacant.insert(Queued { offset: target.offset, stamp: self.stamp });
                self.queue.push_back(target);
            }
            Entry::Occupied(mut occupied) => occupied.get_mut().stamp = self.stamp,
        }
    }

    /// Puts a queued target behind all others.
    pub(super) fn move_to_back(&mut self, key: &TargetKey) {
        let is_it = |target: &ClaimTarget| target.partition == key.1 && target.lane == key.0;
        if self.queued.contains_key(key)
            && let Some(at) = self.queue.iter().position(is_it)
            && let Some(target) = self.queue.remove(at)
        {
            self.queue.push_back(target);
        }
    }

    /// Takes a target out that a call found without anything to claim, unless something became
    /// ready since `stamp`, when that call was sent.
    pub(super) fn remove_unchanged(&mut self, key: &TargetKey, stamp: u64) {
        if self.queued.get(key).is_some_and(|queued| queued.stamp <= stamp) {
            self.queued.remove(key);
            self.queue.retain(|target| target.partition != key.1 || target.lane != key.0);
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

    fn push_from_start(&mut self, key: TargetKey) {
        self.push(ClaimTarget::whole(key));
    }

    /// Queues one target to poll: alternately the next one in order and one to revisit.
    pub(super) fn poll_next_target(&mut self) {
        self.polled_revisit = !self.polled_revisit;
        if let Some(key) = self.polled_revisit.then(|| self.revisit.pop_front()).flatten() {
            return self.push_from_start(key);
        }
        if let Some(key) = self.target_at(self.poll_index) {
            self.mark_ready(key);
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

    /// Whether a queued target is like this.
    pub(super) fn any(&self, is: impl Fn(&ClaimTarget) -> bool) -> bool {
        self.queue.iter().any(is)
    }

    /// Whether this target is queued with candidates to skip.
    pub(super) fn is_paging(&self, key: &TargetKey) -> bool {
        self.queued.get(key).is_some_and(|queued| queued.offset > 0)
    }

    /// A number that grows with everything that is queued or marked as ready.
    pub(super) const fn stamp(&self) -> u64 {
        self.stamp
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
            queue.mark_ready((lane("a"), Partition::flow(partition)));
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
        queue.mark_ready((lane("a"), Partition::flow(1)));
        for _ in 0..2 {
            let Some(target) = queue.pop(|_| true) else { break };
            offsets.push(target.offset);
            queue.finish(target);
        }
        assert_eq!(offsets, [64, 0]);
        assert!(queue.pop(|_| true).is_none(), "restarted only once");
    }

    #[test]
    fn a_target_found_empty_leaves_the_queue_unless_it_became_ready_since() {
        for became_ready in [false, true] {
            let mut queue = ClaimQueue::new(alloc::vec![lane("a")], 4, 0);
            queue.push(target(2, 0));
            queue.push(target(1, 0));
            let sent = queue.stamp();
            queue.mark_ready((lane("a"), Partition::flow(2)));
            if became_ready {
                queue.mark_ready((lane("a"), Partition::flow(1)));
            }
            queue.remove_unchanged(&(lane("a"), Partition::flow(1)), sent);
            let left = core::iter::from_fn(|| queue.pop(|_| true));
            let expected: &[u16] = if became_ready { &[2, 1] } else { &[2] };
            assert_eq!(left.map(|target| target.partition.index).collect::<Vec<_>>(), expected);
        }
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
