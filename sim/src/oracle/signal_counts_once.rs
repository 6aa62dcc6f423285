//! `SignalCountsOnce`: an accepted signal counts once, for its own waitpoint and execution.

use std::collections::BTreeSet;

use selvedge_core::key::Key;
use selvedge_core::state::LifecyclePhase;

use super::call::Call;
use super::{Changes, Checker, Class, Findings, Oracle, View};
use crate::event::{Event, EventKind};

pub(super) const ORACLE: Oracle = Oracle {
    name: "SignalCountsOnce",
    statement: "an accepted signal counts once, for its own waitpoint and execution",
    class: Class::Safety,
    checker: || Box::<SignalCountsOnce>::default(),
};

#[derive(Default)]
struct SignalCountsOnce {
    /// The waitpoint, and the signal id or idempotency key, of every signal that counted.
    counted: BTreeSet<[String; 2]>,
}

impl Checker for SignalCountsOnce {
    fn on_event(
        &mut self,
        event: &Event,
        changes: &Changes,
        view: &View<'_>,
        findings: &mut Findings,
    ) {
        if matches!(event.kind, EventKind::CommitsLost { .. }) {
            self.counted.clear();
        }
        let EventKind::Applied(applied) = &event.kind else { return };
        let Some(call) = Call::of(applied) else { return };
        if !matches!(call.function, "deliver_signal" | "buffer_signal_for_pending_waitpoint")
            || !applied.answer.is_done()
        {
            return;
        }
        let (own, waitpoint) = (call.execution(), call.argument("waitpoint_id"));
        for change in &changes.executions {
            if Some(&change.of) != own.as_ref() {
                findings.add(view, &change.of, "was changed by a signal to another execution");
            }
            let woke = change.vectors().is_some_and(|[was, is]| {
                was.is_some_and(|was| was.phase == LifecyclePhase::Suspended)
                    && is.is_some_and(|is| is.phase != LifecyclePhase::Suspended)
            });
            let its = changes.waitpoints.iter().any(|at| is_named(&at.of, waitpoint));
            if woke && !its {
                findings.add(view, &change.of, format!("was woken by a signal to {waitpoint}"));
            }
        }
        let mut counts = 0;
        for change in &changes.waitpoints {
            let [was, is] =
                [&change.was, &change.is].map(|at| at.as_ref().map_or(0, |at| at.satisfied));
            counts += (is - was).max(0);
            if let (Some(owner), Some(own)) = (&change.is, &own)
                && owner.execution != own.as_str()
            {
                findings.add(view, &change.of, format!("is not a waitpoint of {own}"));
            }
        }
        if counts > 1 {
            findings.add(view, waitpoint, format!("one signal counted {counts} times"));
        }
        if counts > 0 {
            let key = call.argument("idempotency_key");
            let name = if key.is_empty() { call.argument("signal_id") } else { key };
            if !self.counted.insert([waitpoint.to_owned(), name.to_owned()]) {
                findings.add(view, waitpoint, format!("the signal {name} counted again"));
            }
        }
    }
}

fn is_named(key: &Key, waitpoint: &str) -> bool {
    matches!(key, Key::Waitpoint(_, id, _) if id.to_string() == waitpoint)
}
