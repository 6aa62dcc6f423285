//! `FenceNeverRepeats`: every new lease has a higher epoch, and no fence triple is issued twice,
//! not even on a lost branch.

use std::collections::BTreeMap;

use selvedge_core::id::ExecutionId;
use selvedge_core::key::Key;

use super::{Changes, Checker, Class, Findings, Oracle, View};
use crate::event::{Actor, Event, EventKind};

pub(super) const ORACLE: Oracle = Oracle {
    name: "FenceNeverRepeats",
    statement: "every new lease has a higher epoch, and no fence triple is issued twice, not even on \
                a lost branch",
    class: Class::Safety,
    checker: || Box::<FenceNeverRepeats>::default(),
};

#[derive(Default)]
struct FenceNeverRepeats {
    fences: BTreeMap<[String; 3], Issued>,
    epochs: BTreeMap<ExecutionId, i64>,
}

/// Who got a triple, for which execution, and when.
struct Issued {
    to: Actor,
    of: ExecutionId,
    at_ms: u64,
}

impl Issued {
    /// Whether its lease was lost: then the same worker may get the same triple again with a
    /// repeated claim.
    fn may_repeat(&self, to: Actor, view: &View<'_>) -> bool {
        let record = Key::execution(&self.of).core().to_string();
        self.to == to && view.commit_log.loss_excuse(record.as_bytes(), self.at_ms).is_some()
    }
}

impl Checker for FenceNeverRepeats {
    fn on_event(
        &mut self,
        event: &Event,
        changes: &Changes,
        view: &View<'_>,
        findings: &mut Findings,
    ) {
        if matches!(event.kind, EventKind::CommitsLost { .. }) {
            // The epoch is lost with the commit; the triples stay issued.
            self.epochs.clear();
        }
        for change in &changes.executions {
            if change.is.is_none() {
                self.epochs.remove(&change.of);
            }
            let Some(is) = change.got_a_lease() else { continue };
            let last = self.epochs.insert(change.of.clone(), is.epoch);
            let issued = Issued { to: event.actor, of: change.of.clone(), at_ms: event.at_ms };
            let before = self.fences.insert(is.fence.clone(), issued);
            let again = before.is_some_and(|before| !before.may_repeat(event.actor, view));
            if again || last.is_some_and(|last| is.epoch <= last) {
                findings.add(view, &change.of, format!("got {:?} after epoch {last:?}", is.fence));
            }
        }
    }
}
