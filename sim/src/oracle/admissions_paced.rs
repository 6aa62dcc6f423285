//! `AdmissionsPaced`

use std::collections::BTreeMap;

use selvedge_core::id::ExecutionId;

use super::call::Call;
use super::workers::is_worker;
use super::{Changes, Checker, Class, Findings, Oracle, View};
use crate::event::{Event, EventKind};

pub(super) const ORACLE: Oracle = Oracle {
    name: "AdmissionsPaced",
    statement: "an execution that is not admitted is blocked before a worker asks for it again",
    class: Class::Safety,
    checker: || Box::<AdmissionsPaced>::default(),
};

#[derive(Default)]
struct AdmissionsPaced {
    /// How often an execution was refused since it last changed, and when last.
    refused: BTreeMap<ExecutionId, (u64, u64)>,
}

impl Checker for AdmissionsPaced {
    fn on_event(
        &mut self,
        event: &Event,
        changes: &Changes,
        view: &View<'_>,
        findings: &mut Findings,
    ) {
        for change in &changes.executions {
            self.refused.remove(&change.of);
        }
        let EventKind::Applied(applied) = &event.kind else { return };
        let asks = |call: &Call<'_>| call.function == "check_admission_and_record";
        let Some(call) = Call::of(applied).filter(asks) else { return };
        let refused =
            applied.answer.says("RATE_EXCEEDED") || applied.answer.says("CONCURRENCY_EXCEEDED");
        let Some(id) = call.execution().filter(|_| refused && is_worker(event.actor)) else {
            return;
        };
        let (count, last_ms) = self.refused.entry(id.clone()).or_default();
        if *last_ms + PAUSE_MS < event.at_ms {
            *count = 0;
        }
        *count += 1;
        *last_ms = event.at_ms;
        // All workers may ask at the same time, and a call may be delivered twice.
        if *count > 2 * view.config.workers + REPEATS {
            let count = *count;
            findings.add(view, id, format!("was refused {count} times without being blocked"));
        }
    }
}

/// After a longer pause it may be asked for again.
const PAUSE_MS: u64 = 5_000;
const REPEATS: u64 = 4;
