//! `OneCopy`: while a slot moves key by key, nobody writes to the new node what the old one still
//! holds.

use super::{Changes, Checker, Class, Findings, Oracle, View};
use crate::event::{Event, EventKind};

pub(super) const ORACLE: Oracle = Oracle {
    name: "OneCopy",
    statement: "no key is on two nodes while its slot moves",
    class: Class::Safety,
    checker: || Box::new(OneCopy),
};

struct OneCopy;

impl Checker for OneCopy {
    fn on_event(&mut self, event: &Event, _: &Changes, view: &View<'_>, findings: &mut Findings) {
        if let EventKind::KeyOnTwoNodes(key) = &event.kind {
            findings.add(view, key, "is on both nodes of a slot that moves");
        }
    }
}
