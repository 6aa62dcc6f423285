//! Requests: the commands that a machine has asked the store for, and who waits for the replies.
//!
//! A request is a list of commands and a continuation. The commands are sent in batches, one hash
//! slot each; when the last reply of a request is there, the continuation is handed back with all
//! of them in an `Event::Replied`. What a continuation means is the caller's business.

mod batch;
mod in_flight;

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

pub use batch::BATCH_MAX;
pub(crate) use batch::Priority;
pub(crate) use in_flight::ReadyBatch;

use core::time::Duration;

use batch::{BatchBuilder, ReplySlot};
use in_flight::{ClosedTicket, InFlight};

use crate::call::execution::PurgeExecutions;
use crate::command::{Answer, Command, Reply, Ticket};
use crate::error::ServerError;
use crate::time::LocalTime;

/// How long to wait for a store with a batch that its machine waits for so long: less, because the
/// store's error says more than a ticket that expired.
#[must_use]
pub fn store_timeout(batch_timeout: Duration) -> Duration {
    batch_timeout - batch_timeout / 10
}

/// What requests hand back.
pub(crate) enum Event<C> {
    /// Every reply of a request is there.
    Replied(C, Vec<Reply>),
    /// Answers came for a ticket that is not open: it has expired, or is another machine's.
    AnswerIgnored(Ticket),
    /// A ticket was not answered in time.
    TicketExpired(Ticket),
}

/// How much may be in flight, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestLimits {
    /// Most batches in flight.
    pub(crate) window: usize,
    /// Most batches in flight to one hash slot.
    pub(crate) window_per_slot: usize,
    /// How long a batch may stay unanswered.
    pub(crate) timeout: Duration,
}

/// A request with replies missing.
#[derive(Clone)]
struct PendingRequest<C> {
    replies: Vec<Option<Reply>>,
    missing: usize,
    continuation: C,
}

/// Everything that is queued or in flight; `C` is what comes back with the replies.
#[derive(Clone)]
pub(crate) struct Requests<C> {
    pending: BTreeMap<u64, PendingRequest<C>>,
    next_id: u64,
    builder: BatchBuilder,
    in_flight: InFlight,
}

impl<C> Requests<C> {
    pub(crate) fn new(limits: RequestLimits, seed: u64) -> Self {
        Self {
            pending: BTreeMap::new(),
            next_id: 0,
            builder: BatchBuilder::default(),
            in_flight: InFlight::new(limits, seed),
        }
    }

    /// Adds a request. Its commands are sent by the next [`Self::send`].
    pub(crate) fn add(&mut self, commands: Vec<Command>, priority: Priority, continuation: C) {
        let request = self.next_id;
        self.next_id += 1;
        let missing = commands.len();
        for (index, command) in commands.into_iter().enumerate() {
            self.builder.add(ReplySlot { request, index }, priority, command);
        }
        let replies = vec![None; missing];
        self.pending.insert(request, PendingRequest { replies, missing, continuation });
    }

    /// Sends the requests that were added, as far as the window has room.
    pub(crate) fn send(&mut self, now: LocalTime) -> Vec<ReadyBatch> {
        for batch in self.builder.take() {
            self.in_flight.queue(now, batch);
        }
        core::iter::from_fn(|| self.in_flight.next_batch(now)).collect()
    }

    /// Drops what was not sent: it was surely not applied, and another machine will find the work.
    pub(crate) fn cancel_unsent(&mut self) {
        let unsent = self.builder.take().into_iter().flat_map(|batch| batch.reply_slots).flatten();
        for slot in unsent.chain(self.in_flight.cancel_queued()) {
            self.pending.remove(&slot.request);
        }
    }

    /// Stores the answers of a batch; commands without an answer count as not answered.
    pub(crate) fn settle(&mut self, ticket: Ticket, answers: Vec<Answer>) -> Vec<Event<C>> {
        let Some(ClosedTicket { reply_slots, joined }) = self.in_flight.complete(ticket) else {
            return vec![Event::AnswerIgnored(ticket)];
        };
        if !joined.is_empty() {
            return self.settle_joined(reply_slots, joined, answers);
        }
        let mut answers = answers.into_iter();
        let mut complete = Vec::new();
        for waiting in reply_slots {
            let reply = match answers.next() {
                Some(answer) => answer.into_result(),
                None => Err(ServerError::silence("no answer came in time")),
            };
            complete.extend(waiting.into_iter().filter(|slot| self.fill(*slot, reply.clone())));
        }
        complete.into_iter().filter_map(|slot| self.replied(slot.request)).collect()
    }

    /// Stores the answer to calls that were joined into one. Those for which it had no room are
    /// sent again.
    fn settle_joined(
        &mut self,
        reply_slots: Vec<Vec<ReplySlot>>,
        joined: Vec<Command>,
        answers: Vec<Answer>,
    ) -> Vec<Event<C>> {
        let silence = || Answer::PerhapsApplied(ServerError::silence("no answer came in time"));
        let answer = answers.into_iter().next().unwrap_or_else(silence);
        let mut answers = PurgeExecutions::split(answer, joined.len()).into_iter();
        let mut complete = Vec::new();
        for (waiting, command) in reply_slots.into_iter().zip(joined) {
            match answers.next().map(Answer::into_result) {
                Some(reply) => {
                    complete
                        .extend(waiting.into_iter().filter(|slot| self.fill(*slot, reply.clone())));
                }
                None => {
                    for slot in waiting {
                        self.builder.add(slot, Priority::Spare, command.clone());
                    }
                }
            }
        }
        complete.into_iter().filter_map(|slot| self.replied(slot.request)).collect()
    }

    /// Gives up on a ticket whose deadline has passed, if there is one: its commands were perhaps
    /// applied, and what is queued for the same hash slot counts as never sent.
    pub(crate) fn expire_next(&mut self, now: LocalTime) -> Option<Vec<Event<C>>> {
        let ticket = self.in_flight.overdue(now)?;
        let mut events = vec![Event::TicketExpired(ticket)];
        let never_sent = self.in_flight.fail_slot(ticket);
        events.extend(self.settle(ticket, Vec::new()));
        for slot in never_sent {
            if self.fill(slot, Err(ServerError::never_sent("the slot does not answer"))) {
                events.extend(self.replied(slot.request));
            }
        }
        Some(events)
    }

    /// When the first ticket runs out.
    pub(crate) fn deadline(&self) -> Option<LocalTime> {
        self.in_flight.deadline()
    }

    /// Whether nothing is queued or in flight.
    pub(crate) fn is_empty(&self) -> bool {
        self.in_flight.is_empty()
    }

    pub(crate) fn open_tickets(&self) -> usize {
        self.in_flight.open_tickets()
    }

    /// Stores one reply; says whether it was the last that its request waited for.
    fn fill(&mut self, slot: ReplySlot, reply: Reply) -> bool {
        let Some(request) = self.pending.get_mut(&slot.request) else { return false };
        let Some(place) = request.replies.get_mut(slot.index) else { return false };
        if place.replace(reply).is_some() {
            return false;
        }
        request.missing -= 1;
        request.missing == 0
    }

    fn replied(&mut self, request: u64) -> Option<Event<C>> {
        let PendingRequest { replies, continuation, .. } = self.pending.remove(&request)?;
        let not_answered = || Err(ServerError::silence("not answered"));
        let replies = replies.into_iter().map(|reply| reply.unwrap_or_else(not_answered)).collect();
        Some(Event::Replied(continuation, replies))
    }
}
