//! The random numbers of `math.random`.
//!
//! Servers replace C's generator with one of their own, so that a seed gives the same numbers
//! everywhere; this is the same linear congruence.

/// State of the generator: 48 bits.
#[derive(Clone, Debug)]
pub(crate) struct LuaRandom(u64);

impl LuaRandom {
    /// What `math.randomseed` sets.
    pub(crate) fn seeded(seed: u32) -> Self {
        Self((u64::from(seed) << 16) | 0x330E)
    }

    /// The next number, from zero up to but not including one.
    pub(crate) fn next(&mut self) -> f64 {
        const STATE_MASK: u64 = (1 << 48) - 1;
        const TOP: f64 = 2_147_483_647.0;
        self.0 = self.0.wrapping_mul(0x5_DEEC_E66D).wrapping_add(0xB) & STATE_MASK;
        let drawn = (self.0 >> 17) % 2_147_483_647;
        drawn as f64 / TOP
    }
}
