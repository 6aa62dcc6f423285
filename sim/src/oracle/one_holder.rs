//! `OneHolder`: what a history can show of it. Whether a record and its lease agree, any state
//! shows.

use super::call::Call;
use super::{Class, Findings, Judge, Oracle, Scene, View};
use crate::event::{Event, What};

pub(super) const ORACLE: Oracle = Oracle {
    name: "OneHolder",
    statement: "a holder's write passes only with the whole current triple, unexpired by the \
                clock of the node that serves it",
    class: Class::Safety,
    judge: || Box::new(OneHolder),
};

struct OneHolder;

impl Judge for OneHolder {
    fn see(&mut self, event: &Event, scene: &Scene, view: &View<'_>, findings: &mut Findings) {
        let What::Applied(applied) = &event.what else { return };
        let Some(call) = Call::of(applied) else { return };
        if applied.writes.is_empty() || !applied.answer.is_done() {
            return;
        }
        let shown = ["lease_id", "lease_epoch", "attempt_id"].map(|name| call.argument(name));
        // Without a lease id somebody acts who holds nothing; a claim brings a lease of its own.
        if !call.takes("lease_epoch") || shown[0].is_empty() {
            return;
        }
        let Some(id) = call.execution() else { return };
        let Some(change) = scene.executions.iter().find(|change| change.of == id) else { return };
        let Some(was) = &change.was else { return };
        // What nobody holds, anybody may cancel, whatever else is shown.
        if call.function == "cancel_execution" && !was.is_leased() {
            return;
        }
        let now_ms = (applied.server_time_us / 1000).cast_signed();
        let current = [&was.fence[0], &was.fence[1], &was.fence[2]];
        // Some functions are never shown the attempt.
        let fits = shown.iter().zip(current).all(|(shown, held)| shown.is_empty() || shown == held);
        if !was.is_leased() || !fits || was.lease_expires_at <= now_ms {
            findings.add(
                view,
                &id,
                format!(
                    "{} passed with {shown:?} at {now_ms}; {current:?} held it until {}",
                    call.function, was.lease_expires_at
                ),
            );
        }
    }
}
