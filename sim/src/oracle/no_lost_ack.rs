//! `NoLostAck`

use std::collections::{BTreeMap, BTreeSet};

use selvedge_core::id::ExecutionId;
use selvedge_core::state::TerminalOutcome;

use super::call::{Answer, Call};
use super::{Class, Findings, Judge, Oracle, Rest, Scene, View};
use crate::event::{CallId, Event, Learned, What};

pub(super) const ORACLE: Oracle = Oracle {
    name: "NoLostAck",
    statement: "every acknowledged change is present, or named in the ledger of lost commits",
    class: Class::Safety,
    judge: || Box::<NoLostAck>::default(),
};

/// What somebody was promised by an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Promise {
    /// It is there.
    Made,
    /// It ended like this.
    Ended(TerminalOutcome),
}

#[derive(Default)]
struct NoLostAck {
    asked: BTreeMap<CallId, (ExecutionId, Promise)>,
    /// Those of them that were carried out; their senders have not heard yet.
    applied: BTreeSet<CallId>,
    /// With the time at which the promise was given.
    promised: BTreeMap<ExecutionId, (Promise, u64)>,
}

impl Judge for NoLostAck {
    fn see(&mut self, event: &Event, scene: &Scene, view: &View<'_>, findings: &mut Findings) {
        match &event.what {
            What::Sent { call, argv, .. } => {
                let Some(asked) = Call::read(argv) else { return };
                let promise = match asked.function {
                    "create_execution" => Promise::Made,
                    "complete_execution" => Promise::Ended(TerminalOutcome::Success),
                    "cancel_execution" => Promise::Ended(TerminalOutcome::Cancelled),
                    _ => return,
                };
                let id = asked.execution();
                self.asked.extend(id.map(|id| (*call, (id, promise))));
            }
            What::Delivered { call, learned } => {
                let Some((id, promise)) = self.asked.remove(call) else { return };
                self.applied.remove(call);
                if let Learned::Reply(reply) = learned
                    && Answer::read(reply).is_done()
                    && (promise != Promise::Made || !self.promised.contains_key(&id))
                {
                    self.promised.insert(id, (promise, event.at_ms));
                }
            }
            What::Applied(applied) => {
                for change in &scene.executions {
                    // Replays and purges may take back what was promised.
                    let over = change.is.as_ref().is_none_or(|is| !is.is_terminal());
                    if over && change.was.as_ref().is_some_and(|was| was.is_terminal()) {
                        self.promised.remove(&change.of);
                        // Nor does it hold for who hears of an end before this one only now.
                        self.asked.retain(|call, (id, _)| {
                            *id != change.of || !self.applied.contains(call)
                        });
                        if change.is.is_some() {
                            let made = (Promise::Made, event.at_ms);
                            self.promised.insert(change.of.clone(), made);
                        }
                    }
                }
                if self.asked.contains_key(&applied.call) {
                    self.applied.insert(applied.call);
                }
            }
            What::CommitsLost { .. } => self.compare(view, findings, false),
            What::Lost { .. }
            | What::Fault { .. }
            | What::Observed(_)
            | What::Invoked { .. }
            | What::Returned { .. }
            | What::Started
            | What::Died
            | What::Phase(_)
            | What::Note(_) => {}
        }
    }

    fn rest(&mut self, _: Rest, view: &View<'_>, findings: &mut Findings) {
        self.compare(view, findings, true);
    }
}

impl NoLostAck {
    /// Compares promises with what there is. One that a loss broke may still be kept: what was
    /// lost is done again; so it is held up again in the end.
    fn compare(&self, view: &View<'_>, findings: &mut Findings, in_the_end: bool) {
        for (id, (promise, told_ms)) in &self.promised {
            let found = view.of(id.partition()).execution(id);
            let outcome = found.map(|execution| execution.vector().map(|vector| vector.outcome));
            let kept = match (*promise, &outcome) {
                (Promise::Made, Some(_)) => true,
                (Promise::Ended(promised), Some(Ok(outcome))) => promised == *outcome,
                (Promise::Made | Promise::Ended(_), None) | (Promise::Ended(_), Some(Err(_))) => {
                    false
                }
            };
            if !kept {
                let when = if in_the_end { "in the end" } else { "after a loss" };
                let what = format!("was promised {promise:?}: {outcome:?} {when}");
                findings.add_or_lost(view, id, what, (id, *told_ms));
            }
        }
    }
}
