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
                for sibling in was.siblings.iter().filter(|id| runs(view, id)) {
                    findings.add_or_lost(
                        view,
                        &change.of,
                        format!("{function} drained it, its sibling {sibling} still runs"),
                    );
                }
            }
        }
        for change in &scene.owed {
            let left = change.is.clone().unwrap_or_default();
            let members = change.was.iter().flatten();
            for member in members.filter(|id| !left.contains(*id) && runs(view, id)) {
                findings.add_or_lost(
                    view,
                    &change.of,
                    format!("{function} acknowledged the cancel of {member}, which still runs"),
                );
            }
        }
    }
}

fn runs(view: &View<'_>, id: &str) -> bool {
    let Ok(id) = id.parse::<ExecutionId>() else { return false };
    let phase = view.of(id.partition()).hash(&Key::execution(&id).core());
    phase.is_some_and(|core| core.text("lifecycle_phase") != "terminal")
}
