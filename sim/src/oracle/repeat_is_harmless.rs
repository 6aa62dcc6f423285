//! `RepeatIsHarmless`

use std::collections::BTreeMap;

use selvedge_core::error::{Class as ErrorClass, ServerError};
use selvedge_core::id::ExecutionId;

use super::call::{Answer, Call};
use super::{Class, Findings, Judge, Oracle, Scene, View};
use crate::event::{CallId, Event, What};

pub(super) const ORACLE: Oracle = Oracle {
    name: "RepeatIsHarmless",
    statement: "a call that arrives a second time changes nothing more, and raises nothing",
    class: Class::Safety,
    judge: || Box::<RepeatIsHarmless>::default(),
};

/// Calls that bring something of their own, by which a repeat is known: an id, a lease, a token.
/// Whatever looks at the state and acts by it may find something to do a second time.
const ONCE: [&str; 21] = [
    "create_execution",
    "create_flow",
    "submit_flow",
    "add_execution_to_flow",
    "stage_dependency_edge",
    "apply_dependency_to_child",
    "set_edge_group_policy",
    "claim_next",
    "claim_execution",
    "claim_resumed_execution",
    "complete_execution",
    "fail_execution",
    "delay_execution",
    "suspend_execution",
    "create_pending_waitpoint",
    "deliver_signal",
    "buffer_signal_for_pending_waitpoint",
    "cancel_flow",
    "ack_cancel_member",
    "create_budget",
    "create_quota_policy",
];

#[derive(Default)]
struct RepeatIsHarmless {
    /// Calls that were carried out and wrote, with the execution that each was about.
    done: BTreeMap<CallId, Option<ExecutionId>>,
}

impl Judge for RepeatIsHarmless {
    fn see(&mut self, event: &Event, scene: &Scene, view: &View<'_>, findings: &mut Findings) {
        if matches!(event.what, What::CommitsLost { .. }) {
            self.done.clear();
        }
        let What::Applied(applied) = &event.what else { return };
        let Some(call) = Call::of(applied).filter(|call| ONCE.contains(&call.function)) else {
            // What is replayed may do again what it did before.
            for change in scene.executions.iter().filter(|change| was_replayed(change)) {
                self.done.retain(|_, about| about.as_ref() != Some(&change.of));
            }
            return;
        };
        let answer = &applied.answer;
        let is_repeat = self.done.contains_key(&applied.call);
        // A server that is in no state to serve says so to anybody.
        if let (true, Answer::Raised(text)) = (is_repeat, &answer)
            && ServerError::from_reply(text.clone()).class == ErrorClass::Broken
        {
            findings.add(view, call.function, format!("raises when repeated: {text}"));
        }
        if is_repeat && let Some(change) = changed(scene) {
            findings.add(
                view,
                call.execution().map_or(change, |id| id.to_string()),
                format!("{} was repeated and changed it again: {answer:?}", call.function),
            );
        }
        if !is_repeat && answer.is_done() && !applied.writes.is_empty() {
            self.done.insert(applied.call, call.execution());
        }
    }
}

/// Somebody whom the repeat changed. A lapsed lease is marked by whoever comes by.
fn changed(scene: &Scene) -> Option<String> {
    let lapsed = |vectors: [Option<selvedge_core::state::StateVector>; 2]| {
        vectors[1].is_some_and(|is| {
            is.ownership == selvedge_core::state::OwnershipState::LeaseExpiredReclaimable
        })
    };
    let mut executions = scene.executions.iter().filter(|c| !c.vectors().is_some_and(lapsed));
    executions
        .next()
        .map(|change| change.of.to_string())
        .or_else(|| scene.groups.first().map(|change| change.of.to_string()))
        .or_else(|| scene.waitpoints.first().map(|change| change.of.to_string()))
}

fn was_replayed(change: &super::scene::Change<ExecutionId, super::scene::Seen>) -> bool {
    let [was, is] = [&change.was, &change.is].map(|seen| seen.as_ref().map(|s| s.is_terminal()));
    was == Some(true) && is == Some(false)
}
