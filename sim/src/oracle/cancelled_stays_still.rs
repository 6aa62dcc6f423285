//! `CancelledStaysStill`: a flow that was cancelled with its members starts no new attempt.

use selvedge_core::id::FlowId;
use selvedge_core::key::Key;

use super::{Changes, Checker, Class, Findings, Oracle, View};
use crate::event::Event;

pub(super) const ORACLE: Oracle = Oracle {
    name: "CancelledStaysStill",
    statement: "a flow that was cancelled with its members starts no new attempt",
    class: Class::Safety,
    checker: || Box::new(CancelledStaysStill),
};

struct CancelledStaysStill;

impl Checker for CancelledStaysStill {
    fn on_event(&mut self, _: &Event, changes: &Changes, view: &View<'_>, findings: &mut Findings) {
        for change in &changes.executions {
            if change.got_a_lease().is_none() || change.was.is_none() {
                continue;
            }
            let snapshot = view.of(change.of.partition());
            let execution = snapshot.execution(&change.of);
            let flow = execution.and_then(|e| e.core.text("flow_id").parse::<FlowId>().ok());
            let core =
                flow.and_then(|id| snapshot.hash(&Key::flow(change.of.partition(), id).core()));
            if core.is_some_and(|core| {
                core.text("public_flow_state") == "cancelled"
                    && matches!(
                        core.text("cancellation_policy"),
                        "cancel_all" | "cancel_pending" | ""
                    )
            }) {
                findings.add(view, &change.of, "starts in a cancelled flow");
            }
        }
    }
}
