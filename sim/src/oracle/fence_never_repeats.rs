//! `FenceNeverRepeats`

use std::collections::BTreeMap;

use selvedge_core::id::ExecutionId;
use selvedge_core::key::Key;

use super::{Class, Findings, Judge, Oracle, Scene, View};
use crate::event::{Actor, Event, What};

pub(super) const ORACLE: Oracle = Oracle {
    name: "FenceNeverRepeats",
    statement: "every new lease has a higher epoch, and no triple is issued to two, lost branches \
                included",
    class: Class::Safety,
    judge: || Box::<FenceNeverRepeats>::default(),
};

#[derive(Default)]
struct FenceNeverRepeats {
    fences: BTreeMap<[String; 3], Issued>,
    epochs: BTreeMap<ExecutionId, i64>,
}

/// Who got a triple, for what, and when.
struct Issued {
    to: Actor,
    of: ExecutionId,
    at_ms: u64,
}

impl Issued {
    /// Whether it was lost together with its lease, so that who asks again, not having heard, gets
    /// a lease under the same triple: one holder, as before.
    fn may_go_again(&self, to: Actor, view: &View<'_>) -> bool {
        let record = Key::execution(&self.of).core().to_string();
        self.to == to && view.ledger.loss_excuse(record.as_bytes(), self.at_ms).is_some()
    }
}

impl Judge for FenceNeverRepeats {
    fn see(&mut self, event: &Event, scene: &Scene, view: &View<'_>, findings: &mut Findings) {
        if matches!(event.what, What::CommitsLost { .. }) {
            // With the commit its epoch is gone; the triples stay issued.
            self.epochs.clear();
        }
        for change in &scene.executions {
            if change.is.is_none() {
                self.epochs.remove(&change.of);
            }
            let Some(is) = change.got_a_lease() else { continue };
            let last = self.epochs.insert(change.of.clone(), is.epoch);
            let issued = Issued { to: event.actor, of: change.of.clone(), at_ms: event.at_ms };
            let before = self.fences.insert(is.fence.clone(), issued);
            let again = before.is_some_and(|before| !before.may_go_again(event.actor, view));
            if again || last.is_some_and(|last| is.epoch <= last) {
                findings.add(view, &change.of, format!("{:?} after epoch {last:?}", is.fence));
            }
        }
    }
}
