//! Batches on their way: a window bounds how many, a share per slot keeps a dead partition from
//! filling it, and every batch has a deadline of its own.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::wire::{Command, Ticket};
use crate::time::EngineTime;

/// The stream of the seed that numbers tickets; the first one is the jitter's.
const TICKETS: u64 = 1;

/// Most commands in one batch.
pub const BATCH_MAX: usize = 128;

/// How long a batch that may wait gives way to others of its slot.
const PATIENCE: Duration = Duration::from_secs(1);

/// How much the world waits for a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Haste {
    /// Something is due.
    Due,
    /// Nobody waits for it: it gives way to what is due in its slot, for a while.
    Leisure,
}

/// Commands that leave together: of one slot, and of one haste.
pub(super) type Pile = (u16, Haste);

/// Where an answer belongs: to which question, and there to which place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) question: u64,
    pub(super) place: usize,
}

/// A command, and everybody who waits for its answer.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) routes: Vec<Route>,
    pub(super) command: Command,
}

#[derive(Debug)]
struct Waiting {
    slot: u16,
    haste: Haste,
    since: EngineTime,
    commands: Vec<Command>,
    routes: Vec<Vec<Route>>,
}

#[derive(Debug)]
struct Open {
    slot: u16,
    deadline: EngineTime,
    routes: Vec<Vec<Route>>,
}

/// A batch that may be sent now.
pub(super) struct Departure {
    pub(super) ticket: Ticket,
    pub(super) slot: u16,
    pub(super) batch: Vec<Command>,
}

#[derive(Debug)]
pub(super) struct Flight {
    window: usize,
    per_slot: usize,
    timeout: Duration,
    next_ticket: u64,
    waiting: VecDeque<Waiting>,
    open: BTreeMap<Ticket, Open>,
    open_by_slot: BTreeMap<u16, usize>,
    deadlines: BTreeSet<(EngineTime, Ticket)>,
}

impl Flight {
    /// Nothing on its way. Tickets are numbered from somewhere that `seed` decides: an answer to an
    /// engine that sat here before must hit no ticket of this one.
    pub(super) fn new(window: usize, per_slot: usize, timeout: Duration, seed: u64) -> Self {
        let mut chance = ChaCha8Rng::seed_from_u64(seed);
        chance.set_stream(TICKETS);
        Self {
            window: window.max(1),
            per_slot: per_slot.max(1),
            timeout,
            next_ticket: chance.next_u64(),
            waiting: VecDeque::new(),
            open: BTreeMap::new(),
            open_by_slot: BTreeMap::new(),
            deadlines: BTreeSet::new(),
        }
    }

    /// Queues commands for one slot, cut into batches.
    pub(super) fn queue(&mut self, now: EngineTime, (slot, haste): Pile, mut asked: Vec<Asked>) {
        while !asked.is_empty() {
            let rest = asked.split_off(asked.len().min(BATCH_MAX));
            let (routes, commands) =
                asked.into_iter().map(|Asked { routes, command }| (routes, command)).unzip();
            self.waiting.push_back(Waiting { slot, haste, since: now, commands, routes });
            asked = rest;
        }
    }

    /// The next batch that the window and its slot have room for, first come first served.
    pub(super) fn depart(&mut self, now: EngineTime) -> Option<Departure> {
        if self.open.len() >= self.window {
            return None;
        }
        let at = self.waiting.iter().position(|batch| {
            let open = self.open_by_slot.get(&batch.slot).copied().unwrap_or(0);
            match batch.haste {
                Haste::Leisure if batch.since.after(PATIENCE) > now => open == 0,
                Haste::Due | Haste::Leisure => open < self.per_slot,
            }
        })?;
        let Waiting { slot, commands, routes, .. } = self.waiting.remove(at)?;
        let ticket = Ticket(self.next_ticket);
        self.next_ticket = self.next_ticket.wrapping_add(1);
        let deadline = now.after(self.timeout);
        self.open.insert(ticket, Open { slot, deadline, routes });
        self.deadlines.insert((deadline, ticket));
        *self.open_by_slot.entry(slot).or_default() += 1;
        Some(Departure { ticket, slot, batch: commands })
    }

    /// Closes a ticket; none when it is not open (any more).
    pub(super) fn land(&mut self, ticket: Ticket) -> Option<Vec<Vec<Route>>> {
        let open = self.open.remove(&ticket)?;
        self.deadlines.remove(&(open.deadline, ticket));
        if let Some(count) = self.open_by_slot.get_mut(&open.slot) {
            *count -= 1;
            if *count == 0 {
                self.open_by_slot.remove(&open.slot);
            }
        }
        Some(open.routes)
    }

    /// A ticket whose deadline has passed.
    pub(super) fn overdue(&self, now: EngineTime) -> Option<Ticket> {
        self.deadlines.first().filter(|(deadline, _)| *deadline <= now).map(|&(_, ticket)| ticket)
    }

    /// Drops what waits for the slot of a ticket, which does not answer; says whose questions those
    /// were. They would only wait for the next ticket to run out.
    pub(super) fn strand(&mut self, ticket: Ticket) -> Vec<Route> {
        let Some(slot) = self.open.get(&ticket).map(|open| open.slot) else { return Vec::new() };
        let (stranded, waiting): (VecDeque<_>, _) =
            core::mem::take(&mut self.waiting).into_iter().partition(|batch| batch.slot == slot);
        self.waiting = waiting;
        stranded.into_iter().flat_map(|batch| batch.routes).flatten().collect()
    }

