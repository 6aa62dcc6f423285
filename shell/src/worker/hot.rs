//! Where work may be: partitions of lanes that a push, a survey or the slow round pointed at.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use selvedge_core::id::LaneId;
use selvedge_core::partition::Partition;

/// A place to claim from.
#[derive(Clone, Debug)]
pub(super) struct Spot {
    pub(super) lane: LaneId,
    pub(super) partition: Partition,
    /// How many claims go there at once: doubles while all of them find something.
    pub(super) eager: usize,
    /// Candidates to pass over, because an earlier call found none among them.
    pub(super) offset: u32,
}

/// The queue of such places, each in it once.
pub(super) struct Hot {
    queue: VecDeque<Spot>,
    /// The offsets of what is queued.
    queued: BTreeMap<Place, u32>,
    /// Where something became ready while a walk was past the front.
    again: BTreeSet<Place>,
    /// Where a walk of several steps found nothing. Others claim meanwhile, whole windows move up,
    /// and a walk may step over what it would have taken: so it is looked at again before long.
    passed: VecDeque<Place>,
    lanes: Vec<LaneId>,
    partitions: u16,
    /// Where the slow round goes on.
    next: usize,
    /// Whether its last step went to a place that was passed.
    detour: bool,
}

type Place = (LaneId, Partition);

impl Hot {
    pub(super) fn new(lanes: Vec<LaneId>, partitions: u16, start: u64) -> Self {
        let places = lanes.len() * usize::from(partitions);
        Self {
            queue: VecDeque::new(),
            queued: BTreeMap::new(),
            again: BTreeSet::new(),
            passed: VecDeque::new(),
            lanes,
            partitions,
            next: usize::try_from(start).unwrap_or(0) % places.max(1),
            detour: false,
        }
    }

    /// Something became ready there. It may stand before the step that a walk has come to: then
    /// another walk follows.
    pub(super) fn point_at(&mut self, lane: LaneId, partition: Partition) {
        let place = (lane, partition);
        if self.queued.get(&place).is_some_and(|offset| *offset > 0) {
            self.again.insert(place);
        } else {
            self.begin(place);
        }
    }

    /// Puts a place at the end of the queue, unless it is in it.
    pub(super) fn put(&mut self, spot: Spot) {
        let place = (spot.lane.clone(), spot.partition);
        if spot.offset == 0 {
            self.again.remove(&place);
        }
        if let Entry::Vacant(vacant) = self.queued.entry(place) {
            vacant.insert(spot.offset);
            self.queue.push_back(spot);
        }
    }

    /// Nothing more was found there.
    pub(super) fn leave(&mut self, spot: Spot) {
        let place = (spot.lane, spot.partition);
        if self.again.remove(&place) {
            self.begin(place);
        } else if spot.offset > 0 && !self.passed.contains(&place) {
            self.passed.push_back(place);
        }
    }

    fn begin(&mut self, (lane, partition): Place) {
        self.put(Spot { lane, partition, eager: 1, offset: 0 });
    }

    /// Every place, from where the slow round is: a place of this worker's own, so that workers
    /// that start together do not walk in step.
    pub(super) fn everywhere(&self) -> Vec<Place> {
        let places = self.places();
        (0..places).filter_map(|nth| self.place((self.next + nth) % places)).collect()
    }

    /// Takes one more place of the slow round, or one that was passed, in turn.
    pub(super) fn point_at_next(&mut self) {
        self.detour = !self.detour;
        if let Some(place) = self.detour.then(|| self.passed.pop_front()).flatten() {
            return self.begin(place);
        }
        if let Some((lane, partition)) = self.place(self.next) {
            self.point_at(lane, partition);
        }
        self.next = (self.next + 1) % self.places().max(1);
    }

    fn places(&self) -> usize {
        self.lanes.len() * usize::from(self.partitions)
    }

    fn place(&self, at: usize) -> Option<Place> {
        let partitions = usize::from(self.partitions).max(1);
        let partition = u16::try_from(at % partitions).ok()?;
        Some((self.lanes.get(at / partitions)?.clone(), Partition::flow(partition)))
    }

    pub(super) fn take(&mut self) -> Option<Spot> {
        let spot = self.queue.pop_front()?;
        self.queued.remove(&(spot.lane.clone(), spot.partition));
        Some(spot)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(name: &str) -> LaneId {
        name.parse().unwrap()
    }

    #[test]
    fn a_place_is_queued_once_and_taken_in_order() {
        let mut hot = Hot::new(vec![lane("a")], 4, 0);
        for partition in [2, 1, 2] {
            hot.point_at(lane("a"), Partition::flow(partition));
        }
        let order: Vec<u16> =
            std::iter::from_fn(|| hot.take()).map(|spot| spot.partition.index).collect();
        assert_eq!(order, [2, 1]);
    }

    #[test]
    fn what_became_ready_behind_a_walk_is_looked_for_when_it_has_ended() {
        let mut hot = Hot::new(vec![lane("a")], 4, 0);
        let place =
            |offset| Spot { lane: lane("a"), partition: Partition::flow(1), eager: 1, offset };
        let mut offsets = Vec::new();
        hot.put(place(64));
        hot.point_at(lane("a"), Partition::flow(1));
        for _ in 0..2 {
            let Some(spot) = hot.take() else { break };
            offsets.push(spot.offset);
            hot.leave(spot);
        }
        assert_eq!(offsets, [64, 0]);
        assert!(hot.is_empty(), "one more look is enough");
    }

    #[test]
    fn the_slow_round_comes_back_early_to_where_a_walk_found_nothing() {
        let mut hot = Hot::new(vec![lane("a")], 4, 0);
        let last = Spot { lane: lane("a"), partition: Partition::flow(3), eager: 1, offset: 64 };
        hot.leave(last);
        let mut seen = Vec::new();
        for _ in 0..4 {
            hot.point_at_next();
            seen.extend(hot.take().map(|spot| (spot.partition.index, spot.offset)));
        }
        assert_eq!(seen, [(3, 0), (0, 0), (1, 0), (2, 0)]);
    }

    #[test]
    fn the_slow_round_visits_every_lane_and_partition() {
        let mut hot = Hot::new(vec![lane("a"), lane("b")], 3, 4);
        let all = hot.everywhere();
        assert_eq!(all.first(), Some(&(lane("b"), Partition::flow(1))), "from its own place on");
        for _ in 0..6 {
            hot.point_at_next();
        }
        let round: Vec<_> =
            std::iter::from_fn(|| hot.take()).map(|spot| (spot.lane, spot.partition)).collect();
        assert_eq!(round, all);
        assert_eq!(round.into_iter().collect::<BTreeSet<_>>().len(), 6, "each of them once");
    }
}
