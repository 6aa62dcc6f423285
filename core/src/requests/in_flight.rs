//! Batches in flight: a window bounds how many, a limit per hash slot keeps an unresponsive
//! partition from filling the window, and every batch has a deadline.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::RequestLimits;
use super::batch::{Batch, Priority, ReplySlot};
use crate::command::{Command, Ticket};
use crate::time::LocalTime;

/// The stream of the seed that ticket numbers are drawn from; the first stream is for jitter.
const TICKET_STREAM: u64 = 1;

/// How long a background batch lets due batches of its slot pass.
const BACKGROUND_DELAY_MAX: Duration = Duration::from_secs(1);

/// A batch that is queued until the window has room.
#[derive(Clone, Debug)]
struct QueuedBatch {
    since: LocalTime,
    batch: Batch,
}

/// A batch that was sent and not answered yet.
#[derive(Clone, Debug)]
struct OpenTicket {
    slot: u16,
    deadline: LocalTime,
    reply_slots: Vec<Vec<ReplySlot>>,
    joined: Vec<Command>,
    /// When it was sent, if it is spare work.
    spare_since: Option<LocalTime>,
}

/// Who waited for a ticket that is closed now, and the calls that were joined into it.
pub(super) struct ClosedTicket {
    pub(super) reply_slots: Vec<Vec<ReplySlot>>,
    pub(super) joined: Vec<Command>,
}

/// A batch to send now, as one pipeline.
pub(crate) struct ReadyBatch {
    pub(crate) ticket: Ticket,
    pub(crate) slot: u16,
    pub(crate) commands: Vec<Command>,
}

#[derive(Clone, Debug)]
pub(super) struct InFlight {
    window: usize,
    window_per_slot: usize,
    timeout: Duration,
    next_ticket: u64,
    queue: VecDeque<QueuedBatch>,
    open: BTreeMap<Ticket, OpenTicket>,
    open_by_slot: BTreeMap<u16, usize>,
    deadlines: BTreeSet<(LocalTime, Ticket)>,
    spare: SparePace,
}

impl InFlight {
    /// The first ticket number depends on `seed`, so that a late answer to an earlier machine in
    /// the same place matches no ticket of this one.
    pub(super) fn new(limits: RequestLimits, seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(TICKET_STREAM);
        Self {
            window: limits.window.max(1),
            window_per_slot: limits.window_per_slot.max(1),
            timeout: limits.timeout,
            next_ticket: random.next_u64(),
            queue: VecDeque::new(),
            open: BTreeMap::new(),
            open_by_slot: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            spare: SparePace::new(),
        }
    }

    pub(super) fn queue(&mut self, now: LocalTime, batch: Batch) {
        self.queue.push_back(QueuedBatch { since: now, batch });
    }

    /// The next batch that the window and its slot have room for, first come, first served.
    pub(super) fn next_batch(&mut self, now: LocalTime) -> Option<ReadyBatch> {
        self.spare.advance(now);
        if self.open.len() >= self.window {
            return None;
        }
        let may_send_spare = self.spare.may_send(now);
        let at = self.queue.iter().position(|QueuedBatch { since, batch }| {
            let open = self.open_by_slot.get(&batch.slot).copied().unwrap_or(0);
            match batch.priority {
                Priority::Spare if !may_send_spare => false,
                Priority::Background | Priority::Spare
                    if since.after(BACKGROUND_DELAY_MAX) > now =>
                {
                    open == 0
                }
                Priority::Due | Priority::Background | Priority::Spare => {
                    open < self.window_per_slot
                }
            }
        })?;
        let Batch { slot, commands, reply_slots, priority, joined } = self.queue.remove(at)?.batch;
        let spare_since = (priority == Priority::Spare).then_some(now);
        self.spare.is_open |= spare_since.is_some();
        let ticket = Ticket(self.next_ticket);
        self.next_ticket = self.next_ticket.wrapping_add(1);
        let deadline = now.after(self.timeout);
        let open = OpenTicket { slot, deadline, reply_slots, joined, spare_since };
        self.open.insert(ticket, open);
        self.deadlines.insert((deadline, ticket));
        *self.open_by_slot.entry(slot).or_default() += 1;
        Some(ReadyBatch { ticket, slot, commands })
    }

    /// Closes a ticket; none when it is not open.
    pub(super) fn complete(&mut self, ticket: Ticket) -> Option<ClosedTicket> {
        let open = self.open.remove(&ticket)?;
        if open.spare_since.is_some() {
            self.spare.is_open = false;
            self.spare.ended_since = open.spare_since;
        }
        self.deadlines.remove(&(open.deadline, ticket));
        if let Some(count) = self.open_by_slot.get_mut(&open.slot) {
            *count -= 1;
            if *count == 0 {
                self.open_by_slot.remove(&open.slot);
            }
        }
        Some(ClosedTicket { reply_slots: open.reply_slots, joined: open.joined })
    }

