//! Asking and answering: a step asks for commands, they leave in batches by slot, and when the last
//! answer of a question is there the step goes on.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::Engine;
use super::driver::Order;
use super::flight::{Asked, Departure, Haste, Route};
use super::observe::Observation;
use super::scan::SCANNERS;
use super::step::{Fate, Notes, Reply, Step, Then, Verdict};
use super::wire::{Answer, Command, Effect, Ticket};
use crate::error::{Class, ServerError};
use crate::partition::Partition;

/// Whose step a question belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Crew {
    Strip(u64),
    Dispatch(u64),
}

/// What happens with the answers to a question.
pub(super) enum Next {
    /// They are pages that a visit asked for.
    Pages(Partition, Vec<Order>),
    /// They are what a step waits for.
    Step(Crew, Label, Then),
}

/// What a verdict will be filed under; dispatch has no label.
pub(super) type Label = Option<String>;

pub(super) struct Question {
    replies: Vec<Option<Reply>>,
    missing: usize,
    next: Next,
}

impl Engine {
    /// Files the answers of a batch, and goes on with every question that is now complete.
    pub(super) fn settle(&mut self, ticket: Ticket, answers: Vec<Answer>) {
        let Some(routes) = self.flight.land(ticket) else {
            self.observe(Observation::AnswerIgnored(ticket));
            return;
        };
        let mut answers = answers.into_iter();
        let mut complete = Vec::new();
        for routes in routes {
            let reply = match answers.next() {
                Some(answer) => answer.into_result(),
                None => Err(ServerError::silence("no answer came in time")),
            };
            for route in routes {
                if self.fill(route, reply.clone()) {
                    complete.push(route.question);
                }
            }
        }
        for question in complete {
            self.answer(question);
        }
    }

    /// A batch got no answer in time: nobody knows what became of it, and what waits for its slot is
    /// given up as never sent.
    pub(super) fn expire(&mut self, ticket: Ticket) {
        self.observe(Observation::TicketExpired(ticket));
        let stranded = self.flight.strand(ticket);
        self.settle(ticket, Vec::new());
        for route in stranded {
            let never_sent = ServerError::never_sent("the slot does not answer");
            if self.fill(route, Err(never_sent)) {
                self.answer(route.question);
            }
        }
    }

    /// Files one answer; says whether it was the last that its question waited for.
    fn fill(&mut self, route: Route, reply: Reply) -> bool {
        let Some(question) = self.questions.get_mut(&route.question) else { return false };
        let Some(place) = question.replies.get_mut(route.place) else { return false };
        if place.replace(reply).is_some() {
            return false;
        }
        question.missing -= 1;
        question.missing == 0
    }

    fn answer(&mut self, id: u64) {
        let Some(question) = self.questions.remove(&id) else { return };
        let replies: Vec<Reply> = question
            .replies
            .into_iter()
            .map(|reply| reply.unwrap_or_else(|| Err(ServerError::silence("not answered"))))
            .collect();
        match question.next {
            Next::Pages(partition, orders) => self.unfold(partition, orders, replies),
            Next::Step(crew, label, then) => {
                let step = then(self.notes(crew), replies);
                self.advance(crew, label, step);
            }
        }
    }

    /// Asks for commands; they leave when the input has been handled.
    pub(super) fn ask(&mut self, commands: Vec<Command>, next: Next) {
        let question = self.id();
        let (missing, haste) = (commands.len(), self.haste(&next));
        for (place, command) in commands.into_iter().enumerate() {
            self.stage(Route { question, place }, haste, command);
        }
        self.questions.insert(question, Question { replies: vec![None; missing], missing, next });
    }

    fn haste(&self, next: &Next) -> Haste {
        match next {
            Next::Step(Crew::Strip(id), ..) => match self.strips.get(id) {
                Some(strip) if SCANNERS[strip.order.scanner].is_patient() => Haste::Leisure,
                Some(_) | None => Haste::Due,
            },
            Next::Step(Crew::Dispatch(_), ..) | Next::Pages(..) => Haste::Due,
        }
    }

    fn stage(&mut self, route: Route, haste: Haste, command: Command) {
        let pile = (command.slot, haste);
        let staged = self.staged.entry(pile).or_default();
        if command.reads {
            let place = (pile, staged.len());
            let (known, at) = *self.staged_reads.entry(command.argv.clone()).or_insert(place);
            if known == pile
                && let Some(asked) = staged.get_mut(at)
            {
                asked.routes.push(route);
                return;
            }
        }
        staged.push(Asked { routes: vec![route], command });
    }

    pub(super) fn send(&mut self) {
        self.staged_reads.clear();
        for (pile, asked) in core::mem::take(&mut self.staged) {
            self.flight.queue(self.now, pile, asked);
        }
        if self.draining {
            // What was never sent is surely not applied, and the next engine will find it.
            for route in self.flight.cancel_waiting() {
                self.questions.remove(&route.question);
            }
        }
        while let Some(departure) = self.flight.depart(self.now) {
            let Departure { ticket, slot, batch } = departure;
            self.effects.push_back(Effect::Send { ticket, slot, batch });
        }
        if self.draining && !self.drained && self.flight.is_empty() {
            self.drained = true;
            self.observe(Observation::Drained);
        }
    }

    /// What a scanner's candidates tell each other; dispatch has nothing to tell.
    fn notes(&mut self, crew: Crew) -> &mut Notes {
        match crew {
            Crew::Strip(id) => match self.strips.get(&id) {
                Some(strip) => self.scans.notes(strip.order.scanner),
                None => &mut self.no_notes,
            },
            Crew::Dispatch(_) => &mut self.no_notes,
        }
    }

    /// Takes a step, and the next, until one has to wait or is done.
    pub(super) fn advance(&mut self, crew: Crew, label: Label, mut step: Step) {
        loop {
            match step {
                Step::Ask(commands, then) if commands.is_empty() => {
                    step = then(self.notes(crew), Vec::new());
                }
                // Draining ends a scan inside a partition too; the work stays where it was.
                Step::Ask(..) if self.draining => {
                    let stopped = ServerError::never_sent("the engine is stopping");
                    return self.conclude(crew, label, Verdict::error(stopped.into()));
                }
                Step::Ask(commands, then) => {
                    return self.ask(commands, Next::Step(crew, label, then));
                }
                Step::Done(verdict) => return self.conclude(crew, label, verdict),
            }
        }
    }

    fn conclude(&mut self, crew: Crew, label: Label, mut verdict: Verdict) {
        for fact in core::mem::take(&mut verdict.facts) {
            self.observe(fact);
        }
        self.report_trouble(&verdict);
        match crew {
            Crew::Strip(strip) => self.file(strip, label.unwrap_or_default(), verdict),
            Crew::Dispatch(item) => self.close_debt(item, verdict),
        }
    }

    /// Tells of a store that lacks the library or refuses us.
    fn report_trouble(&mut self, verdict: &Verdict) {
        if let Fate::NotNow(error) = &verdict.fate {
            self.report_class(error.clone());
        }
    }

    pub(super) fn report_class(&mut self, error: ServerError) {
        match error.class {
            Class::Library => self.observe(Observation::LibraryMissing { text: error.text }),
            Class::Denied => self.observe(Observation::Denied { text: error.text }),
            Class::Silence | Class::NotNow | Class::Redirect | Class::Broken => {}
        }
    }
}
