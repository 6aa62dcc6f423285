//! Marks prove that the hard states were reached: named predicates over the event stream, counted
//! per run. A soak in which a mark was never hit has not tested what it says.

mod catalogue;
mod trail;

use std::collections::BTreeMap;

use crate::event::{Actor, Event, What};
use crate::oracle::View;
use crate::oracle::call::{Answer, Call};
use crate::oracle::scene::Scene;

pub use catalogue::MARKS;
use trail::Trail;

/// Something that must happen sometimes.
#[derive(Clone, Copy)]
pub struct Mark {
    /// Its name, which says what happened.
    pub name: &'static str,
    seen: fn(&Glance<'_>) -> bool,
}

/// How often each mark was hit.
pub type Marks = BTreeMap<&'static str, u64>;

/// The marks that none of these runs hit.
#[must_use]
pub fn missed(marks: &Marks) -> Vec<&'static str> {
    MARKS.iter().map(|mark| mark.name).filter(|name| !marks.contains_key(name)).collect()
}

/// One event, with what a mark may ask about it.
struct Glance<'a> {
    event: &'a Event,
    scene: &'a Scene,
    view: &'a View<'a>,
    call: Option<Call<'a>>,
    answer: &'a Answer,
    trail: &'a Trail,
}

impl Glance<'_> {
    /// Whether a server carried out this function, and one word of its answer is this.
    fn did(&self, function: &str, word: &str) -> bool {
        self.called(function) && self.answer.says(word)
    }

    /// Whether a server carried out this function and did not refuse it.
    fn done(&self, function: &str) -> bool {
        self.called(function) && self.answer.is_done()
    }

    /// Whether a server refused this function with this code.
    fn refused(&self, function: &str, code: &str) -> bool {
        self.called(function) && matches!(self.answer, Answer::Refused(said) if said == code)
    }

    fn called(&self, function: &str) -> bool {
        self.call.is_some_and(|call| call.function == function)
    }

    fn by_engine(&self) -> bool {
        matches!(self.event.actor, Actor::Engine(_))
    }

    fn by_worker(&self) -> bool {
        matches!(self.event.actor, Actor::Worker(_))
    }
}

/// Looks out for all marks during one run.
#[derive(Default)]
pub(crate) struct Lookout {
    marks: Marks,
    trail: Trail,
}

impl Lookout {
    pub(crate) const fn marks(&self) -> &Marks {
        &self.marks
    }

    pub(crate) fn see(&mut self, event: &Event, scene: &Scene, view: &View<'_>) {
        let (call, answer) = match &event.what {
            What::Applied(applied) => (Call::of(applied), &applied.answer),
            What::Observed(_)
            | What::Delivered { .. }
            | What::Lost { .. }
            | What::Died
            | What::Started
            | What::CommitsLost { .. }
            | What::Fault { .. } => (None, &Answer::Plain),
            What::Sent { .. }
            | What::Invoked { .. }
            | What::Returned { .. }
            | What::Phase(_)
            | What::Note(_) => return self.trail.follow(event, scene),
        };
        let glance = Glance { event, scene, view, call, answer, trail: &self.trail };
        for mark in MARKS.iter().filter(|mark| (mark.seen)(&glance)) {
            *self.marks.entry(mark.name).or_default() += 1;
        }
        self.trail.follow(event, scene);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_enough_marks_and_no_name_stands_twice() {
        let names: std::collections::BTreeSet<_> = MARKS.iter().map(|mark| mark.name).collect();
        assert_eq!(names.len(), MARKS.len());
        assert!(names.len() >= 40, "{}", names.len());
        assert_eq!(missed(&Marks::new()).len(), MARKS.len());
    }
}
