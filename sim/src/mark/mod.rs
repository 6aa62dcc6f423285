//! Marks show that the hard states were reached: named predicates over the event stream, counted in
//! every run. A soak that never hits a mark fails.

mod catalogue;
mod history;
mod sleep;

use std::collections::BTreeMap;

use crate::event::{Actor, Event, EventKind};
use crate::oracle::View;
use crate::oracle::call::{Answer, Call};
use crate::oracle::changes::Changes;

pub use catalogue::MARKS;
use history::History;

/// A situation that must occur in some runs.
#[derive(Clone, Copy)]
pub struct Mark {
    /// Its name, which says what happened.
    pub name: &'static str,
    seen: fn(&MarkContext<'_>) -> bool,
}

/// How often each mark was hit.
pub type Marks = BTreeMap<&'static str, u64>;

/// The marks that were not hit.
#[must_use]
pub fn missed(marks: &Marks) -> Vec<&'static str> {
    MARKS.iter().map(|mark| mark.name).filter(|name| !marks.contains_key(name)).collect()
}

/// An event, and what a mark can ask about it.
struct MarkContext<'a> {
    event: &'a Event,
    changes: &'a Changes,
    view: &'a View<'a>,
    call: Option<Call<'a>>,
    answer: &'a Answer,
    history: &'a History,
}

impl MarkContext<'_> {
    /// Whether this function was applied, with this word in its answer.
    fn did(&self, function: &str, word: &str) -> bool {
        self.called(function) && self.answer.says(word)
    }

    /// Whether this function was applied and not refused.
    fn done(&self, function: &str) -> bool {
        self.called(function) && self.answer.is_done()
    }

    /// Whether this function was refused with this code.
    fn refused(&self, function: &str, code: &str) -> bool {
        self.called(function) && matches!(self.answer, Answer::Refused(said) if said == code)
    }

    fn called(&self, function: &str) -> bool {
        self.call.is_some_and(|call| call.function == function)
    }

    fn by_engine(&self) -> bool {
        matches!(self.event.actor, Actor::Engine(_))
    }

    fn by_caller(&self) -> bool {
        matches!(self.event.actor, Actor::Caller(_))
    }

    fn by_worker(&self) -> bool {
        matches!(self.event.actor, Actor::Worker(_))
    }
}

/// Counts all marks during a run.
#[derive(Default)]
pub(crate) struct MarkCounter {
    marks: Marks,
    history: History,
}

impl MarkCounter {
    pub(crate) const fn marks(&self) -> &Marks {
        &self.marks
    }

    pub(crate) fn on_event(&mut self, event: &Event, changes: &Changes, view: &View<'_>) {
        let (call, answer) = match &event.kind {
            EventKind::Applied(applied) => (Call::of(applied), &applied.answer),
            EventKind::Observed(_)
            | EventKind::WaitOver { .. }
            | EventKind::Succeeded { .. }
            | EventKind::WorkerObserved(_)
            | EventKind::Handler { .. }
            | EventKind::Delivered { .. }
            | EventKind::Lost { .. }
            | EventKind::Died
            | EventKind::Started
            | EventKind::CommitsLost { .. }
            | EventKind::Fault { .. } => (None, &Answer::Plain),
            EventKind::Sent { .. }
            | EventKind::Capacity(_)
            | EventKind::Waits { .. }
            | EventKind::Invoked { .. }
            | EventKind::Returned { .. }
            | EventKind::Phase(_)
            | EventKind::KeyOnTwoNodes(_)
            | EventKind::Note(_) => return self.history.record(event, changes),
        };
        let context = MarkContext { event, changes, view, call, answer, history: &self.history };
        for mark in MARKS.iter().filter(|mark| (mark.seen)(&context)) {
            *self.marks.entry(mark.name).or_default() += 1;
        }
        self.history.record(event, changes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mark_names_are_unique() {
        let names: std::collections::BTreeSet<_> = MARKS.iter().map(|mark| mark.name).collect();
        assert_eq!(names.len(), MARKS.len());
        assert!(names.len() >= 40, "{}", names.len());
        assert_eq!(missed(&Marks::new()).len(), MARKS.len());
    }
}
