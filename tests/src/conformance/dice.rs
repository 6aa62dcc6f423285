//! [`Dice`]: seeded draws, the same on every machine.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

/// Where everything random in a sequence comes from.
#[derive(Clone, Debug)]
pub struct Dice(ChaCha8Rng);

impl Dice {
    /// Dice that roll the same for the same seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// A number from zero up to but not including `bound`.
    ///
    /// # Panics
    ///
    /// When there is no such number.
    pub fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).expect("a usize fits into 64 bits");
        usize::try_from(self.0.next_u64() % bound).expect("less than a usize")
    }

    /// True `hits` times out of `of`.
    pub fn chance(&mut self, hits: usize, of: usize) -> bool {
        self.below(of) < hits
    }

    /// One of the choices.
    ///
    /// # Panics
    ///
    /// When there is none.
    pub fn pick<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len())]
    }

    /// All 64 bits at once.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }
}
