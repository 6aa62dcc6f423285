//! `FenceNeverRepeats`

use std::collections::{BTreeMap, BTreeSet};

use selvedge_core::id::ExecutionId;

use super::{Class, Findings, Judge, Oracle, Scene, View};
use crate::event::{Event, What};

pub(super) const ORACLE: Oracle = Oracle {
    name: "FenceNeverRepeats",
    statement: "every new lease has a higher epoch, and no triple is issued twice, lost branches \
                included",
    class: Class::Safety,
    judge: || Box::<FenceNeverRepeats>::default(),
};

#[derive(Default)]
struct FenceNeverRepeats {
    fences: BTreeSet<[String; 3]>,
    epochs: BTreeMap<ExecutionId, i64>,
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
            if !self.fences.insert(is.fence.clone()) || last.is_some_and(|last| is.epoch <= last) {
                findings.add(view, &change.of, format!("{:?} after epoch {last:?}", is.fence));
            }
        }
    }
}
