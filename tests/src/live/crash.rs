//! [`Crash`]: a primary died with what its heir had not heard, and the proof of what that was.

use std::ops::RangeInclusive;

use selvedge_core::audit::Snapshot;
use selvedge_core::id::ExecutionId;

/// A primary died, and its replica took over with what it had heard.
#[derive(Clone, Debug)]
pub struct Crash {
    /// Which of the servers died.
    pub server: usize,
    /// The slots that it held.
    pub slots: Vec<RangeInclusive<u16>>,
    /// What was applied before this, the replica had heard.
    pub heard_until_ms: u64,
    /// From then on it was the replica that told callers something.
    pub taken_over_at_ms: u64,
    /// What the replica held when it took over.
    pub heir: Snapshot,
}

impl Crash {
    /// Whether what was told of an execution at a time died with this server: the execution was
    /// there, the reply came in its last moments, and nothing speaks against it.
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
