//! `PurgedInTime`: ended executions are purged after their retention, unless a child still needs
//! them.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_core::audit::{Execution, Snapshot};
use selvedge_core::id::{ExecutionId, LaneId};
use selvedge_core::key::{Key, LaneIndex};
use selvedge_core::value::Value;

use super::call::{Answer, Call};
use super::changes::retention_ms;
use super::{Changes, Checker, Class, Findings, Oracle, RunEnd, View};
use crate::event::{Applied, Event, EventKind, Phase};

pub(super) const ORACLE: Oracle = Oracle {
    name: "PurgedInTime",
    statement: "ended executions are purged after their retention, unless a child still needs them",
    class: Class::Liveness,
    checker: || Box::<PurgedInTime>::default(),
};

/// The default retention.
pub(super) const RETENTION_MS: i64 = 86_400_000;
/// How many ended executions of a lane a cycle visits.
const LOOKED_AT_PER_CYCLE: u64 = 20;
/// After this many failures an engine skips an execution for this many cycles.
const FAILURES_MAX: u64 = 3;
const BACKOFF_CYCLES: u64 = 10;

#[derive(Default)]
struct PurgedInTime {
    /// When faults stopped.
    calm_since_ms: Option<u64>,
    /// Executions that the last purge kept because of a child.
    needed: BTreeSet<ExecutionId>,
    /// Failed purges in a row, by execution.
    failed: BTreeMap<ExecutionId, u64>,
}

impl Checker for PurgedInTime {
    fn on_event(&mut self, event: &Event, _: &Changes, _: &View<'_>, _: &mut Findings) {
        if matches!(event.kind, EventKind::Phase(Phase::Liveness)) {
            self.calm_since_ms = Some(event.at_ms);
        }
        let EventKind::Applied(applied) = &event.kind else { return };
        for (id, answer) in purges(applied) {
            if !answer.is_done() {
                *self.failed.entry(id).or_default() += 1;
                continue;
            }
            self.failed.remove(&id);
            if answer.says("needed") {
                self.needed.insert(id);
            } else {
                self.needed.remove(&id);
            }
        }
    }

    fn on_end(&mut self, _: RunEnd, view: &View<'_>, findings: &mut Findings) {
        let Some(calm) = self.calm_since_ms else { return };
        let calm_ms = view.now_ms.saturating_sub(calm);
        for shard in view.shards {
            let ended = shard.executions().filter(|one| !self.needed.contains(one.id));
            for execution in ended.filter(|one| one.core.text("lifecycle_phase") == "terminal") {
                let retention_ms = retention_ms(shard, execution.id).unwrap_or(RETENTION_MS);
                let over_ms = shard.now().0 - execution.core.number("completed_at");
                let over_ms = u64::try_from(over_ms - retention_ms).unwrap_or(0);
                let failed = self.failed.get(execution.id).is_some_and(|n| *n >= FAILURES_MAX);
                let left_alone = if failed { BACKOFF_CYCLES } else { 0 };
                let looks = ended_in_lane(shard, &execution) / LOOKED_AT_PER_CYCLE + 2;
                let cycles = looks + left_alone;
                if over_ms.min(calm_ms) > cycles * view.config.cycle_ms() {
                    let what = format!("should have been purged {over_ms} ms ago");
                    findings.add(view, execution.id, what);
                }
            }
        }
    }
}

/// The executions that a call purged or tried to, each with the answer.
pub(super) fn purges(applied: &Applied) -> Vec<(ExecutionId, Answer)> {
    let Some(call) = Call::of(applied) else { return Vec::new() };
    if call.function == "purge_execution" {
        return call.execution().into_iter().map(|id| (id, applied.answer.clone())).collect();
    }
    if call.function != "purge_executions" {
        return Vec::new();
    }
    let ids = call.arguments().iter().skip(NAMED_ARGUMENTS);
    let ids = ids.filter_map(|id| std::str::from_utf8(id).ok()?.parse().ok());
    if let Value::Array(all) = &applied.reply
        && applied.answer.is_done()
    {
        return ids.zip(all.iter().skip(2)).map(|(id, one)| (id, answer_of_one(one))).collect();
    }
    ids.map(|id| (id, applied.answer.clone())).collect()
}

/// An error stands in an array of its own.
fn answer_of_one(reply: &Value) -> Answer {
    let is_error = matches!(reply, Value::Array(one) if one.len() == 1);
    if is_error { Answer::Raised(String::new()) } else { Answer::read(reply) }
}

/// The arguments of a call about many before the ids.
const NAMED_ARGUMENTS: usize = 3;

/// The number of ended executions in its lane, all of which may be visited first.
fn ended_in_lane(shard: &Snapshot, execution: &Execution<'_>) -> u64 {
    let Ok(lane) = execution.core.text("lane_id").parse::<LaneId>() else { return 0 };
    let index = Key::index(execution.partition()).lane(&lane, LaneIndex::Terminal);
    shard.zset(&index).len() as u64
}
