//! `AllSettle`

use std::collections::BTreeSet;

use selvedge_core::audit::Snapshot;
use selvedge_core::id::ExecutionId;
use selvedge_core::key::{FlowPart, Key};
use selvedge_core::state::PublicState;

use super::{Class, Findings, Judge, Oracle, Rest, Scene, View};
use crate::event::Event;

pub(super) const ORACLE: Oracle = Oracle {
    name: "AllSettle",
    statement: "every execution with a capable worker ends, or waits for a signal that nobody sends",
    class: Class::Liveness,
    judge: || Box::new(AllSettle),
};

struct AllSettle;

impl Judge for AllSettle {
    fn see(&mut self, _: &Event, _: &Scene, _: &View<'_>, _: &mut Findings) {}

    fn rest(&mut self, end: Rest, view: &View<'_>, findings: &mut Findings) {
        if end != Rest::Overdue || view.config.workers == 0 {
            return;
        }
        for (id, state) in view.shards.iter().flat_map(unsettled) {
            findings.add_or_lost(view, id, format!("is {state} and stays so"));
        }
    }
}

/// Who has not ended and does not wait for nobody, and what it is instead.
pub(crate) fn unsettled(shard: &Snapshot) -> Vec<(ExecutionId, String)> {
    let waiting = waiting_for_nobody(shard);
    let open = shard.executions().filter(|execution| {
        execution.vector().is_ok_and(|vector| !vector.is_terminal())
            && !waiting.contains(execution.id)
    });
    open.map(|open| (open.id.clone(), open.core.text("public_state").to_owned())).collect()
}

/// Executions that wait for a signal without a timeout or for the seal of their flow, and all that
/// wait for one of them.
fn waiting_for_nobody(shard: &Snapshot) -> BTreeSet<ExecutionId> {
    let mut waiting: BTreeSet<ExecutionId> = shard
        .executions()
        .filter(|execution| {
            let suspended = execution.vector().is_ok_and(|v| v.public == PublicState::Suspended);
            let suspension = shard.hash(&Key::execution(execution.id).suspension());
            let timed = suspension.is_some_and(|record| !record.text("timeout_at").is_empty());
            // Whoever began to submit a flow may be gone before its seal.
            let unsealed = !execution.core.text("unsealed").is_empty();
            (suspended && !timed) || unsealed
        })
        .map(|execution| execution.id.clone())
        .collect();
    loop {
        let before = waiting.len();
        for (key, _) in shard.iter() {
            let Key::Flow(_, _, FlowPart::Edge(_)) = key else { continue };
            let Some(edge) = shard.hash(key) else { continue };
            let (Ok(up), Ok(down)) = (
                edge.text("upstream_execution_id").parse::<ExecutionId>(),
                edge.text("downstream_execution_id").parse::<ExecutionId>(),
            ) else {
                continue;
            };
            let blocked = shard.execution(&down).is_some_and(|child| {
                child.vector().is_ok_and(|v| v.public == PublicState::WaitingChildren)
            });
            if blocked && waiting.contains(&up) {
                waiting.insert(down);
            }
        }
        if waiting.len() == before {
            return waiting;
        }
    }
}
