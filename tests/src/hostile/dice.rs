//! [`Dice`]: where every choice of a campaign comes from.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

/// A seeded source of choices. Each attack has its own, so that any one can be run alone.
#[derive(Debug)]
pub struct Dice(ChaCha8Rng);

impl Dice {
    /// The dice of one attack of a campaign.
    #[must_use]
    pub fn new(seed: u64, attack: u64) -> Self {
        let mut source = ChaCha8Rng::seed_from_u64(seed);
        source.set_stream(attack);
        Self(source)
    }

    /// A number below `end`, and 0 when there is none.
    pub fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.0.next_u64() % end).unwrap_or(0)
    }

    /// True so many times in a hundred.
    pub fn percent(&mut self, hits: usize) -> bool {
        self.below(100) < hits
    }

    /// One of some, if there is any.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        of.get(self.below(of.len()))
    }
}
