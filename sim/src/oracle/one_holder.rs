//! `OneHolder`: the part that needs the history. The state oracle compares records with their
//! leases.

use super::call::Call;
use super::{Changes, Checker, Class, Findings, Oracle, View};
use crate::event::{Event, EventKind};

pub(super) const ORACLE: Oracle = Oracle {
    name: "OneHolder",
    statement: "a holder can write only with the current fence triple, and before its lease expires by \
                the clock of the serving node",
    class: Class::Safety,
    checker: || Box::new(OneHolder),
};

struct OneHolder;

impl Checker for OneHolder {
    fn on_event(
        &mut self,
        event: &Event,
        changes: &Changes,
        view: &View<'_>,
        findings: &mut Findings,
    ) {
        let EventKind::Applied(applied) = &event.kind else { return };
        let Some(call) = Call::of(applied) else { return };
        if applied.writes.is_empty() || !applied.answer.is_done() {
            return;
        }
        let shown = ["lease_id", "lease_epoch", "attempt_id"].map(|name| call.argument(name));
        // Calls without a lease id do not act for a holder; a claim has a lease of its own.
        if !call.takes("lease_epoch") || shown[0].is_empty() {
            return;
        }
        let Some(id) = call.execution() else { return };
        let Some(change) = changes.executions.iter().find(|change| change.of == id) else { return };
        let Some(was) = &change.was else { return };
        // An execution without a lease can be cancelled by anyone.
        if call.function == "cancel_execution" && !was.is_leased() {
            return;
        }
        let now_ms = (applied.server_time_us / 1000).cast_signed();
        let current = [&was.fence[0], &was.fence[1], &was.fence[2]];
        // Some functions do not take the attempt id.
        let fits = shown.iter().zip(current).all(|(shown, held)| shown.is_empty() || shown == held);
        if !was.is_leased() || !fits || was.lease_expires_at <= now_ms {
            findings.add(
                view,
                &id,
                format!(
                    "{} succeeded with {shown:?} at {now_ms}, but {current:?} held it until {}",
                    call.function, was.lease_expires_at
                ),
            );
        }
    }
}
