//! `NoLostAck`: every acknowledged change is present, or its commit is recorded as lost.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_core::id::ExecutionId;
use selvedge_core::state::TerminalOutcome;

use super::call::{Answer, Call};
use super::{Changes, Checker, Class, Findings, Oracle, RunEnd, View};
use crate::event::{Applied, CallId, Event, EventKind, Learned};

pub(super) const ORACLE: Oracle = Oracle {
    name: "NoLostAck",
    statement: "every acknowledged change is present, or its commit is recorded as lost",
    class: Class::Safety,
    checker: || Box::<NoLostAck>::default(),
};

/// What an answer acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Promise {
    /// The execution exists.
    Made,
    /// The execution has ended with this outcome.
    Ended(TerminalOutcome),
}

/// An acknowledgement.
struct Given {
    promise: Promise,
    /// When the client got it.
    told_ms: u64,
    /// The node that gave it, if that node had been replaced: its writes are lost when the split
    /// brain ends.
    branch: Option<u8>,
}

/// A call whose answer will be an acknowledgement.
struct AckPending {
    about: Vec<ExecutionId>,
    promise: Promise,
    /// The flow that it submits; its members are acknowledged with the seal.
    flow: Option<String>,
}

#[derive(Default)]
struct NoLostAck {
    asked: BTreeMap<CallId, AckPending>,
    /// Calls that were applied and not answered yet, with the replaced node if one applied them.
    applied: BTreeMap<CallId, Option<u8>>,
    /// Members of flows whose seal is not acknowledged yet.
    submitted: BTreeMap<String, BTreeSet<ExecutionId>>,
    promised: BTreeMap<ExecutionId, Given>,
    /// Purged executions: an acknowledgement that arrives later means nothing.
    purged: BTreeSet<ExecutionId>,
}

impl Checker for NoLostAck {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "an oracle reacts to the events that it names"
    )]
    fn on_event(
        &mut self,
        event: &Event,
        changes: &Changes,
        view: &View<'_>,
        findings: &mut Findings,
    ) {
        match &event.kind {
            EventKind::Sent { call, argv, .. } => {
                self.asked.extend(AckPending::read(argv).map(|asked| (*call, asked)));
            }
            EventKind::Delivered { call, learned } => {
                let Some(asked) = self.asked.remove(call) else { return };
                let branch = self.applied.remove(call).flatten();
                if let Learned::Reply(reply) = learned {
                    self.promise(asked, &Answer::read(reply), event.at_ms, branch);
                }
            }
            EventKind::Applied(applied) => {
                for change in &changes.executions {
                    // Replays and purges end an acknowledgement.
                    let over = change.is.as_ref().is_none_or(|is| !is.is_terminal());
                    if over && change.was.as_ref().is_some_and(|was| was.is_terminal()) {
                        self.promised.remove(&change.of);
                        // This includes answers that have not arrived yet.
                        self.asked.retain(|call, asked| {
                            asked.flow.is_some()
                                || !asked.about.contains(&change.of)
                                || !self.applied.contains_key(call)
                        });
                        if change.is.is_none() {
                            self.purged.insert(change.of.clone());
                        } else {
                            let (promise, told_ms) = (Promise::Made, event.at_ms);
                            let made = Given { promise, told_ms, branch: None };
                            self.promised.insert(change.of.clone(), made);
                        }
                    }
                }
                if self.tells_of_an_earlier_run(applied, view) {
                    self.asked.remove(&applied.call);
                }
                if self.asked.contains_key(&applied.call) {
                    let branch = applied.superseded.then_some(applied.node);
                    self.applied.entry(applied.call).or_insert(branch);
                }
            }
            EventKind::CommitsLost { node, .. } => self.compare(view, findings, Some(*node)),
            _ => {}
        }
    }

    fn on_end(&mut self, _: RunEnd, view: &View<'_>, findings: &mut Findings) {
        self.compare(view, findings, None);
    }
}

impl AckPending {
    fn read(argv: &[Vec<u8>]) -> Option<Self> {
        let call = Call::read(argv)?;
        let promise = match call.function {
            "submit_flow" => {
                let words = call.argument("document").split('"');
                return Some(Self {
                    about: words.filter_map(|word| word.parse().ok()).collect(),
                    promise: Promise::Made,
                    flow: Some(call.argument("flow_id").to_owned()),
                });
            }
            "create_execution" => Promise::Made,
            "complete_execution" => Promise::Ended(TerminalOutcome::Success),
            "end_and_claim" if call.argument("ending") == "complete" => {
                Promise::Ended(TerminalOutcome::Success)
            }
            "cancel_execution" => Promise::Ended(TerminalOutcome::Cancelled),
            _ => return None,
        };
        Some(Self { about: vec![call.execution()?], promise, flow: None })
    }
}

impl NoLostAck {
    /// Whether a repeated report gets the answer of its first try, and the execution was replayed
    /// in between.
    fn tells_of_an_earlier_run(&self, applied: &Applied, view: &View<'_>) -> bool {
        let Some(asked) = self.asked.get(&applied.call) else { return false };
        let ends = Call::of(applied).is_some_and(|call| call.function == "end_and_claim");
        let is_over = |id: &ExecutionId| {
            let found = view.of(id.partition()).execution(id);
            found.is_some_and(|found| found.vector().is_ok_and(|vector| vector.is_terminal()))
        };
        ends && applied.writes.is_empty() && !asked.about.iter().all(is_over)
    }

    /// A client gets an answer.
    fn promise(&mut self, asked: AckPending, answer: &Answer, told_ms: u64, branch: Option<u8>) {
        if !answer.is_done() {
            return;
        }
        let mut about = asked.about;
        if let Some(flow) = asked.flow {
            let members = self.submitted.entry(flow).or_default();
            members.extend(about);
            if !answer.says("sealed") {
                return;
            }
            about = members.iter().cloned().collect();
        }
        let promise = asked.promise;
        for id in about {
            let is_news = promise != Promise::Made || !self.promised.contains_key(&id);
            if is_news && !self.purged.contains(&id) {
                self.promised.insert(id, Given { promise, told_ms, branch });
            }
        }
    }

    /// Compares acknowledgements with the stored state, after a loss and at the end. After a loss
    /// the work may be done again, so it is checked again at the end. What a replaced node
    /// acknowledged is checked when its branch is dropped.
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
                let when = if loser.is_none() { "at the end" } else { "after a loss" };
                let what = format!("was acknowledged as {promise:?}, but is {outcome:?} {when}");
                findings.add_or_lost(view, id, what, (id, *told_ms));
            }
        }
    }
}
