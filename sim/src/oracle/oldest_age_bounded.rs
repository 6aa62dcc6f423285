//! `OldestAgeBounded`

use std::collections::BTreeMap;

use selvedge_core::id::ExecutionId;
use selvedge_core::key::{IndexPart, Key, LaneIndex};
use selvedge_core::state::{EligibilityState, LifecyclePhase, StateVector};

use super::{Class, Findings, Judge, Oracle, Rest, Scene, View};
use crate::event::{Event, Phase, What};

pub(super) const ORACLE: Oracle = Oracle {
    name: "OldestAgeBounded",
    statement: "while workers serve those behind it, no lane, no partition and no tenant starves",
    class: Class::Liveness,
    judge: || Box::<OldestAgeBounded>::default(),
};

/// Nobody may wait in line for more than this share of the whole bound for rest.
const SHARE_OF_BOUND: u64 = 2;

#[derive(Default)]
struct OldestAgeBounded {
    /// When faults stopped.
    calm_since_ms: Option<u64>,
    /// Whether anybody got work since.
    served: bool,
    /// Who is in line.
    line: BTreeMap<ExecutionId, Place>,
}

/// A place in line.
struct Place {
    lane: String,
    /// Since when in calm.
    since_ms: u64,
    /// Who has less is to be served first.
    score: f64,
}

impl Judge for OldestAgeBounded {
    fn see(&mut self, event: &Event, scene: &Scene, view: &View<'_>, findings: &mut Findings) {
        if matches!(event.what, What::Phase(Phase::Liveness)) {
            self.calm_since_ms = Some(event.at_ms);
            self.form_line(event.at_ms, view);
        }
        if self.calm_since_ms.is_none() {
            return;
        }
        for change in &scene.executions {
            match change.is.as_ref().filter(|is| in_line(is.vector)) {
                Some(_) => self.stand_in_line(&change.of, event.at_ms, view),
                None => drop(self.line.remove(&change.of)),
            }
            if let Some(served) = change.got_a_lease() {
                self.served = true;
                let score = view.of(change.of.partition()).execution(&change.of);
                if let Some(score) = score.map(|served| served.place_in_line()) {
                    self.passed_over(&served.lane, score, view, findings);
                }
            }
        }
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
            for (key, _) in shard.iter() {
                let Key::Index(_, IndexPart::Lane(_, LaneIndex::Eligible)) = key else { continue };
                for member in shard.zset(key).keys() {
                    findings.add(view, member, format!("waits in {key} since {waited} ms of calm"));
                }
            }
        }
    }
}

impl OldestAgeBounded {
    fn form_line(&mut self, now_ms: u64, view: &View<'_>) {
        for shard in view.shards {
            for execution in shard.executions() {
                if in_line(execution.vector().ok()) {
                    self.stand_in_line(execution.id, now_ms, view);
                }
            }
        }
    }

    fn stand_in_line(&mut self, id: &ExecutionId, now_ms: u64, view: &View<'_>) {
        let Some(execution) = view.of(id.partition()).execution(id) else { return };
        self.line.entry(id.clone()).or_insert_with(|| Place {
            lane: execution.core.text("lane_id").to_owned(),
            since_ms: now_ms,
            score: execution.place_in_line(),
        });
    }

    /// Somebody of a lane was served: who of the same lane, of whichever partition and tenant,
    /// stands before it and has waited for too long? Whoever stands behind waits for its turn,
    /// which a limit may put off for as long as it likes. Each is told once.
    fn passed_over(&mut self, lane: &str, served: f64, view: &View<'_>, findings: &mut Findings) {
        let allowed = view.config.bound.0 / SHARE_OF_BOUND;
        self.line.retain(|id, place| {
            let waited = view.now_ms.saturating_sub(place.since_ms);
            let starves = place.lane == lane && place.score < served && waited > allowed;
            if starves {
                let tenant = view.of(id.partition()).execution(id);
                let tenant = tenant.map(|one| one.core.text("namespace").to_owned());
                let tenant = tenant.unwrap_or_default();
                let what = format!(
                    "of {tenant} waits in {lane} for {waited} ms, others behind it are served"
                );
                findings.add(view, id, what);
            }
            !starves
        });
    }
}

fn in_line(vector: Option<StateVector>) -> bool {
    vector.is_some_and(|vector| {
        vector.phase == LifecyclePhase::Runnable
            && vector.eligibility == EligibilityState::EligibleNow
    })
}
