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

/// A promise that was given.
struct Given {
    promise: Promise,
    /// When somebody heard it.
    told_ms: u64,
    /// The node that gave it after another had taken its place: what that node wrote is there for
    /// nobody else, and named as lost when the split ends.
    branch: Option<u8>,
}

/// A promise that was asked for.
struct Asked {
    about: Vec<ExecutionId>,
    promise: Promise,
    /// The flow that it submits, whose members are promised when all of it is there.
    flow: Option<String>,
}

#[derive(Default)]
struct NoLostAck {
    asked: BTreeMap<CallId, Asked>,
    /// Those of them that were carried out, and on which branch; their senders have not heard yet.
    applied: BTreeMap<CallId, Option<u8>>,
    /// The members of flows whose submitter has heard of some chunks, and not of the seal.
    submitted: BTreeMap<String, BTreeSet<ExecutionId>>,
    promised: BTreeMap<ExecutionId, Given>,
    /// Those that were purged: nobody who hears late that they were made is promised anything.
    purged: BTreeSet<ExecutionId>,
}

impl Judge for NoLostAck {
    fn see(&mut self, event: &Event, scene: &Scene, view: &View<'_>, findings: &mut Findings) {
        match &event.what {
            What::Sent { call, argv, .. } => {
                self.asked.extend(Asked::read(argv).map(|asked| (*call, asked)));
            }
            What::Delivered { call, learned } => {
                let Some(asked) = self.asked.remove(call) else { return };
                let branch = self.applied.remove(call).flatten();
                if let Learned::Reply(reply) = learned {
                    self.promise(asked, &Answer::read(reply), event.at_ms, branch);
                }
            }
            What::Applied(applied) => {
                for change in &scene.executions {
                    // Replays and purges may take back what was promised.
                    let over = change.is.as_ref().is_none_or(|is| !is.is_terminal());
                    if over && change.was.as_ref().is_some_and(|was| was.is_terminal()) {
                        self.promised.remove(&change.of);
                        // Nor does it hold for who hears of an end before this one only now.
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

impl Asked {
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
            "cancel_execution" => Promise::Ended(TerminalOutcome::Cancelled),
            _ => return None,
        };
        Some(Self { about: vec![call.execution()?], promise, flow: None })
    }
}

impl NoLostAck {
    /// Somebody hears an answer.
    fn promise(&mut self, asked: Asked, answer: &Answer, told_ms: u64, branch: Option<u8>) {
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
