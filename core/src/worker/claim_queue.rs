//! The queue of (lane, partition) pairs to claim from next.
//!
//! Three sources fill it: pushes about executions that became ready, a count of all ready
//! executions after pushes may have been missed, and a slow poll of one pair at a time.
//!
//! The first candidates of a target may be for other workers. Then the next call starts after the
//! last one that was passed over, and so on to the end: a pass. What becomes ready meanwhile may
//! stand before that place, so another pass follows, in which nothing is left out.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use crate::id::{ExecutionId, LaneId};
use crate::partition::{Family, Partition};
use crate::time::LocalTime;

/// One lane of one partition, to claim executions from.
#[derive(Clone, Debug)]
pub(super) struct ClaimTarget {
    pub(super) lane: LaneId,
    pub(super) partition: Partition,
    /// Executions wanted from one call; doubles while every one of them is there.
    pub(super) claims_at_once: usize,
}

impl ClaimTarget {
    pub(super) fn key(&self) -> TargetKey {
        (self.lane.clone(), self.partition)
    }

    /// A target from which one execution is wanted.
    pub(super) fn one((lane, partition): TargetKey) -> Self {
        Self { lane, partition, claims_at_once: 1 }
    }
}

/// The targets to claim from, in order; each is queued at most once.
#[derive(Clone, Debug)]
pub(super) struct ClaimQueue {
    queue: VecDeque<ClaimTarget>,
    /// When each queued target was queued or marked as ready, the last time.
    queued: BTreeMap<TargetKey, u64>,
    /// Counts what is queued and marked as ready.
    stamp: u64,
    /// Targets of which some candidates were passed over, until the last was looked at.
    passes: BTreeMap<TargetKey, Pass>,
    /// Targets that a pass has left. A candidate that was passed over may suit later, when a grant
    /// of another worker has lapsed: these are polled early.
    revisit: VecDeque<TargetKey>,
    lanes: Vec<LaneId>,
    partitions: u16,
    /// Index of the target that is polled next.
    poll_index: usize,
    /// Whether the last poll took a target from `revisit`.
    polled_revisit: bool,
}

pub(super) type TargetKey = (LaneId, Partition);

/// A walk over the candidates of a target, from the first to the last.
#[derive(Clone, Debug)]
struct Pass {
    /// The next call starts after this one.
    after: ExecutionId,
    since: LocalTime,
    /// Calls that found nothing for this worker.
    looks: u32,
    /// Something became ready, perhaps before this place: another pass follows.
    again: bool,
}

impl ClaimQueue {
    /// An empty queue. `start` sets where polling begins.
    pub(super) fn new(lanes: Vec<LaneId>, partitions: u16, start: u64) -> Self {
        let targets = lanes.len() * usize::from(partitions);
        Self {
            queue: VecDeque::new(),
            queued: BTreeMap::new(),
            stamp: 0,
            passes: BTreeMap::new(),
            revisit: VecDeque::new(),
            lanes,
            partitions,
            poll_index: usize::try_from(start).unwrap_or(0) % targets.max(1),
            polled_revisit: false,
        }
    }

    /// Queues a target where something became ready. A pass over it goes on, and is followed by
    /// another one.
    pub(super) fn mark_ready(&mut self, key: TargetKey) {
        if let Some(pass) = self.passes.get_mut(&key) {
            pass.again = true;
        }
        self.push(ClaimTarget::one(key));
    }

    /// Appends a target, unless it is queued already.
    pub(super) fn push(&mut self, target: ClaimTarget) {
        self.stamp += 1;
        if self.queued.insert(target.key(), self.stamp).is_none() {
            self.queue.push_back(target);
        }
    }

    /// After which candidate the next call starts; none if with the first.
    pub(super) fn after(&self, key: &TargetKey) -> Option<ExecutionId> {
        self.passes.get(key).map(|pass| pass.after.clone())
    }

    /// Candidates up to this one were passed over, and nothing was claimed.
    pub(super) fn pass_over(&mut self, key: &TargetKey, last: ExecutionId, now: LocalTime) {
        let pass = self.pass(key, &last, now);
        pass.after = last;
        pass.looks = pass.looks.saturating_add(1);
    }

    /// Something was claimed, perhaps behind candidates that were passed over. The pass goes on,
    /// unless it has lasted for a while and there is something new before its place.
    pub(super) fn claimed(&mut self, key: &TargetKey, last: Option<ExecutionId>, now: LocalTime) {
        if self.passes.get(key).is_some_and(|pass| pass.is_to_begin_again(now)) {
            self.passes.remove(key);
        } else if let Some(last) = last {
            let pass = self.pass(key, &last, now);
            pass.after = last;
        }
    }

    /// This candidate waits for something else, and those behind it can be claimed meanwhile.
    pub(super) fn look_behind(&mut self, key: &TargetKey, last: ExecutionId, now: LocalTime) {
        self.claimed(key, Some(last), now);
    }

    /// The last candidate of a target was looked at. How long to leave it alone if many were
    /// passed over, and whether another pass follows; none if nothing was passed over.
    pub(super) fn end_pass(&mut self, key: &TargetKey) -> Option<(Duration, bool)> {
        let pass = self.passes.remove(key)?;
        if pass.again {
            self.push(ClaimTarget::one(key.clone()));
        } else if !self.revisit.contains(key) {
            self.revisit.push_back(key.clone());
        }
        Some((pass.rest(), pass.again))
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
        if self.queued.get(key).is_some_and(|queued| *queued <= stamp) {
            self.queued.remove(key);
            self.queue.retain(|target| target.partition != key.1 || target.lane != key.0);
        }
    }