    /// An open ticket whose deadline has passed.
    pub(super) fn overdue(&self, now: LocalTime) -> Option<Ticket> {
        self.deadlines.first().filter(|(deadline, _)| *deadline <= now).map(|&(_, ticket)| ticket)
    }

    /// Drops the batches that are queued for the hash slot of an overdue ticket, and returns whose
    /// they were: they would only wait for the next ticket to run out.
    pub(super) fn fail_slot(&mut self, ticket: Ticket) -> Vec<ReplySlot> {
        let Some(slot) = self.open.get(&ticket).map(|open| open.slot) else { return Vec::new() };
        let (failed, kept): (VecDeque<_>, _) = core::mem::take(&mut self.queue)
            .into_iter()
            .partition(|queued| queued.batch.slot == slot);
        self.queue = kept;
        failed.into_iter().flat_map(|queued| queued.batch.reply_slots).flatten().collect()
    }

    /// Drops every batch that was not sent, and returns whose they were.
    pub(super) fn cancel_queued(&mut self) -> Vec<ReplySlot> {
        self.queue.drain(..).flat_map(|queued| queued.batch.reply_slots).flatten().collect()
    }

    /// When the first open ticket runs out, or spare work goes on.
    pub(super) fn deadline(&self) -> Option<LocalTime> {
        let overdue = self.deadlines.first().map(|&(deadline, _)| deadline);
        let is_spare = |queued: &QueuedBatch| queued.batch.priority == Priority::Spare;
        let resumes = self.spare.resumes_at().filter(|_| self.queue.iter().any(is_spare));
        [overdue, resumes].into_iter().flatten().min()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.queue.is_empty()
    }

    pub(super) fn open_tickets(&self) -> usize {
        self.open.len()
    }
}

/// How much of a server spare work may take: one batch at a time, and then a pause that depends on
/// how long the batch took. On an idle server that is half of its time; on a busy one the batch has
/// waited for other work, and its share is an eighth at most.
#[derive(Clone, Debug)]
struct SparePace {
    is_open: bool,
    /// When the batch was sent that has ended since the time was known last.
    ended_since: Option<LocalTime>,
    not_before: LocalTime,
    now: LocalTime,
}

impl SparePace {
    const fn new() -> Self {
        Self { is_open: false, ended_since: None, not_before: LocalTime(0), now: LocalTime(0) }
    }

    fn advance(&mut self, now: LocalTime) {
        self.now = now;
        if let Some(since) = self.ended_since.take() {
            let took = Duration::from_millis(now.0.saturating_sub(since.0));
            let pauses = if took > SPARE_QUICK_MAX { BUSY_PAUSES } else { 1 };
            self.not_before = now.after((took * pauses).min(SPARE_PAUSE_MAX));
        }
    }

    fn may_send(&self, now: LocalTime) -> bool {
        !self.is_open && self.not_before <= now
    }

    /// When it goes on, if only the time is missing.
    fn resumes_at(&self) -> Option<LocalTime> {
        (!self.is_open && self.not_before > self.now).then_some(self.not_before)
    }
}

