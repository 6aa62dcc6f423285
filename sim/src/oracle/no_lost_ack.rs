//! `NoLostAck`

use std::collections::BTreeMap;

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

/// A promise that was given.
struct Given {
    promise: Promise,
    /// When somebody heard it.
    told_ms: u64,
    /// The node that gave it after another had taken its place: what that node wrote is there for
    /// nobody else, and named as lost when the split ends.
    branch: Option<u8>,
}

#[derive(Default)]
struct NoLostAck {
    asked: BTreeMap<CallId, (ExecutionId, Promise)>,
    /// Those of them that were carried out, and on which branch; their senders have not heard yet.
    applied: BTreeMap<CallId, Option<u8>>,
    promised: BTreeMap<ExecutionId, Given>,
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
                let branch = self.applied.remove(call).flatten();
                if let Learned::Reply(reply) = learned
                    && Answer::read(reply).is_done()
                    && (promise != Promise::Made || !self.promised.contains_key(&id))
                {
                    self.promised.insert(id, Given { promise, told_ms: event.at_ms, branch });
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
                            *id != change.of || !self.applied.contains_key(call)
                        });
                        if change.is.is_some() {
                            let (promise, told_ms) = (Promise::Made, event.at_ms);
                            let made = Given { promise, told_ms, branch: None };
                            self.promised.insert(change.of.clone(), made);
                        }
                    }
                }
                if self.asked.contains_key(&applied.call) {
                    let branch = applied.stray.then_some(applied.node);
                    self.applied.entry(applied.call).or_insert(branch);
                }
            }
            What::CommitsLost { node, .. } => self.compare(view, findings, Some(*node)),
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
        self.compare(view, findings, None);
    }
}

impl NoLostAck {
    /// Compares promises with what there is, when a node has lost something and in the end. One
    /// that a loss broke may still be kept: what was lost is done again; so it is held up again in
    /// the end. What another branch promised has its turn when that branch is dropped.
    fn compare(&self, view: &View<'_>, findings: &mut Findings, loser: Option<u8>) {
        let its_turn =
            |given: &Given| loser.is_none() || given.branch.is_none() || given.branch == loser;
        for (id, Given { promise, told_ms, .. }) in
            self.promised.iter().filter(|(_, given)| its_turn(given))
        {
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
                let when = if loser.is_none() { "in the end" } else { "after a loss" };
                let what = format!("was promised {promise:?}: {outcome:?} {when}");
                findings.add_or_lost(view, id, what, (id, *told_ms));
            }
        }
    }
}