    /// Queues one target to poll: alternately the next one in order and one to revisit.
    pub(super) fn poll_next_target(&mut self) {
        self.polled_revisit = !self.polled_revisit;
        if let Some(key) = self.polled_revisit.then(|| self.revisit.pop_front()).flatten() {
            return self.mark_ready(key);
        }
        if let Some(key) = self.target_at(self.poll_index) {
            self.mark_ready(key);
        }
        self.poll_index = (self.poll_index + 1) % self.target_count().max(1);
    }

    /// The pass over a target; it begins if there is none.
    fn pass(&mut self, key: &TargetKey, last: &ExecutionId, now: LocalTime) -> &mut Pass {
        self.passes.entry(key.clone()).or_insert_with(|| Pass::new(last.clone(), now))
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
        self.passes.clear();
        self.revisit.clear();
    }
}

impl Pass {
    const fn new(after: ExecutionId, since: LocalTime) -> Self {
        Self { after, since, looks: 0, again: false }
    }

    /// Whether it has lasted for a while, and something became ready perhaps before its place.
    fn is_to_begin_again(&self, now: LocalTime) -> bool {
        self.again && self.since.after(PASS_MIN + self.rest()) <= now
    }

    /// How long its target is left alone afterwards: in proportion to what it has cost.
    fn rest(&self) -> Duration {
        REST_PER_LOOK.saturating_mul(self.looks.saturating_sub(1)).min(REST_MAX)
    }
}

/// A pass that claims something is not begun again earlier.
const PASS_MIN: Duration = Duration::from_millis(100);
/// A call that found nothing costs the server a millisecond at most: an idle worker takes up a
/// tenth of it at most, however often something becomes ready for others.
const REST_PER_LOOK: Duration = Duration::from_millis(10);
/// What becomes ready for this worker waits no longer than this because of earlier passes.
const REST_MAX: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    fn lane(name: &str) -> LaneId {
        name.parse().unwrap()
    }

    fn key(partition: u16) -> TargetKey {
        (lane("a"), Partition::flow(partition))
    }

    fn target(partition: u16) -> ClaimTarget {
        ClaimTarget::one(key(partition))
    }

    fn execution(number: u8) -> ExecutionId {
        alloc::format!("{{fp:1}}:11111111-1111-4111-8111-1111111111{number:02}").parse().unwrap()
    }

    #[test]
    fn a_target_is_queued_once_and_popped_in_order() {
        let mut queue = ClaimQueue::new(alloc::vec![lane("a")], 4, 0);
        for partition in [2, 1, 2] {
            queue.mark_ready(key(partition));
        }
        let order: Vec<u16> = core::iter::from_fn(|| queue.pop(|_| true))
            .map(|target| target.partition.index)
            .collect();
        assert_eq!(order, [2, 1]);
    }

    #[test]
    fn what_becomes_ready_during_a_pass_neither_ends_it_nor_is_left_out() {
        let mut queue = ClaimQueue::new(alloc::vec![lane("a")], 4, 0);
        queue.pass_over(&key(1), execution(1), LocalTime(0));
        for number in 2..20 {
            queue.mark_ready(key(1));
            assert!(queue.pop(|_| true).is_some());
            queue.pass_over(&key(1), execution(number), LocalTime(0));
            assert_eq!(queue.after(&key(1)), Some(execution(number)), "it goes on");
        }
        assert_eq!(queue.end_pass(&key(1)), Some((REST_PER_LOOK * 18, true)));
        assert!(queue.pop(|_| true).is_some(), "another pass follows");
        assert_eq!(queue.after(&key(1)), None, "from the first candidate on");
        assert_eq!(queue.end_pass(&key(1)), None);
        assert!(queue.pop(|_| true).is_none(), "only one");
    }

    #[test]
    fn a_pass_that_claims_begins_again_after_a_while_if_something_became_ready() {
        for (became_ready, now, goes_on) in
            [(false, 5_000, true), (true, 99, true), (true, 100, false)]
        {
            let mut queue = ClaimQueue::new(alloc::vec![lane("a")], 4, 0);
            queue.claimed(&key(1), Some(execution(1)), LocalTime(0));
            if became_ready {
                queue.mark_ready(key(1));
            }
            queue.claimed(&key(1), None, LocalTime(now));
            assert_eq!(queue.after(&key(1)).is_some(), goes_on, "{became_ready} {now}");
        }
    }

    #[test]
    fn a_target_found_empty_leaves_the_queue_unless_it_became_ready_since() {
        for became_ready in [false, true] {
            let mut queue = ClaimQueue::new(alloc::vec![lane("a")], 4, 0);
            queue.push(target(2));
            queue.push(target(1));
            let sent = queue.stamp();
            queue.mark_ready(key(2));
            if became_ready {
                queue.mark_ready(key(1));
            }
            queue.remove_unchanged(&key(1), sent);
            let left = core::iter::from_fn(|| queue.pop(|_| true));
            let expected: &[u16] = if became_ready { &[2, 1] } else { &[2] };
            assert_eq!(left.map(|target| target.partition.index).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn polling_returns_early_to_a_target_where_a_pass_found_nothing() {
        let mut queue = ClaimQueue::new(alloc::vec![lane("a")], 4, 0);
        queue.pass_over(&key(3), execution(1), LocalTime(0));
        queue.end_pass(&key(3));
        let mut seen = Vec::new();
        for _ in 0..4 {
            queue.poll_next_target();
            seen.extend(queue.pop(|_| true).map(|target| target.partition.index));
        }
        assert_eq!(seen, [3, 0, 1, 2]);
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
        let different: BTreeSet<_> = polled.into_iter().collect();
        assert_eq!(different.len(), 6, "each of them once");
    }
}
