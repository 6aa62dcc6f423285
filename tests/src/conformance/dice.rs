//! [`Dice`]: seeded draws, the same on every machine.

use crate::draws::Draws;

/// Where everything random in a sequence comes from.
#[derive(Clone, Debug)]
pub struct Dice(Draws);

impl Dice {
    /// Dice that roll the same for the same seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Draws::seeded(seed, 0))
    }

    /// Dice that fall as these bytes say.
    #[must_use]
    pub fn given(bytes: &[u8]) -> Self {
        Self(Draws::given(bytes))
    }

    /// Whether given bytes are used up.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.0.is_over()
    }

    /// A number from zero up to but not including `bound`.
    ///
    /// # Panics
    ///
    /// When there is no such number.
    pub fn below(&mut self, bound: usize) -> usize {
        assert!(bound > 0, "nothing to choose from");
        self.0.below(bound)
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
        self.0.bits()
    }
}
