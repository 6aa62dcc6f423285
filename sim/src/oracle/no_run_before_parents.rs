//! `NoRunBeforeParents`: no attempt starts while a declared edge is open.

use std::collections::BTreeSet;

use selvedge_core::id::{EdgeId, ExecutionId, FlowId};
use selvedge_core::key::Key;
use selvedge_core::state::LifecyclePhase;

use super::changes::ExecutionState;
use super::{Changes, Checker, Class, Findings, Oracle, View};
use crate::event::Event;

pub(super) const ORACLE: Oracle = Oracle {
    name: "NoRunBeforeParents",
    statement: "no attempt starts while a declared edge is open",
    class: Class::Safety,
    checker: || Box::<NoRunBeforeParents>::default(),
};

#[derive(Default)]
struct NoRunBeforeParents {
    /// Edges that were added after their child had started: they do not block it.
    late: BTreeSet<(ExecutionId, EdgeId)>,
}

impl Checker for NoRunBeforeParents {
    fn on_event(&mut self, _: &Event, changes: &Changes, view: &View<'_>, findings: &mut Findings) {
        for change in &changes.executions {
            let id = &change.of;
            let Some(is) = &change.is else {
                self.late.retain(|(child, _)| child != id);
                continue;
            };
            if let Some(was) = change.was.as_ref().filter(|was| has_begun(was)) {
                let new = is.edges.keys().filter(|edge| !was.edges.contains_key(edge));
                self.late.extend(new.map(|edge| (id.clone(), *edge)));
            }
            // As the call leaves them: it may have resolved the last edge before it claimed.
            let Some(started) = change.got_a_lease().filter(|_| change.was.is_some()) else {
                continue;
            };
            let open = started.edges.iter().find(|(edge, held)| {
                held.state != "satisfied" && !self.late.contains(&(id.clone(), **edge))
            });
            if let Some((edge, _)) = open
                && !is_met(view, id)
            {
                findings.add(view, id, format!("starts while the edge {edge} is open"));
            }
        }
    }
}

/// Whether it has run, or cannot be blocked by edges any more.
fn has_begun(seen: &ExecutionState) -> bool {
    seen.attempts > 0 || seen.vector.is_none_or(|vector| vector.phase != LifecyclePhase::Runnable)
}

/// Whether its any-of or quorum group is satisfied.
fn is_met(view: &View<'_>, id: &ExecutionId) -> bool {
    let snapshot = view.of(id.partition());
    let flow = snapshot.execution(id).and_then(|e| e.core.text("flow_id").parse::<FlowId>().ok());
    let group =
        flow.and_then(|flow| snapshot.hash(&Key::flow(id.partition(), flow).edge_group(id)));
    group.is_some_and(|group| {
        group.text("policy_variant") != "all_of" && group.text("group_state") == "satisfied"
    })
}
