//! [`PrimaryCrash`]: a primary died with writes that its promoted replica had not received, and the
//! proof of which those were.

use std::ops::RangeInclusive;

use selvedge_core::audit::Snapshot;
use selvedge_core::id::ExecutionId;

/// A primary died, and its replica took over with the writes that it had received.
#[derive(Clone, Debug)]
pub struct PrimaryCrash {
    /// Which of the servers died.
    pub server: usize,
    /// The slots that it held.
    pub slots: Vec<RangeInclusive<u16>>,
    /// The replica had received everything that was applied before this.
    pub heard_until_ms: u64,
    /// From then on the replica answered callers.
    pub taken_over_at_ms: u64,
    /// What the replica held when it took over.
    pub promoted: Snapshot,
}

impl PrimaryCrash {
    /// Whether a reply about an execution at a time was lost with this server: it held the
    /// execution, the reply came after the last write that the replica received, and `against`
    /// finds no evidence to the contrary.
    #[must_use]
    pub fn took(
        &self,
        id: &ExecutionId,
        told_at_ms: u64,
        against: impl FnOnce(&Self) -> bool,
    ) -> bool {
        let slot = id.partition().slot();
        let held = self.slots.iter().any(|slots| slots.contains(&slot));
        let last_moments = self.heard_until_ms..self.taken_over_at_ms;
        held && last_moments.contains(&told_at_ms) && !against(self)
    }

    /// Whether something was said while the server still spoke for itself: then its death is no
    /// excuse.
    #[must_use]
    pub fn spoke_at(&self, at_ms: u64) -> bool {
        at_ms < self.taken_over_at_ms
    }
}
