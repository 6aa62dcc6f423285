//! The way of a result back to the sender of a call.

use selvedge_core::command::Answer;
use selvedge_core::engine::Input;
use selvedge_core::error::ServerError;
use selvedge_core::value::Value;

use super::transport::ReplyTo;
use super::{Scheduled, World};
use crate::canary;
use crate::event::{Actor, CallId, EventKind, Learned};
use crate::fault::effects::LateReply;

impl World {
    /// Records the result of one call. The last one of a batch sends all results back.
    pub(super) fn learn(&mut self, id: u64, at: usize, learned: Learned) {
        let Some(batch) = self.network.batches.get_mut(&id) else { return };
        let Some(call) = batch.calls.get_mut(at) else { return };
        if call.learned.replace(learned).is_some() {
            return;
        }
        batch.unanswered -= 1;
        if batch.unanswered == 0 {
            self.reply(id);
        }
    }

    pub(super) fn reply(&mut self, id: u64) {
        let Some(batch) = self.network.batches.get(&id) else { return };
        if batch.unanswerable {
            // The sender times out.
            return;
        }
        let sender = batch.sender;
        let node = batch.calls.first().map_or(0, |call| call.node);
        let late = batch.calls.iter().find_map(|call| call.call_effects.late_reply);
        let free = self.network.links.clogged_until.get(&(sender, node)).copied().unwrap_or(0);
        let due = (self.now_ms + self.delay(sender, node)).max(free);
        let (due, twice) = match late {
            Some((ms, LateReply::Late)) => (due + ms, None),
            Some((ms, twice)) => (due, Some((due + ms, twice))),
            None => (due, None),
        };
        if let Some((later, twice)) = twice {
            self.schedule_duplicate(id, later, twice);
        }
        self.schedule(due, Scheduled::Deliver { batch: id });
    }

    /// Schedules a second delivery of the results of a batch.
    fn schedule_duplicate(&mut self, id: u64, later: u64, twice: LateReply) {
        let Some(batch) = self.network.batches.get(&id) else { return };
        let (Actor::Engine(engine), Some(ReplyTo::Engine { incarnation, ticket })) =
            (batch.sender, &batch.reply_to)
        else {
            return;
        };
        let answers =
            batch.calls.iter().map(|call| answer(call.learned.clone().unwrap_or_else(broken)));
        let input = Input::Settled { ticket: *ticket, answers: answers.collect() };
        let incarnation =
            if twice == LateReply::DuplicateToAny { None } else { Some(*incarnation) };
        self.schedule(
            later,
            Scheduled::EngineInput { engine, incarnation, input: Box::new(input) },
        );
    }

    /// Delivers the results of a batch to the sender.
    pub(crate) fn deliver(&mut self, id: u64) {
        let Some(mut batch) = self.network.batches.remove(&id) else { return };
        let Some(reply_to) = batch.reply_to.take() else { return };
        let deaf = self
            .network
            .links
            .replies_cut_until
            .get(&batch.sender)
            .is_some_and(|end| *end > self.now_ms);
        if deaf {
            for call in &batch.calls {
                let applied = matches!(call.learned, Some(Learned::Reply(_)));
                self.emit(batch.sender, EventKind::Lost { call: call.id, applied });
            }
            // The client still has to time out.
            if let ReplyTo::Worker { .. } | ReplyTo::Caller { .. } = reply_to {
                batch.reply_to = Some(reply_to);
                batch.unanswerable = true;
                self.network.batches.insert(id, batch);
            }
            return;
        }
        let mut answers = Vec::new();
        for call in &batch.calls {
            let learned = call.learned.clone().unwrap_or_else(broken);
            self.emit(
                batch.sender,
                EventKind::Delivered { call: call.id, learned: learned.clone() },
            );
            answers.push(learned);
        }
        match reply_to {
            ReplyTo::Engine { incarnation, ticket } => {
                let result = |learned| canary::change_answer(self.bug, answer(learned));
                let answers = answers.into_iter().map(result).collect();
                self.deliver_to_engine(
                    batch.sender,
                    incarnation,
                    Input::Settled { ticket, answers },
                );
            }
            ReplyTo::Caller { incarnation, action, ticket } => {
                for (call, learned) in batch.calls.iter().zip(&answers) {
                    let (call, learned) = (call.id, learned.clone());
                    self.emit(batch.sender, EventKind::Returned { call, learned });
                }
                self.caller_answered(batch.sender, (incarnation, action, ticket), answers);
            }
            ReplyTo::Worker { incarnation, ticket } => {
                let answers = answers.into_iter().map(answer).collect();
                self.deliver_to_worker(batch.sender, incarnation, ticket, answers);
            }
        }
    }

    /// A client stops waiting for a result. The call may still arrive.
    pub(crate) fn give_up(&mut self, id: u64) {
        let Some(batch) = self.network.batches.get_mut(&id) else { return };
        let sender = batch.sender;
        let reply_to = match batch.reply_to.take() {
            Some(reply_to @ (ReplyTo::Worker { .. } | ReplyTo::Caller { .. })) => reply_to,
            engine_or_nobody => return batch.reply_to = engine_or_nobody,
        };
        let calls: Vec<CallId> = batch.calls.iter().map(|call| call.id).collect();
        if batch.unanswered == 0 {
            self.network.batches.remove(&id);
        }
        let learned = Learned::PerhapsApplied("no answer in time".to_owned());
        for call in &calls {
            let (call, learned) = (*call, learned.clone());
            self.emit(sender, EventKind::Delivered { call, learned });
        }
        match reply_to {
            ReplyTo::Worker { incarnation, ticket } => {
                let answers = calls.iter().map(|_| answer(learned.clone())).collect();
                self.deliver_to_worker(sender, incarnation, ticket, answers);
            }
            ReplyTo::Caller { incarnation, action, ticket } => {
                let answers = vec![learned; calls.len()];
                self.caller_answered(sender, (incarnation, action, ticket), answers);
            }
            ReplyTo::Engine { .. } => {}
        }
    }
}

pub(super) fn broken() -> Learned {
    Learned::PerhapsApplied("the connection broke".to_owned())
}

pub(super) fn error(text: &str) -> Learned {
    Learned::Reply(Value::Error(text.to_owned()))
}

pub(crate) fn answer(learned: Learned) -> Answer {
    match learned {
        Learned::Reply(reply) => Answer::Applied(reply),
        Learned::NotApplied(why) => Answer::NotApplied(ServerError::never_sent(why)),
        Learned::PerhapsApplied(why) => Answer::PerhapsApplied(ServerError::silence(why)),
    }
}
