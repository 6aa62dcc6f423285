//! [`Draws`]: a source of random choices, from a seed or from the bytes of a fuzzer.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

/// A source of random choices. The same source always makes the same choices, on every machine.
#[derive(Clone, Debug)]
pub struct Draws {
    source: Source,
    count: u64,
}

#[derive(Clone, Debug)]
enum Source {
    Seeded(Box<ChaCha8Rng>),
    Given(std::vec::IntoIter<u8>),
}

/// A probability: `hits` times out of `of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    /// How often it happens.
    pub hits: u64,
    /// Out of how many times.
    pub of: u64,
}

/// A range of numbers, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The smallest number.
    pub from: u64,
    /// The largest number.
    pub to: u64,
}

impl Draws {
    /// Endless draws from a seed. Every stream of a seed is independent of the others.
    #[must_use]
    pub fn seeded(seed: u64, stream: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(stream);
        Self { source: Source::Seeded(Box::new(random)), count: 0 }
    }

    /// Endless draws from a key of 32 bytes.
    #[must_use]
    pub fn from_key(key: [u8; 32]) -> Self {
        Self { source: Source::Seeded(Box::new(ChaCha8Rng::from_seed(key))), count: 0 }
    }

    /// Draws decoded from bytes; when they are used up, every draw is zero.
    ///
    /// A fuzzer steers a generator this way: a small change of the bytes is a small change of what
    /// is generated. A draw takes no more bytes than its bound needs.
    #[must_use]
    pub fn given(bytes: &[u8]) -> Self {
        Self { source: Source::Given(Vec::from(bytes).into_iter()), count: 0 }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.count += 1;
        match &mut self.source {
            Source::Seeded(random) => random.next_u64(),
            Source::Given(bytes) => take(bytes, 8),
        }
    }

    /// A number below `bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.count += 1;
        match &mut self.source {
            Source::Seeded(random) => {
                let scaled = u128::from(random.next_u64()) * u128::from(bound);
                (scaled >> 64) as u64
            }
            Source::Given(bytes) => {
                let bound = bound.max(1);
                take(bytes, (64 - (bound - 1).leading_zeros()).div_ceil(8)) % bound
            }
        }
    }

    /// A valid index of a list of this length; 0 if the list is empty.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    /// A number of a range.
    pub fn within(&mut self, span: Span) -> u64 {
        span.from + self.below(span.to.saturating_sub(span.from).saturating_add(1))
    }

    /// True with this probability.
    pub fn chance(&mut self, ratio: Ratio) -> bool {
        self.below(ratio.of) < ratio.hits
    }

    /// True in so many of a hundred cases.
    pub fn percent(&mut self, hits: u64) -> bool {
        self.chance(Ratio { hits, of: 100 })
    }

    /// One item of a list; none if the list is empty.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.index(from.len()))
    }

    /// One item of a list of weighted items; none if all weights are 0.
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

    /// Sixteen random bytes, as for a uuid.
    pub fn bytes(&mut self) -> [u8; 16] {
        (u128::from(self.bits()) << 64 | u128::from(self.bits())).to_be_bytes()
    }

    /// How many draws were made so far.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Whether given bytes are used up; a seed never is.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        match &self.source {
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
    fn given_draws_take_no_more_bytes_than_their_bound_needs() {
        let mut draws = Draws::given(&[7, 1, 2, 9]);
        assert_eq!(draws.below(1), 0);
        assert_eq!(draws.below(5), 2);
        assert_eq!(draws.below(65_536), 258);
        assert_eq!(draws.below(256), 9);
        assert!(draws.is_exhausted());
        assert_eq!((draws.below(100), draws.bits()), (0, 0));
    }

    #[test]
    fn a_seed_makes_the_same_draws_again_and_others_in_another_stream() {
        let draw = |stream| Draws::seeded(3, stream).bits();
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn draws_keep_to_their_bounds() {
        let mut draws = Draws::seeded(1, 0);
        let span = Span { from: 3, to: 5 };
        let drawn: std::collections::BTreeSet<u64> = (0..100).map(|_| draws.within(span)).collect();
        assert_eq!(drawn, (3..=5).collect());
        assert_eq!(draws.below(0), 0);
        assert_eq!(draws.pick::<u8>(&[]), None);
        assert_eq!(draws.weighted(&[('a', 0), ('b', 4)]), Some('b'));
        assert_eq!(draws.weighted(&[('a', 0)]), None);
        assert!(draws.percent(100) && !draws.percent(0));
        assert_eq!(draws.count(), 106);
    }
}
