//! [`Draws`]: where choices come from, a seed or the bytes of a fuzzer.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

/// A source of choices that gives the same ones every time.
#[derive(Clone, Debug)]
pub struct Draws(Source);

#[derive(Clone, Debug)]
enum Source {
    Seeded(Box<ChaCha8Rng>),
    Given(std::vec::IntoIter<u8>),
}

impl Draws {
    /// Draws without end; each stream of a seed has its own.
    #[must_use]
    pub fn seeded(seed: u64, stream: u64) -> Self {
        let mut source = ChaCha8Rng::seed_from_u64(seed);
        source.set_stream(stream);
        Self(Source::Seeded(Box::new(source)))
    }

    /// Draws that somebody else has chosen; when they are used up, every draw is zero.
    ///
    /// So a fuzzer steers whatever takes its choices from here, and a small change of its bytes is
    /// a small change of what comes of them.
    #[must_use]
    pub fn given(bytes: &[u8]) -> Self {
        Self(Source::Given(Vec::from(bytes).into_iter()))
    }

    /// All 64 bits at once.
    pub fn bits(&mut self) -> u64 {
        match &mut self.0 {
            Source::Seeded(source) => source.next_u64(),
            Source::Given(bytes) => take(bytes, 8),
        }
    }

    /// A number below `end`, and 0 when there is none.
    pub fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap_or(u64::MAX).max(1);
        let drawn = match &mut self.0 {
            Source::Seeded(source) => source.next_u64(),
            // No more bytes than the choice needs, or none where there is no choice.
            Source::Given(bytes) => take(bytes, (64 - (end - 1).leading_zeros()).div_ceil(8)),
        };
        usize::try_from(drawn % end).unwrap_or(0)
    }

    /// Whether given draws are used up; a seed never is.
    #[must_use]
    pub fn is_over(&self) -> bool {
        match &self.0 {
            Source::Seeded(_) => false,
            Source::Given(bytes) => bytes.as_slice().is_empty(),
        }
    }
}

fn take(bytes: &mut std::vec::IntoIter<u8>, count: u32) -> u64 {
    (0..count).fold(0, |number, _| (number << 8) | u64::from(bytes.next().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_draws_take_no_more_than_they_need() {
        let mut draws = Draws::given(&[7, 1, 2, 9]);
        assert_eq!(draws.below(1), 0);
        assert_eq!(draws.below(5), 2);
        assert_eq!(draws.below(65_536), 258);
        assert_eq!(draws.below(256), 9);
        assert!(draws.is_over());
        assert_eq!((draws.below(100), draws.bits()), (0, 0));
    }

    #[test]
    fn a_seed_gives_the_same_draws_again_and_other_ones_by_stream() {
        let draw = |stream| Draws::seeded(3, stream).bits();
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }
}
