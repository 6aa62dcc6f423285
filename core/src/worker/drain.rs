//! The phases of a drain: handlers may end, then they are told to stop, then they are dropped.
//!
//! ```text
//! Open ──Drain──> Draining: drain time ──> Stop ──> Abort ──> End ──> Drained
//!                     └─────────────nothing is left──────────────────────┘
//! ```

use core::time::Duration;

use crate::time::LocalTime;

/// What is due in a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    /// Handlers are told to stop.
    Stop,
    /// Handlers that have not stopped are dropped.
    Abort,
    /// What is left is given up.
    End,
    /// Claims and slots are not waited for any longer.
    Linger,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    /// Since when.
    Draining(LocalTime),
    Drained,
}

impl Phase {
    pub(super) const fn is_open(self) -> bool {
        matches!(self, Self::Open)
    }

    /// Whether it is drained, with or without anything running, and with or without calls that are
    /// not answered yet.
    pub(super) fn is_over(self, now: LocalTime, runs: bool, waits: bool) -> bool {
        match self {
            Self::Open => false,
            Self::Draining(since) => !runs && (!waits || since.after(LINGER) <= now),
            Self::Drained => true,
        }
    }
}

/// How long a handler may take to stop after it was told to.
pub(super) const STOP_WITHIN: Duration = Duration::from_secs(2);
/// How long reports may take after handlers were told to stop.
pub(super) const END_WITHIN: Duration = Duration::from_secs(5);
/// How long claims whose replies were lost, and slots, are waited for when nothing runs.
pub(super) const LINGER: Duration = Duration::from_secs(5);

const _: () = assert!(STOP_WITHIN.as_millis() < END_WITHIN.as_millis());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drain_waits_for_handlers_and_for_a_while_for_answers() {
        let phase = Phase::Draining(LocalTime(0));
        assert!(phase.is_over(LocalTime(0), false, false));
        assert!(!phase.is_over(LocalTime(4_999), false, true));
        assert!(phase.is_over(LocalTime(5_000), false, true));
        assert!(!phase.is_over(LocalTime(90_000), true, false));
        assert!(!Phase::Open.is_over(LocalTime(0), false, false));
    }
}
