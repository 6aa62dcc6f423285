//! `GroupCounts`: what a history can show of it. Whether counters add up, any state shows.

use super::call::Call;
use super::{Class, Findings, Judge, Oracle, Scene, View};
use crate::event::{Event, What};

pub(super) const ORACLE: Oracle = Oracle {
    name: "GroupCounts",
    statement: "the verdict of an any-of or quorum group is given once, until a replay",
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
