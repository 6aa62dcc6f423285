//! `PendingCancelsFinished`: a pending cancel is cleared only when every execution that it names
//! has ended or is purged.

use selvedge_core::id::ExecutionId;
use selvedge_core::key::Key;

use super::call::Call;
use super::{Changes, Checker, Class, Findings, Oracle, View};
use crate::event::{Event, EventKind};

pub(super) const ORACLE: Oracle = Oracle {
    name: "PendingCancelsFinished",
    statement: "a pending cancel is cleared only when every execution that it names has ended or is purged",
    class: Class::Safety,
    checker: || Box::new(PendingCancelsFinished),
};

struct PendingCancelsFinished;

impl Checker for PendingCancelsFinished {
    fn on_event(
        &mut self,
        event: &Event,
        changes: &Changes,
        view: &View<'_>,
        findings: &mut Findings,
    ) {
        let EventKind::Applied(applied) = &event.kind else { return };
        let function = Call::of(applied).map_or("a command", |call| call.function);
        // A replay of the child clears the group of its failed run.
        if function != "replay_execution" {
            for change in &changes.groups {
                let Some(was) = change.was.as_ref().filter(|was| was.cancels_pending) else {
                    continue;
                };
                if change.is.as_ref().is_some_and(|is| is.cancels_pending) {
                    continue;
                }
                for sibling in running(view, was.siblings.iter()) {
                    let what =
                        format!("{function} drained it while its sibling {sibling} still runs");
                    findings.add(view, &change.of, what);
                }
            }
        }
        for change in &changes.pending_cancels {
            let left = change.is.clone().unwrap_or_default();
            let done = change.was.iter().flatten().filter(|id| !left.contains(*id));
            for member in running(view, done) {
                // The cancel may have been acknowledged, and lost since.
                findings.add_or_lost(
                    view,
                    &change.of,
                    format!("{function} acknowledged the cancel of {member}, which still runs"),
                    (&member, event.at_ms),
                );
            }
        }
    }
}

/// Executions that exist and have not ended.
fn running<'a>(
    view: &View<'_>,
    ids: impl Iterator<Item = &'a String>,
) -> impl Iterator<Item = ExecutionId> {
    ids.filter_map(|id| id.parse::<ExecutionId>().ok()).filter(|id| {
        let core = view.of(id.partition()).hash(&Key::execution(id).core());
        core.is_some_and(|core| core.text("lifecycle_phase") != "terminal")
    })
}
