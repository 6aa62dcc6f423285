//! Where work may be: partitions of lanes that a push, a survey or the slow round pointed at.

use std::collections::{BTreeSet, VecDeque};

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
    queued: BTreeSet<(LaneId, Partition)>,
    lanes: Vec<LaneId>,
    partitions: u16,
    /// Where the slow round goes on.
    next: usize,
}

impl Hot {
    pub(super) fn new(lanes: Vec<LaneId>, partitions: u16, start: u64) -> Self {
        let places = lanes.len() * usize::from(partitions);
        let next = usize::try_from(start).unwrap_or(0) % places.max(1);
        Self { queue: VecDeque::new(), queued: BTreeSet::new(), lanes, partitions, next }
    }

    /// Something became ready there.
    pub(super) fn point_at(&mut self, lane: LaneId, partition: Partition) {
        self.put(Spot { lane, partition, eager: 1, offset: 0 });
    }

    /// Puts a place at the end of the queue, unless it is in it.
    pub(super) fn put(&mut self, spot: Spot) {
        if self.queued.insert((spot.lane.clone(), spot.partition)) {
            self.queue.push_back(spot);
        }
    }

    /// Every place, from where the slow round is: a place of this worker's own, so that workers
    /// that start together do not walk in step.
    pub(super) fn everywhere(&self) -> Vec<(LaneId, Partition)> {
        let places = self.places();
        (0..places).filter_map(|nth| self.place((self.next + nth) % places)).collect()
    }

    /// Takes one more place of the slow round.
    pub(super) fn point_at_next(&mut self) {
        if let Some((lane, partition)) = self.place(self.next) {
            self.point_at(lane, partition);
        }
        self.next = (self.next + 1) % self.places().max(1);
    }

    fn places(&self) -> usize {
        self.lanes.len() * usize::from(self.partitions)
    }

    fn place(&self, at: usize) -> Option<(LaneId, Partition)> {
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
