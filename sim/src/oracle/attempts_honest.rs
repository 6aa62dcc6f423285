//! `AttemptsHonest`: the part that needs the history. The state oracle checks that attempts are
//! dense.

use super::{Changes, Checker, Class, Findings, Oracle, View};
use crate::event::Event;

pub(super) const ORACLE: Oracle = Oracle {
    name: "AttemptsHonest",
    statement: "the end of an attempt is recorded once, and on the attempt that ran",
    class: Class::Safety,
    checker: || Box::new(AttemptsHonest),
};

struct AttemptsHonest;

impl Checker for AttemptsHonest {
    fn on_event(&mut self, _: &Event, changes: &Changes, view: &View<'_>, findings: &mut Findings) {
        for change in &changes.attempts {
            let (id, index) = &change.of;
            let (Some(was), Some(is)) = (&change.was, &change.is) else { continue };
            if has_ended(was) {
                findings.add(view, id, format!("attempt {index} was {was} and is {is} now"));
            }
            let execution = changes.executions.iter().find(|change| change.of == *id);
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
