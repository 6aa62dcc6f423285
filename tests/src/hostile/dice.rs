//! [`Dice`]: where every choice of a campaign comes from.

use crate::draws::Draws;

/// A source of choices. Each attack has its own, so that any one can be run alone.
#[derive(Debug)]
pub struct Dice(Draws);

impl Dice {
    /// The dice of one attack of a campaign.
    #[must_use]
    pub fn new(seed: u64, attack: u64) -> Self {
        Self(Draws::seeded(seed, attack))
    }

    /// Dice that fall as these bytes say.
    #[must_use]
    pub fn given(bytes: &[u8]) -> Self {
        Self(Draws::given(bytes))
    }

    /// A number below `end`, and 0 when there is none.
    pub fn below(&mut self, end: usize) -> usize {
        self.0.below(end)
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
