//! [`MachineRun`]: what stories of any machine have in common. Time passes, batches are answered.

use std::collections::BTreeSet;

use selvedge_core::command::{Command, Ticket};
use selvedge_core::partition::slot;
use selvedge_core::requests::BATCH_MAX;
use selvedge_core::time::LocalTime;

use super::responses::{Response, keys};

/// A machine that a story is told to.
pub(super) trait MachineRun {
    fn now(&self) -> LocalTime;
    fn deadline(&self) -> Option<LocalTime>;
    /// The tickets of the batches that are not answered yet, in order.
    fn open_tickets(&self) -> Vec<Ticket>;
    /// Lets time pass for the machine and its host.
    fn pass(&mut self, ms: u64);
    fn wake_at(&mut self, now: LocalTime);
    /// Answers a batch; without anything to say, by the truth.
    fn answer(&mut self, ticket: Ticket, said: Option<&Vec<Response>>);

    /// Wakes it after some time, or with a clock that was set back.
    fn wake(&mut self, after_ms: u32, back: bool) {
        if back {
            let earlier = self.now().0.saturating_sub(u64::from(after_ms));
            return self.wake_at(LocalTime(earlier));
        }
        self.pass(u64::from(after_ms));
        self.wake_at(self.now());
    }

    fn wake_at_deadline(&mut self) {
        let due = self.deadline().unwrap_or(self.now());
        self.pass(due.0.saturating_sub(self.now().0));
        self.wake_at(self.now());
    }

    fn answer_all(&mut self) {
        self.open_tickets().into_iter().for_each(|ticket| self.answer(ticket, None));
    }

    fn answer_one(&mut self, which: u8, answers: &Vec<Response>) {
        let open = self.open_tickets();
        if let Some(ticket) = open.get(usize::from(which) % open.len().max(1)) {
            self.answer(*ticket, Some(answers));
        }
    }
}

/// Checks a batch that was sent: a new ticket, a few commands, all for one slot.
pub(super) fn check_batch(seen: &mut BTreeSet<Ticket>, ticket: Ticket, to: u16, batch: &[Command]) {
    assert!(seen.insert(ticket), "{ticket:?} was used twice");
    assert!((1..=BATCH_MAX).contains(&batch.len()), "{} commands in a batch", batch.len());
    for command in batch {
        assert_eq!(command.slot, to, "a batch over several slots");
        for key in keys(command) {
            assert_eq!(slot(key), to, "{} lies elsewhere", key.escape_ascii());
        }
    }
}
