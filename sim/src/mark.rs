//! Marks prove that the hard states were reached: named predicates over the event stream, counted
//! per run. A soak in which a mark was never hit has not tested what it says.

use std::collections::BTreeMap;

use crate::event::Event;
use crate::oracle::View;

/// Something that must happen sometimes.
pub struct Mark {
    /// Its name.
    pub name: &'static str,
    /// What it says, in a sentence.
    pub statement: &'static str,
    /// A fresh watcher for one run.
    pub watcher: fn() -> Box<dyn Watcher>,
}

/// Looks out for one mark during one run.
pub trait Watcher {
    /// Whether this event hits the mark.
    fn hit(&mut self, event: &Event, view: &View<'_>) -> bool;
}

impl<F: FnMut(&Event, &View<'_>) -> bool> Watcher for F {
    fn hit(&mut self, event: &Event, view: &View<'_>) -> bool {
        self(event, view)
    }
}

/// How often each mark was hit.
pub type Marks = BTreeMap<&'static str, u64>;
