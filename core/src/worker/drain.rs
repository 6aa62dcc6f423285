//! A drain: nothing more is claimed, handlers may end, then they are told to stop, then they are
//! dropped.
//!
//! ```text
//! Open ──Input::Drain──> Draining ──nothing runs and nothing is awaited──> Drained
//!
//! while draining:  drain_within ──> Stop ──STOP_WITHIN──> Abort ──> End
//!                  LINGER ──> Linger: calls without an answer are not waited for any longer
//! ```

use core::time::Duration;

use super::io::Alarm;
use super::quota_releases::QuotaSlot;
use super::{Observation, Worker};
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

impl Worker {
    pub(super) fn begin_drain(&mut self) {
        if !self.phase.is_open() {
            return;
        }
        let now = self.io.now;
        self.phase = Phase::Draining(now);
        let drain_within = self.attempts.config.drain_within;
        self.io.set(Alarm::Drain(Step::Stop), now.after(drain_within));
        self.io.set(Alarm::Drain(Step::Linger), now.after(LINGER));
        let events = self.claiming.drain(&mut self.io);
        self.on_claiming(events);
        for (execution, quota) in self.admissions.drain(&mut self.io) {
            self.release(Some(QuotaSlot { execution, quota, ended: false }));
        }
        self.attempts.drain(&mut self.io);
    }

    pub(super) fn on_drain_step(&mut self, step: Step) {
        let now = self.io.now;
        match step {
            Step::Stop => {
                self.io.observe(Observation::DrainTimeOver);
                self.attempts.stop_handlers(&mut self.io);
                self.io.set(Alarm::Drain(Step::Abort), now.after(STOP_WITHIN));
                self.io.set(Alarm::Drain(Step::End), now.after(END_WITHIN));
            }
            Step::Abort => {
                for slot in self.attempts.abort_handlers(&mut self.io) {
                    self.release(Some(slot));
                }
            }
            Step::End => self.attempts.clear(&mut self.io),
            Step::Linger => {}
        }
    }

    pub(super) fn check_drained(&mut self) {
        if self.is_drained() {
            return;
        }
        let waits = self.claiming.is_busy() || self.releases.is_busy();
        if self.phase.is_over(self.io.now, !self.attempts.is_empty(), waits) {
            self.phase = Phase::Drained;
            self.io.observe(Observation::Drained);
        }
    }
}

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
