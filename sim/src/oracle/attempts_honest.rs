//! `AttemptsHonest`: what a history can show of it. Whether attempts are dense, any state shows.

use super::{Class, Findings, Judge, Oracle, Scene, View};
use crate::event::Event;

pub(super) const ORACLE: Oracle = Oracle {
    name: "AttemptsHonest",
    statement: "an end is written on the attempt that ran, once and for all",
    class: Class::Safety,
    judge: || Box::new(AttemptsHonest),
};

struct AttemptsHonest;

impl Judge for AttemptsHonest {
    fn see(&mut self, _: &Event, scene: &Scene, view: &View<'_>, findings: &mut Findings) {
        for change in &scene.attempts {
            let (id, index) = &change.of;
            let (Some(was), Some(is)) = (&change.was, &change.is) else { continue };
            if has_ended(was) {
                findings.add(view, id, format!("attempt {index} was {was} and is {is} now"));
            }
            let execution = scene.executions.iter().find(|change| change.of == *id);
            let ran = execution.and_then(|change| change.was.as_ref()).map(|was| was.attempt_index);
            if has_ended(is) && ran.is_some_and(|ran| ran != i64::from(*index)) {
                findings.add(view, id, format!("attempt {index} is {is}, but {ran:?} ran"));
            }
        }
    }
}

fn has_ended(state: &str) -> bool {
    state.starts_with("ended") || state.starts_with("interrupted")
}
