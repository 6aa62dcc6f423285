//! Chance, by name. One seed forks a stream for every purpose and every actor, so that a new draw
//! in one of them does not reshuffle the others.

use std::collections::BTreeMap;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::event::Actor;
use crate::plan::{Seed, Span};

/// What a draw is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Purpose {
    /// What kind of world it is.
    Topology,
    /// How long things are on their way.
    Network,
    /// What servers are free to choose.
    Server,
    /// What actors do.
    Workload,
    /// What goes wrong.
    Faults,
}

/// `hits` times out of `of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    /// How often it happens.
    pub hits: u64,
    /// Out of so many times.
    pub of: u64,
}

/// How often each purpose has drawn.
pub type Draws = BTreeMap<Purpose, u64>;

/// One stream of draws.
pub struct Stream {
    random: ChaCha8Rng,
    draws: u64,
}

impl Stream {
    fn new(seed: Seed, purpose: Purpose, actor: Actor) -> Self {
        let mut key = [0; 32];
        key[..20].copy_from_slice(seed.bytes());
        key[20] = purpose as u8 + 1;
        let (kind, number) = match actor {
            Actor::World => (0, 0),
            Actor::Engine(number) => (1, number),
            Actor::Worker(number) => (2, number),
            Actor::Caller(number) => (3, number),
            Actor::Signaller(number) => (4, number),
            Actor::Foreign(number) => (5, number),
            Actor::Node(number) => (6, number),
        };
        (key[21], key[22]) = (kind, number);
        Self { random: ChaCha8Rng::from_seed(key), draws: 0 }
    }

    /// Any number.
    pub fn any(&mut self) -> u64 {
        self.draws += 1;
        self.random.next_u64()
    }

    /// A number below `bound`; 0 if that is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        let scaled = u128::from(self.any()) * u128::from(bound);
        (scaled >> 64) as u64
    }

    /// A number of a span.
    pub fn within(&mut self, span: Span) -> u64 {
        span.from + self.below(span.to.saturating_sub(span.from).saturating_add(1))
    }

    /// Whether it happens this time.
    pub fn chance(&mut self, ratio: Ratio) -> bool {
        self.below(ratio.of) < ratio.hits
    }

    /// One of these; none if there are none.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        let at = self.below(from.len() as u64);
        from.get(usize::try_from(at).unwrap_or(0))
    }

    /// One of these, by weight; none if all weights are 0.
    pub fn weighted<T: Copy>(&mut self, from: &[(T, u64)]) -> Option<T> {
        let total = from.iter().map(|(_, weight)| weight).sum();
        let mut left = self.below(total);
        for (item, weight) in from {
            if left < *weight {
                return Some(*item);
            }
            left -= weight;
        }
        None
    }

    /// Sixteen bytes.
    pub fn bytes(&mut self) -> [u8; 16] {
        (u128::from(self.any()) << 64 | u128::from(self.any())).to_be_bytes()
    }
}

/// All streams of one run, each made when it is first needed.
pub struct Streams {
    seed: Seed,
    streams: BTreeMap<(Purpose, Actor), Stream>,
}

impl Streams {
    /// The streams of a seed.
    #[must_use]
    pub const fn new(seed: Seed) -> Self {
        Self { seed, streams: BTreeMap::new() }
    }

    /// The stream of one purpose and one actor.
    pub fn of(&mut self, purpose: Purpose, actor: Actor) -> &mut Stream {
        let seed = self.seed;
        let make = || Stream::new(seed, purpose, actor);
        self.streams.entry((purpose, actor)).or_insert_with(make)
    }

    /// How often each purpose has drawn.
    #[must_use]
    pub fn draws(&self) -> Draws {
        let mut draws = Draws::new();
        for ((purpose, _), stream) in &self.streams {
            *draws.entry(*purpose).or_default() += stream.draws;
        }
        draws
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_do_not_disturb_each_other() {
        let mut quiet = Streams::new(Seed::from(7));
        let mut busy = Streams::new(Seed::from(7));
        for _ in 0..10 {
            busy.of(Purpose::Faults, Actor::World).any();
            busy.of(Purpose::Network, Actor::Engine(2)).any();
        }
        let draw = |streams: &mut Streams| streams.of(Purpose::Network, Actor::Engine(1)).any();
        assert_eq!(draw(&mut quiet), draw(&mut busy));
        assert_eq!(busy.draws()[&Purpose::Network], 11);
        assert_ne!(draw(&mut quiet), draw(&mut Streams::new(Seed::from(8))));
    }

    #[test]
    fn draws_keep_to_their_bounds() {
        let mut streams = Streams::new(Seed::from(1));
        let stream = streams.of(Purpose::Workload, Actor::World);
        let span = Span { from: 3, to: 5 };
        let drawn: std::collections::BTreeSet<u64> =
            (0..100).map(|_| stream.within(span)).collect();
        assert_eq!(drawn, (3..=5).collect());
        assert_eq!(stream.below(0), 0);
        assert_eq!(stream.pick::<u8>(&[]), None);
        assert_eq!(stream.weighted(&[('a', 0), ('b', 4)]), Some('b'));
        assert_eq!(stream.weighted(&[('a', 0)]), None);
    }
}