/// A batch of spare work that took longer has waited for other work.
const SPARE_QUICK_MAX: Duration = Duration::from_millis(25);
/// How many times as long as such a batch the pause after it is.
const BUSY_PAUSES: u32 = 7;
/// The longest pause.
const SPARE_PAUSE_MAX: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn batch(slot: u16, priority: Priority, count: usize) -> Batch {
        let command = Command { slot, argv: vec![], reads: false };
        Batch {
            slot,
            priority,
            commands: vec![command; count],
            reply_slots: (0..count).map(|index| vec![ReplySlot { request: 0, index }]).collect(),
            joined: Vec::new(),
        }
    }

    fn due(slot: u16) -> Batch {
        batch(slot, Priority::Due, 1)
    }

    fn in_flight(window: usize, window_per_slot: usize) -> InFlight {
        seeded(window, window_per_slot, 0)
    }

    fn seeded(window: usize, window_per_slot: usize, seed: u64) -> InFlight {
        let timeout = Duration::from_secs(1);
        InFlight::new(RequestLimits { window, window_per_slot, timeout }, seed)
    }

    fn send_all(in_flight: &mut InFlight, now: u64) -> Vec<ReadyBatch> {
        core::iter::from_fn(|| in_flight.next_batch(LocalTime(now))).collect()
    }

    #[test]
    fn an_unresponsive_slot_does_not_fill_the_window() {
        let mut in_flight = in_flight(3, 2);
        for _ in 0..5 {
            in_flight.queue(LocalTime(0), due(1));
        }
        in_flight.queue(LocalTime(0), due(2));
        let slots: Vec<u16> = send_all(&mut in_flight, 0).iter().map(|ready| ready.slot).collect();
        assert_eq!(slots, [1, 1, 2]);
    }

    #[test]
    fn background_batches_let_due_ones_of_their_slot_pass_for_a_bounded_time() {
        let mut in_flight = in_flight(9, 2);
        for slot in [1, 2] {
            in_flight.queue(LocalTime(0), batch(slot, Priority::Background, 3));
        }
        in_flight.queue(LocalTime(0), due(1));
        let first = send_all(&mut in_flight, 0);
        let sizes: Vec<usize> = first.iter().map(|ready| ready.commands.len()).collect();
        assert_eq!(sizes, [3, 3, 1], "an idle slot takes any batch");
        in_flight.queue(LocalTime(0), batch(1, Priority::Background, 3));
        in_flight.complete(first[0].ticket);
        assert!(send_all(&mut in_flight, 999).is_empty(), "a due batch of the slot is open");
        assert_eq!(send_all(&mut in_flight, 1_000).len(), 1, "the delay is over");
    }

    #[test]
    fn spare_batches_go_one_by_one_and_leave_the_server_half_of_its_time_or_more() {
        let mut in_flight = in_flight(9, 2);
        for slot in 1..5 {
            in_flight.queue(LocalTime(0), batch(slot, Priority::Spare, 1));
        }
        let mut resumes = Vec::new();
        // The third batch waits for other work of the server.
        for (sent, took) in [(0, 4), (8, 10), (28, 100), (828, 0)] {
            assert!(sent == 0 || send_all(&mut in_flight, sent - 1).is_empty());
            let ready = send_all(&mut in_flight, sent);
            assert_eq!(ready.len(), 1, "{sent}");
            in_flight.queue(LocalTime(sent), due(9));
            let due = send_all(&mut in_flight, sent);
            assert_eq!(due.len(), 1, "due work does not wait for it");
            in_flight.complete(due[0].ticket);
            in_flight.complete(ready[0].ticket);
            assert!(in_flight.next_batch(LocalTime(sent + took)).is_none());
            resumes.push(in_flight.deadline());
        }
        assert_eq!(resumes, [Some(LocalTime(8)), Some(LocalTime(28)), Some(LocalTime(828)), None]);
    }

    #[test]
    fn what_is_queued_for_an_unresponsive_slot_is_given_back() {
        let mut in_flight = in_flight(9, 1);
        for slot in [1, 2, 1, 2, 1] {
            in_flight.queue(LocalTime(0), batch(slot, Priority::Due, 2));
        }
        let first = in_flight.next_batch(LocalTime(0)).unwrap();
        assert_eq!(first.slot, 1);
        assert_eq!(in_flight.fail_slot(first.ticket).len(), 4, "both batches queued behind it");
        assert!(in_flight.complete(first.ticket).is_some());
        assert_eq!(in_flight.next_batch(LocalTime(0)).unwrap().slot, 2, "other slots go on");
        assert!(in_flight.fail_slot(Ticket(99)).is_empty(), "an unknown ticket");
    }

    #[test]
    fn tickets_of_an_earlier_machine_match_none_of_this_one() {
        let sent = |seed| {
            let mut in_flight = seeded(9, 9, seed);
            for _ in 0..5 {
                in_flight.queue(LocalTime(0), due(1));
            }
            let ready = send_all(&mut in_flight, 0);
            let tickets: Vec<Ticket> = ready.iter().map(|ready| ready.ticket).collect();
            (in_flight, tickets)
        };
        let (_, earlier) = sent(1);
        let (mut in_flight, own) = sent(2);
        assert!(earlier.iter().all(|ticket| in_flight.complete(*ticket).is_none()));
        assert!(own.iter().all(|ticket| in_flight.complete(*ticket).is_some()));
    }

    #[test]
    fn a_ticket_closes_once() {
        let mut in_flight = in_flight(1, 1);
        in_flight.queue(LocalTime(0), due(1));
        let ticket = in_flight.next_batch(LocalTime(0)).unwrap().ticket;
        assert_eq!(in_flight.overdue(LocalTime(999)), None);
        assert_eq!(in_flight.overdue(LocalTime(1_000)), Some(ticket));
        assert!(in_flight.complete(ticket).is_some());
        assert!(in_flight.complete(ticket).is_none());
        assert!(in_flight.is_empty());
    }
}
