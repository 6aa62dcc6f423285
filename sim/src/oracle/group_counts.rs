//! `GroupCounts`: the part that needs the history. The state oracle checks the counters.

use selvedge_core::key::Key;

use super::call::Call;
use super::{Changes, Checker, Class, Findings, Oracle, View};
use crate::event::{Event, EventKind};

pub(super) const ORACLE: Oracle = Oracle {
    name: "GroupCounts",
    statement: "the state of an any-of or quorum group follows from its counters, and is decided once \
                until a replay",
    class: Class::Safety,
    checker: || Box::new(GroupCounts),
};

struct GroupCounts;

impl Checker for GroupCounts {
    fn on_event(
        &mut self,
        event: &Event,
        changes: &Changes,
        view: &View<'_>,
        findings: &mut Findings,
    ) {
        let EventKind::Applied(applied) = &event.kind else { return };
        if Call::of(applied).is_some_and(|call| call.function == "replay_execution") {
            return;
        }
        for change in &changes.groups {
            let (Some(was), Some(is)) = (&change.was, &change.is) else { continue };
            let counted = matches!(was.variant.as_str(), "any_of" | "quorum");
            if counted && was.state == "pending" && is.state == "impossible" {
                check_impossible(&change.of, view, findings);
            }
            if counted && was.state != "pending" && was.state != is.state {
                findings.add(
                    view,
                    &change.of,
                    format!("was {} and is {} now", was.state, is.state),
                );
            }
        }
    }
}

/// A group becomes impossible only if too many edges failed. This is checked at that moment, since
/// edges may be applied to a skipped child later.
fn check_impossible(key: &Key, view: &View<'_>, findings: &mut Findings) {
    let Key::Flow(partition, ..) = key else { return };
    let Some(group) = view.of(*partition).hash(key) else { return };
    let needed =
        if group.text("policy_variant") == "any_of" { 1 } else { group.number("k").max(1) };
    let voices = group.number("n") - group.number("repeats");
    let lost = group.number("failed") + group.number("skipped") - group.number("repeats_lost");
    if lost <= voices - needed {
        let what = format!(
            "is impossible although only {lost} of {voices} edges failed and {needed} are needed"
        );
        findings.add(view, key, what);
    }
}
