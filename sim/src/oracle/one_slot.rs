//! `OneSlot`: the part that needs the history. The state oracle checks stored ids.

use selvedge_core::partition::slot;

use super::call::Call;
use super::{Changes, Checker, Class, Findings, Oracle, View};
use crate::event::{Event, EventKind, keys_of};

pub(super) const ORACLE: Oracle = Oracle {
    name: "OneSlot",
    statement: "all keys that a call touches, declared or derived, share its slot",
    class: Class::Safety,
    checker: || Box::new(OneSlot),
};

struct OneSlot;

/// Functions of the contract whose keys have no hash tag. They cannot run on a cluster.
const UNTAGGED: [&str; 2] = ["register_worker", "heartbeat_worker"];

impl Checker for OneSlot {
    fn on_event(&mut self, event: &Event, _: &Changes, view: &View<'_>, findings: &mut Findings) {
        let EventKind::Applied(applied) = &event.kind else { return };
        let Some(call) = Call::of(applied) else { return };
        if UNTAGGED.contains(&call.function) {
            return;
        }
        let declared = keys_of(&applied.argv).iter().filter(|key| !key.is_empty());
        let mut first: Option<(&[u8], u16)> = None;
        for key in declared.chain(view.touched) {
            let found = slot(key);
            match first {
                None => first = Some((key, found)),
                Some((_, at)) if at == found => {}
                Some((other, _)) => {
                    let (key, other) = (key.escape_ascii(), other.escape_ascii());
                    return findings.add(view, call.function, format!("touched {other} and {key}"));
                }
            }
        }
    }
}
