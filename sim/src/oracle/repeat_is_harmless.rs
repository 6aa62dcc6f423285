//! `RepeatIsHarmless`: a call that arrives a second time changes nothing and raises no error.

use std::collections::BTreeMap;

use selvedge_core::error::{Class as ErrorClass, ServerError};
use selvedge_core::id::ExecutionId;

use super::call::{Answer, Call};
use super::{Changes, Checker, Class, Findings, Oracle, View};
use crate::event::{CallId, Event, EventKind};

pub(super) const ORACLE: Oracle = Oracle {
    name: "RepeatIsHarmless",
    statement: "a call that arrives a second time changes nothing and raises no error",
    class: Class::Safety,
    checker: || Box::<RepeatIsHarmless>::default(),
};

/// Calls by which a repeat is recognised by an id, a lease or a token. Calls that act on the
/// current state may find something to do a second time.
const ONCE: [&str; 23] = [
    "create_execution",
    "create_flow",
    "submit_flow",
    "add_execution_to_flow",
    "stage_dependency_edge",
    "apply_dependency_to_child",
    "set_edge_group_policy",
    "claim_next",
    "claim_many",
    "end_and_claim",
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
    /// Calls that wrote something, with their execution.
    done: BTreeMap<CallId, Option<ExecutionId>>,
}

impl Checker for RepeatIsHarmless {
    fn on_event(
        &mut self,
        event: &Event,
        changes: &Changes,
        view: &View<'_>,
        findings: &mut Findings,
    ) {
        if matches!(event.kind, EventKind::CommitsLost { .. }) {
            self.done.clear();
        }
        let EventKind::Applied(applied) = &event.kind else { return };
        let Some(call) = Call::of(applied).filter(|call| ONCE.contains(&call.function)) else {
            // After a replay a repeat may have an effect again.
            for change in changes.executions.iter().filter(|change| was_replayed(change)) {
                self.done.retain(|_, about| about.as_ref() != Some(&change.of));
            }
            return;
        };
        let answer = &applied.answer;
        let is_repeat = self.done.contains_key(&applied.call);
        // Errors that pass are allowed for a repeat too.
        if let (true, Answer::Raised(text)) = (is_repeat, &answer)
            && ServerError::from_reply(text.clone()).class == ErrorClass::Broken
        {
            findings.add(view, call.function, format!("raises an error when repeated: {text}"));
        }
        if is_repeat && let Some(change) = changed(changes) {
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

/// A record that the repeat changed. Marking an expired lease does not count.
fn changed(changes: &Changes) -> Option<String> {
    let lapsed = |vectors: [Option<selvedge_core::state::StateVector>; 2]| {
        vectors[1].is_some_and(|is| {
            is.ownership == selvedge_core::state::OwnershipState::LeaseExpiredReclaimable
        })
    };
    let mut executions = changes.executions.iter().filter(|c| !c.vectors().is_some_and(lapsed));
    executions
        .next()
        .map(|change| change.of.to_string())
        .or_else(|| changes.groups.first().map(|change| change.of.to_string()))
        .or_else(|| changes.waitpoints.first().map(|change| change.of.to_string()))
}

fn was_replayed(
    change: &super::changes::Change<ExecutionId, super::changes::ExecutionState>,
) -> bool {
    let [was, is] = [&change.was, &change.is].map(|seen| seen.as_ref().map(|s| s.is_terminal()));
    was == Some(true) && is == Some(false)
}
