//! Random draws. A seed has one stream for each purpose and actor, so that an additional draw in
//! one stream does not change the others.

use std::collections::BTreeMap;

use crate::event::Actor;
use crate::plan::Seed;
use crate::search::Draws;

/// What a draw is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Purpose {
    /// The settings of the world.
    Topology,
    /// Delays of links.
    Network,
    /// Choices of servers.
    Server,
    /// What clients do.
    Workload,
    /// Faults.
    Faults,
}

/// The number of draws for each purpose.
pub type DrawCounts = BTreeMap<Purpose, u64>;

/// The stream of one purpose and one actor.
fn stream(seed: Seed, purpose: Purpose, actor: Actor) -> Draws {
    let mut key = [0; 32];
    key[..20].copy_from_slice(seed.bytes());
    key[20] = purpose as u8 + 1;
    let (kind, number) = actor.place();
    (key[21], key[22]) = (kind, number);
    Draws::from_key(key)
}

/// All streams of a run, created on first use.
pub struct RandomStreams {
    seed: Seed,
    streams: BTreeMap<(Purpose, Actor), Draws>,
}

impl RandomStreams {
    /// The streams of a seed.
    #[must_use]
    pub const fn new(seed: Seed) -> Self {
        Self { seed, streams: BTreeMap::new() }
    }

    /// The stream of one purpose and one actor.
    pub fn of(&mut self, purpose: Purpose, actor: Actor) -> &mut Draws {
        let seed = self.seed;
        let make = || stream(seed, purpose, actor);
        self.streams.entry((purpose, actor)).or_insert_with(make)
    }

    /// The number of draws for each purpose.
    #[must_use]
    pub fn counts(&self) -> DrawCounts {
        let mut counts = DrawCounts::new();
        for ((purpose, _), stream) in &self.streams {
            *counts.entry(*purpose).or_default() += stream.count();
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_independent() {
        let mut quiet = RandomStreams::new(Seed::from(7));
        let mut busy = RandomStreams::new(Seed::from(7));
        for _ in 0..10 {
            busy.of(Purpose::Faults, Actor::World).bits();
            busy.of(Purpose::Network, Actor::Engine(2)).bits();
        }
        let draw =
            |streams: &mut RandomStreams| streams.of(Purpose::Network, Actor::Engine(1)).bits();
        assert_eq!(draw(&mut quiet), draw(&mut busy));
        assert_eq!(busy.counts()[&Purpose::Network], 11);
        assert_ne!(draw(&mut quiet), draw(&mut RandomStreams::new(Seed::from(8))));
    }
}
