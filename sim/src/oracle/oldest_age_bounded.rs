//! `OldestAgeBounded`: no eligible execution waits too long while others behind it are claimed.

use std::collections::BTreeMap;

use selvedge_core::id::ExecutionId;
use selvedge_core::key::{IndexPart, Key, LaneIndex};
use selvedge_core::state::{EligibilityState, LifecyclePhase, StateVector};

use super::{Changes, Checker, Class, Findings, Oracle, RunEnd, View};
use crate::event::{Event, EventKind, Phase};

pub(super) const ORACLE: Oracle = Oracle {
    name: "OldestAgeBounded",
    statement: "no eligible execution waits too long while others behind it are claimed",
    class: Class::Liveness,
    checker: || Box::<OldestAgeBounded>::default(),
};

/// No execution may be eligible for longer than this fraction of the bound.
const SHARE_OF_BOUND: u64 = 2;

#[derive(Default)]
struct OldestAgeBounded {
    /// When faults stopped.
    calm_since_ms: Option<u64>,
    /// Whether any execution was claimed since then.
    served: bool,
    /// Eligible executions.
    line: BTreeMap<ExecutionId, Place>,
}

/// An eligible execution.
struct Place {
    lane: String,
    /// Since when, counted from the end of the faults.
    since_ms: u64,
    /// Its score in the index: lower is claimed first.
    score: f64,
}

impl Checker for OldestAgeBounded {
    fn on_event(
        &mut self,
        event: &Event,
        changes: &Changes,
        view: &View<'_>,
        findings: &mut Findings,
    ) {
        if matches!(event.kind, EventKind::Phase(Phase::Liveness)) {
            self.calm_since_ms = Some(event.at_ms);
            self.add_all_eligible(event.at_ms, view);
        }
        if self.calm_since_ms.is_none() {
            return;
        }
        for change in &changes.executions {
            match change.is.as_ref().filter(|is| is_eligible(is.vector)) {
                Some(_) => self.add_eligible(&change.of, event.at_ms, view),
                None => drop(self.line.remove(&change.of)),
            }
            if let Some(served) = change.got_a_lease() {
                self.served = true;
                let score = view.of(change.of.partition()).execution(&change.of);
                if let Some(score) = score.map(|served| served.eligible_score()) {
                    self.report_starving(&served.lane, score, view, findings);
                }
            }
        }
    }

    fn on_end(&mut self, end: RunEnd, view: &View<'_>, findings: &mut Findings) {
        let Some(calm) = self.calm_since_ms.filter(|_| end == RunEnd::Overdue && self.served)
        else {
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
                    findings.add(
                        view,
                        member,
                        format!("has waited in {key} for {waited} ms without faults"),
                    );
                }
            }
        }
    }
}

impl OldestAgeBounded {
    fn add_all_eligible(&mut self, now_ms: u64, view: &View<'_>) {
        for shard in view.shards {
            for execution in shard.executions() {
                if is_eligible(execution.vector().ok()) {
                    self.add_eligible(execution.id, now_ms, view);
                }
            }
        }
    }

    fn add_eligible(&mut self, id: &ExecutionId, now_ms: u64, view: &View<'_>) {
        let Some(execution) = view.of(id.partition()).execution(id) else { return };
        self.line.entry(id.clone()).or_insert_with(|| Place {
            lane: execution.core.text("lane_id").to_owned(),
            since_ms: now_ms,
            score: execution.eligible_score(),
        });
    }

    /// An execution of a lane was claimed: reports all executions of that lane with a lower score
    /// that have waited too long, in any partition and of any tenant. Each is reported once.
    fn report_starving(
        &mut self,
        lane: &str,
        served: f64,
        view: &View<'_>,
        findings: &mut Findings,
    ) {
        let allowed = view.config.bound.0 / SHARE_OF_BOUND;
        self.line.retain(|id, place| {
            let waited = view.now_ms.saturating_sub(place.since_ms);
            let starves = place.lane == lane && place.score < served && waited > allowed;
            if starves {
                let tenant = view.of(id.partition()).execution(id);
                let tenant = tenant.map(|one| one.core.text("namespace").to_owned());
                let tenant = tenant.unwrap_or_default();
                let what = format!(
                    "of {tenant} has waited in {lane} for {waited} ms while others behind it were claimed"
                );
                findings.add(view, id, what);
            }
            !starves
        });
    }
}

fn is_eligible(vector: Option<StateVector>) -> bool {
    vector.is_some_and(|vector| {
        vector.phase == LifecyclePhase::Runnable
            && vector.eligibility == EligibilityState::EligibleNow
    })
}
