//! `PurgedInTime`

use std::collections::{BTreeMap, BTreeSet};

use selvedge_core::audit::{Execution, Snapshot};
use selvedge_core::id::{ExecutionId, LaneId};
use selvedge_core::key::{Key, LaneIndex};

use super::call::Call;
use super::scene::kept_ms;
use super::{Class, Findings, Judge, Oracle, Rest, Scene, View};
use crate::event::{Event, Phase, What};

pub(super) const ORACLE: Oracle = Oracle {
    name: "PurgedInTime",
    statement: "who ended and was kept long enough is purged, unless a child still needs it",
    class: Class::Liveness,
    judge: || Box::<PurgedInTime>::default(),
};

/// How long an execution is kept when its policy does not say.
pub(super) const RETENTION_MS: i64 = 86_400_000;
/// Ended executions of a lane that one cycle looks at.
const LOOKED_AT_PER_CYCLE: u64 = 20;
/// After so many failures in a row an engine leaves a candidate alone for so many cycles.
const FAILURES_MAX: u64 = 3;
const BACKOFF_CYCLES: u64 = 10;

#[derive(Default)]
struct PurgedInTime {
    /// When faults stopped.
    calm_since_ms: Option<u64>,
    /// Who was kept for the sake of a child the last time that somebody asked.
    held: BTreeSet<ExecutionId>,
    /// How often somebody could not be purged, since he was last answered for.
    failed: BTreeMap<ExecutionId, u64>,
}

impl Judge for PurgedInTime {
    fn see(&mut self, event: &Event, _: &Scene, _: &View<'_>, _: &mut Findings) {
        if matches!(event.what, What::Phase(Phase::Liveness)) {
            self.calm_since_ms = Some(event.at_ms);
        }
        let What::Applied(applied) = &event.what else { return };
        let Some(call) = Call::of(applied).filter(|call| call.function == "purge_execution") else {
            return;
        };
        let Some(id) = call.execution() else { return };
        if !applied.answer.is_done() {
            *self.failed.entry(id).or_default() += 1;
            return;
        }
        self.failed.remove(&id);
        if applied.answer.says("held") {
            self.held.insert(id);
        } else {
            self.held.remove(&id);
        }
    }

    fn rest(&mut self, _: Rest, view: &View<'_>, findings: &mut Findings) {
        let Some(calm) = self.calm_since_ms else { return };
        let calm_ms = view.now_ms.saturating_sub(calm);
        for shard in view.shards {
            let ended = shard.executions().filter(|one| !self.held.contains(one.id));
            for execution in ended.filter(|one| one.core.text("lifecycle_phase") == "terminal") {
                let kept_ms = kept_ms(shard, execution.id).unwrap_or(RETENTION_MS);
                let over_ms = shard.now().0 - execution.core.number("completed_at");
                let over_ms = u64::try_from(over_ms - kept_ms).unwrap_or(0);
                let failed = self.failed.get(execution.id).is_some_and(|n| *n >= FAILURES_MAX);
                let left_alone = if failed { BACKOFF_CYCLES } else { 0 };
                let looks = ended_in_lane(shard, &execution) / LOOKED_AT_PER_CYCLE + 2;
                let cycles = looks + left_alone;
                if over_ms.min(calm_ms) > cycles * view.config.cycle_ms() {
                    let what = format!("has ended, and should be gone since {over_ms} ms");
                    findings.add(view, execution.id, what);
                }
            }
        }
    }
}

/// How many have ended in its lane, each of whom may be looked at before it.
fn ended_in_lane(shard: &Snapshot, execution: &Execution<'_>) -> u64 {
    let Ok(lane) = execution.core.text("lane_id").parse::<LaneId>() else { return 0 };
    let index = Key::index(execution.partition()).lane(&lane, LaneIndex::Terminal);
    shard.zset(&index).len() as u64
}
