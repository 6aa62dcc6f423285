//! `OldestAgeBounded`

use selvedge_core::key::{IndexPart, Key, LaneIndex};

use super::{Class, Findings, Judge, Oracle, Rest, Scene, View};
use crate::event::{Event, Phase, What};

pub(super) const ORACLE: Oracle = Oracle {
    name: "OldestAgeBounded",
    statement: "while workers are served, no lane and no partition starves",
    class: Class::Liveness,
    judge: || Box::<OldestAgeBounded>::default(),
};

/// How much longer than the whole bound for rest nobody may wait in line.
const SHARE_OF_BOUND: u64 = 2;

#[derive(Default)]
struct OldestAgeBounded {
    /// When faults stopped.
    calm_since_ms: Option<u64>,
    /// Whether anybody got work since.
    served: bool,
}

impl Judge for OldestAgeBounded {
    fn see(&mut self, event: &Event, scene: &Scene, _: &View<'_>, _: &mut Findings) {
        if matches!(event.what, What::Phase(Phase::Liveness)) {
            self.calm_since_ms = Some(event.at_ms);
        }
        self.served |= self.calm_since_ms.is_some()
            && scene.executions.iter().any(|change| change.got_a_lease().is_some());
    }

    fn rest(&mut self, end: Rest, view: &View<'_>, findings: &mut Findings) {
        let Some(calm) = self.calm_since_ms.filter(|_| end == Rest::Overdue && self.served) else {
            return;
        };
        let waited = view.now_ms.saturating_sub(calm);
        if waited < view.config.bound.0 / SHARE_OF_BOUND {
            return;
        }
        for shard in view.shards {
            for (key, entry) in shard.iter() {
                let Key::Index(_, IndexPart::Lane(_, LaneIndex::Eligible)) = key else { continue };
                if entry.members() > 0 {
                    let count = entry.members();
                    findings.add(view, key, format!("{count} wait since {waited} ms of calm"));
                }
            }
        }
    }
}
