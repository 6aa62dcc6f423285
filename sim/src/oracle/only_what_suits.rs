//! `OnlyWhatSuits`

use selvedge_core::id::ExecutionId;

use super::workers::{Workers, is_worker};
use super::{Changes, Checker, Class, Findings, Oracle, View};
use crate::actor::worker::taken;
use crate::event::{Actor, Event, EventKind, HandlerStep};

pub(super) const ORACLE: Oracle = Oracle {
    name: "OnlyWhatSuits",
    statement: "a worker claims and runs only executions of its namespace and of the kinds that it \
                handles",
    class: Class::Safety,
    checker: || Box::<OnlyWhatSuits>::default(),
};

#[derive(Default)]
struct OnlyWhatSuits {
    workers: Workers,
}

impl Checker for OnlyWhatSuits {
    fn on_event(
        &mut self,
        event: &Event,
        changes: &Changes,
        view: &View<'_>,
        findings: &mut Findings,
    ) {
        self.workers.on_event(event, changes);
        for change in &changes.executions {
            let holder = change.got_a_lease().and_then(|_| self.workers.held.get(&change.of));
            if let Some(by) = holder.map(|holder| holder.by)
                && !suits(by, &change.of, view)
            {
                findings.add(view, &change.of, format!("was claimed by {by}, and is not for it"));
            }
        }
        if is_worker(event.actor)
            && let EventKind::Handler { execution, step: HandlerStep::Started, .. } = &event.kind
            && !suits(event.actor, execution, view)
        {
            let by = event.actor;
            findings.add(view, execution, format!("is run by {by}, and is not for it"));
        }
    }
}

/// Whether an execution is of the namespace and kinds that a worker takes. One that is gone is.
pub(super) fn suits(worker: Actor, id: &ExecutionId, view: &View<'_>) -> bool {
    let Actor::Worker(number) = worker else { return true };
    view.of(id.partition()).execution(id).is_none_or(|one| {
        let (namespace, kind) = (one.core.text("namespace"), one.core.text("execution_kind"));
        taken(number, view.config).takes(namespace, kind)
    })
}
