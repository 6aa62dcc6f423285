//! `OneSlot`: what a history can show of it. Where stored ids live, any state shows.

use selvedge_core::partition::slot;

use super::call::Call;
use super::{Class, Findings, Judge, Oracle, Scene, View};
use crate::event::{Event, What, keys_of};

pub(super) const ORACLE: Oracle = Oracle {
    name: "OneSlot",
    statement: "all keys that a call touches, declared or derived, share its slot",
    class: Class::Safety,
    judge: || Box::new(OneSlot),
};

struct OneSlot;

/// Functions of the contract whose keys have no hash tag; they cannot run on a cluster.
const UNTAGGED: [&str; 2] = ["register_worker", "heartbeat_worker"];

impl Judge for OneSlot {
    fn see(&mut self, event: &Event, _: &Scene, view: &View<'_>, findings: &mut Findings) {
        let What::Applied(applied) = &event.what else { return };
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