    /// When the first open ticket runs out.
    pub(super) fn deadline(&self) -> Option<EngineTime> {
        self.deadlines.first().map(|&(deadline, _)| deadline)
    }

    /// Drops what has not been sent, and says whose questions those were.
    pub(super) fn cancel_waiting(&mut self) -> Vec<Route> {
        self.waiting.drain(..).flat_map(|batch| batch.routes).flatten().collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.waiting.is_empty()
    }

    pub(super) fn open_tickets(&self) -> usize {
        self.open.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn asked(count: usize) -> Vec<Asked> {
        (0..count)
            .map(|place| Asked {
                routes: vec![Route { question: 0, place }],
                command: Command { slot: 0, argv: vec![], reads: false },
            })
            .collect()
    }

    fn flight(window: usize, per_slot: usize) -> Flight {
        Flight::new(window, per_slot, Duration::from_secs(1), 0)
    }

    #[test]
    fn a_dead_slot_does_not_fill_the_window() {
        let mut flight = flight(3, 2);
        for _ in 0..5 {
            flight.queue(EngineTime(0), (1, Haste::Due), asked(1));
        }
        flight.queue(EngineTime(0), (2, Haste::Due), asked(1));
        let now = EngineTime(0);
        let slots: Vec<u16> = core::iter::from_fn(|| flight.depart(now)).map(|d| d.slot).collect();
        assert_eq!(slots, [1, 1, 2]);
    }

    #[test]
    fn what_nobody_waits_for_gives_way_in_its_slot_but_not_for_ever() {
        let mut flight = flight(9, 2);
        let departed = |flight: &mut Flight, now| {
            core::iter::from_fn(|| flight.depart(EngineTime(now))).collect::<Vec<_>>()
        };
        for slot in [1, 2] {
            flight.queue(EngineTime(0), (slot, Haste::Leisure), asked(3));
        }
        flight.queue(EngineTime(0), (1, Haste::Due), asked(1));
        let first = departed(&mut flight, 0);
        let sizes: Vec<usize> = first.iter().map(|departure| departure.batch.len()).collect();
        assert_eq!(sizes, [3, 3, 1], "a slot at rest serves whoever comes");
        flight.queue(EngineTime(0), (1, Haste::Leisure), asked(3));
        flight.land(first[0].ticket);
        assert!(departed(&mut flight, 999).is_empty(), "something due is on its way there");
        assert_eq!(departed(&mut flight, 1_000).len(), 1, "patience ends");
    }

    #[test]
    fn long_questions_are_cut_into_batches() {
        let mut flight = flight(10, 10);
        flight.queue(EngineTime(0), (1, Haste::Due), asked(BATCH_MAX * 2 + 1));
        let now = EngineTime(0);
        let sizes: Vec<usize> =
            core::iter::from_fn(|| flight.depart(now)).map(|d| d.batch.len()).collect();
        assert_eq!(sizes, [BATCH_MAX, BATCH_MAX, 1]);
    }

    #[test]
    fn what_waits_for_a_slot_that_does_not_answer_is_given_back() {
        let mut flight = flight(9, 1);
        for slot in [1, 2, 1, 2, 1] {
            flight.queue(EngineTime(0), (slot, Haste::Due), asked(2));
        }
        let first = flight.depart(EngineTime(0)).unwrap();
        assert_eq!(first.slot, 1);
        assert_eq!(flight.strand(first.ticket).len(), 4, "both batches that wait behind it");
        assert!(flight.land(first.ticket).is_some());
        assert_eq!(flight.depart(EngineTime(0)).unwrap().slot, 2, "the other slot goes on");
        assert!(flight.strand(Ticket(99)).is_empty(), "nobody's ticket");
    }

    #[test]
    fn an_answer_to_a_former_life_hits_no_ticket_of_this_one() {
        let departed = |seed| {
            let mut flight = Flight::new(9, 9, Duration::from_secs(1), seed);
            flight.queue(EngineTime(0), (1, Haste::Due), asked(BATCH_MAX * 5));
            let tickets: Vec<Ticket> =
                core::iter::from_fn(|| flight.depart(EngineTime(0))).map(|d| d.ticket).collect();
            (flight, tickets)
        };
        let (_, former) = departed(1);
        let (mut flight, own) = departed(2);
        assert!(former.iter().all(|ticket| flight.land(*ticket).is_none()));
        assert!(own.iter().all(|ticket| flight.land(*ticket).is_some()));
    }

    #[test]
    fn a_ticket_closes_once() {
        let mut flight = flight(1, 1);
        flight.queue(EngineTime(0), (1, Haste::Due), asked(1));
        let ticket = flight.depart(EngineTime(0)).unwrap().ticket;
        assert_eq!(flight.overdue(EngineTime(999)), None);
        assert_eq!(flight.overdue(EngineTime(1000)), Some(ticket));
        assert!(flight.land(ticket).is_some());
        assert!(flight.land(ticket).is_none());
        assert!(flight.is_empty());
    }
}
