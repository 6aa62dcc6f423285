//! `AllSettle`

use selvedge_core::audit::Snapshot;
use selvedge_core::key::Key;
use selvedge_core::state::{BlockingReason, EligibilityState, LifecyclePhase, StateVector};

use super::{Class, Findings, Judge, Oracle, Rest, Scene, View};
use crate::event::Event;

pub(super) const ORACLE: Oracle = Oracle {
    name: "AllSettle",
    statement: "every execution with a capable worker ends, or waits for what nobody brings",
    class: Class::Liveness,
    judge: || Box::new(AllSettle),
};

struct AllSettle;

impl Judge for AllSettle {
    fn see(&mut self, _: &Event, _: &Scene, _: &View<'_>, _: &mut Findings) {}

    fn rest(&mut self, end: Rest, view: &View<'_>, findings: &mut Findings) {
        if end != Rest::Begins || view.config.workers == 0 {
            return;
        }
        for shard in view.shards {
            for execution in shard.executions() {
                let Ok(vector) = execution.vector() else { continue };
                if !has_settled(shard, &execution, &vector) {
                    let state = execution.core.text("public_state");
                    findings.add(view, execution.id, format!("is {state} and stays so"));
                }
            }
        }
    }
}

/// Whether it ended, or waits for what nobody brings: a signal, an operator, an upstream that waits.
pub(crate) fn has_settled(
    shard: &Snapshot,
    execution: &selvedge_core::audit::Execution<'_>,
    vector: &StateVector,
) -> bool {
    match vector.phase {
        LifecyclePhase::Terminal => true,
        LifecyclePhase::Suspended => {
            let suspension = shard.hash(&Key::execution(execution.id).suspension());
            suspension.is_none_or(|suspension| suspension.number("timeout_at") <= 0)
                || vector.reason == BlockingReason::PausedByOperator
        }
        LifecyclePhase::Runnable => match vector.eligibility {
            EligibilityState::BlockedByDependencies => {
                let unsealed = !execution.core.text("unsealed").is_empty();
                unsealed || waits_for_others(shard, execution)
            }
            EligibilityState::BlockedByOperator
            | EligibilityState::BlockedByLaneState
            | EligibilityState::BlockedByRoute
            | EligibilityState::BlockedByBudget
            | EligibilityState::BlockedByQuota => true,
            EligibilityState::EligibleNow
            | EligibilityState::NotEligibleUntilTime
            | EligibilityState::NotApplicable => false,
        },
        LifecyclePhase::Submitted | LifecyclePhase::Active => false,
    }
}

/// Whether an upstream of it has not ended, or ended before its edge was armed again.
fn waits_for_others(shard: &Snapshot, child: &selvedge_core::audit::Execution<'_>) -> bool {
    let open = shard.set(&Key::execution(child.id).dependencies_unresolved());
    open.iter().any(|edge| {
        let Ok(edge) = edge.parse() else { return false };
        let Some(dep) = shard.hash(&Key::execution(child.id).dependency(edge)) else {
            return false;
        };
        let upstream = dep.text("upstream_execution_id").parse();
        upstream.is_ok_and(|upstream| {
            shard.execution(&upstream).is_some_and(|upstream| {
                let ended = upstream.core.number("completed_at");
                upstream.vector().is_ok_and(|vector| !vector.is_terminal())
                    || dep.number("rearmed_at") > ended
            })
        })
    })
}
