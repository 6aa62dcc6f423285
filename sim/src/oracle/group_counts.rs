//! `GroupCounts`: what a history can show of it. Whether counters add up, any state shows.

use selvedge_core::key::Key;

use super::call::Call;
use super::{Class, Findings, Judge, Oracle, Scene, View};
use crate::event::{Event, What};

pub(super) const ORACLE: Oracle = Oracle {
    name: "GroupCounts",
    statement: "the verdict of an any-of or quorum group follows from its counters when it is given, \
                and is given once, until a replay",
    class: Class::Safety,
    judge: || Box::new(GroupCounts),
};

struct GroupCounts;

impl Judge for GroupCounts {
    fn see(&mut self, event: &Event, scene: &Scene, view: &View<'_>, findings: &mut Findings) {
        let What::Applied(applied) = &event.what else { return };
        if Call::of(applied).is_some_and(|call| call.function == "replay_execution") {
            return;
        }
        for change in &scene.groups {
            let (Some(was), Some(is)) = (&change.was, &change.is) else { continue };
            let counted = matches!(was.variant.as_str(), "any_of" | "quorum");
            if counted && was.state == "pending" && is.state == "impossible" {
                judge_verdict(&change.of, view, findings);
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

/// A group is given up only when too many of its edges are lost. Any state shows that, but for what
/// is applied to a child that was skipped: so it is judged at the moment of the verdict.
fn judge_verdict(key: &Key, view: &View<'_>, findings: &mut Findings) {
    let Key::Flow(partition, ..) = key else { return };
    let Some(group) = view.of(*partition).hash(key) else { return };
    let needed =
        if group.text("policy_variant") == "any_of" { 1 } else { group.number("k").max(1) };
    let voices = group.number("n") - group.number("repeats");
    let lost = group.number("failed") + group.number("skipped") - group.number("repeats_lost");
    if lost <= voices - needed {
        let what = format!("is impossible with {lost} of {voices} lost, {needed} needed");
        findings.add(view, key, what);
    }
}
