//! `DrainOnlyWhenPaid`

use selvedge_core::id::ExecutionId;
use selvedge_core::key::Key;

use super::call::Call;
use super::{Class, Findings, Judge, Oracle, Scene, View};
use crate::event::{Event, What};

pub(super) const ORACLE: Oracle = Oracle {
    name: "DrainOnlyWhenPaid",
    statement: "a note goes only when each execution that it names has ended or is gone",
    class: Class::Safety,
    judge: || Box::new(DrainOnlyWhenPaid),
};

struct DrainOnlyWhenPaid;

impl Judge for DrainOnlyWhenPaid {
    fn see(&mut self, event: &Event, scene: &Scene, view: &View<'_>, findings: &mut Findings) {
        let What::Applied(applied) = &event.what else { return };
        let function = Call::of(applied).map_or("a command", |call| call.function);
        // The child of a replay needs again what its failed group had given up.
        if function != "replay_execution" {
            for change in &scene.groups {
                let Some(was) = change.was.as_ref().filter(|was| was.owes) else { continue };
                if change.is.as_ref().is_some_and(|is| is.owes) {
                    continue;
                }
                for sibling in running(view, was.siblings.iter()) {
                    let what = format!("{function} drained it, its sibling {sibling} still runs");
                    findings.add(view, &change.of, what);
                }
            }
        }
        for change in &scene.owed {
            let left = change.is.clone().unwrap_or_default();
            let paid = change.was.iter().flatten().filter(|id| !left.contains(*id));
            for member in running(view, paid) {
                // Its cancel may have been answered, and lost since.
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

/// Those that have not ended and are not gone.
fn running<'a>(
    view: &View<'_>,
    ids: impl Iterator<Item = &'a String>,
) -> impl Iterator<Item = ExecutionId> {
    ids.filter_map(|id| id.parse::<ExecutionId>().ok()).filter(|id| {
        let core = view.of(id.partition()).hash(&Key::execution(id).core());
        core.is_some_and(|core| core.text("lifecycle_phase") != "terminal")
    })
}
