//! `MatchesModel`

use std::collections::{BTreeMap, BTreeSet};

use selvedge_core::id::ExecutionId;
use selvedge_core::key::{ExecutionPart, Key};

use super::call::{Answer, Call};
use super::{Class, Findings, Judge, Oracle, Rest, Scene, View};
use crate::event::{Actor, CallId, Event, Learned, What};
use crate::model::{Execution, Life, Operation, Told};

pub(super) const ORACLE: Oracle = Oracle {
    name: "MatchesModel",
    statement: "what callers and workers are told is among what the sequential model allows",
    class: Class::Safety,
    judge: || Box::<MatchesModel>::default(),
};

/// Lost leases after which an execution may be given up, if its policy does not say.
const RECLAIMS_MAX: u32 = 100;

#[derive(Default)]
struct MatchesModel {
    executions: BTreeMap<ExecutionId, Execution>,
    claims: BTreeMap<ExecutionId, u32>,
    /// Whom an operation under way is about, and what it asks for.
    under_way: BTreeMap<CallId, (ExecutionId, Operation)>,
    /// Which node served an execution; whoever was served by two is not judged.
    nodes: BTreeMap<ExecutionId, u8>,
    two_faced: BTreeSet<ExecutionId>,
    /// Which node lost what it had last heard of an execution.
    set_back: BTreeMap<ExecutionId, u8>,
}

impl Judge for MatchesModel {
    fn see(&mut self, event: &Event, _: &Scene, view: &View<'_>, findings: &mut Findings) {
        match &event.what {
            What::Sent { call, argv, .. } if !matches!(event.actor, Actor::Engine(_)) => {
                if let Some(asked) = Call::read(argv) {
                    self.begin(*call, &asked);
                }
            }
            What::Applied(applied) => {
                let Some(asked) = Call::of(applied) else { return };
                self.served(&asked, applied.node, applied.stray);
                let answer = &applied.answer;
                if matches!(event.actor, Actor::Engine(_)) {
                    // Engines act for nobody whom the model knows.
                    self.happens(&asked, answer);
                } else if answer.is_done() && !self.under_way.contains_key(&applied.call) {
                    // It was answered before, or given up: nobody will hear of this.
                    self.begin(applied.call, &asked);
                    self.lose(applied.call);
                }
            }
            What::Delivered { call, learned } => self.end(*call, learned, view, findings),
            What::CommitsLost { node, .. } => self.set_back(event.at_ms, *node, view),
            What::Sent { .. }
            | What::Lost { .. }
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

    fn rest(&mut self, end: Rest, view: &View<'_>, findings: &mut Findings) {
        if end != Rest::Reached {
            return;
        }
        // What was under way when its sender died stays unheard.
        for (call, (id, _)) in std::mem::take(&mut self.under_way) {
            if let Some(execution) = self.executions.get_mut(&id) {
                execution.lose(call);
            }
        }
        self.executions.retain(|id, _| !self.two_faced.contains(id));
        for (id, execution) in &mut self.executions {
            if let Err(why) = execution.observe(Life::of(view.of(id.partition()), id)) {
                findings.add(view, id, why);
            }
        }
    }
}

impl MatchesModel {
    fn begin(&mut self, call: CallId, asked: &Call<'_>) {
        let Some(id) = asked.execution() else {
            if asked.function == "submit_flow" {
                self.begin_flow(asked);
            }
            return;
        };
        let fate = &mut self.executions.entry(id.clone()).or_default().fate;
        match asked.function {
            "add_execution_to_flow" => fate.in_flow = true,
            "purge_execution" => fate.may_be_half_gone = true,
            "suspend_execution" => fate.may_time_out |= !asked.argument("timeout_at").is_empty(),
            _ => {}
        }
        let operation = match asked.function {
            "create_execution" => Operation::Create,
            "complete_execution" => Operation::Complete,
            "fail_execution" => Operation::Fail,
            "cancel_execution" => Operation::Cancel,
            "replay_execution" => Operation::Replay,
            _ => return,
        };
        let execution = self.executions.entry(id.clone()).or_default();
        if operation == Operation::Create {
            let policy = asked.argument("policy_json");
            let deadline = asked.argument("execution_deadline_at");
            execution.fate.may_expire |= !deadline.is_empty() || policy.contains("timeout");
            execution.fate.may_be_given_up |= policy.contains("max_reclaim_count");
        }
        execution.begin(call, operation);
        self.under_way.insert(call, (id, operation));
    }

    /// A flow makes its members one chunk after the other; each of them may be there from now on.
    fn begin_flow(&mut self, asked: &Call<'_>) {
        let document = asked.argument("document");
        let ids = document.split('"').filter_map(|word| word.parse::<ExecutionId>().ok());
        for (at, id) in ids.enumerate() {
            let execution = self.executions.entry(id).or_default();
            execution.fate.in_flow = true;
            execution.fate.may_expire |=
                document.contains("timeout") || document.contains("deadline");
            execution.fate.may_be_given_up |= document.contains("max_reclaim_count");
            // A number that no call has: nobody will hear of it.
            let number = u64::MAX - u64::try_from(at).unwrap_or_default();
            execution.begin(number, Operation::Create);
            execution.lose(number);
        }
    }

    /// Notes who served an execution. In a split two nodes do, and one of them will be forgotten;
    /// or it is served by that one alone, while the other has lost it.
    fn served(&mut self, asked: &Call<'_>, node: u8, stray: bool) {
        let Some(id) = asked.execution() else { return };
        let lost_elsewhere = stray && self.set_back.get(&id).is_some_and(|loser| *loser != node);
        if lost_elsewhere || *self.nodes.entry(id.clone()).or_insert(node) != node {
            self.two_faced.insert(id);
        }
    }

    /// A loss sets back those whose record it concerns; `NoLostAck` speaks of what was promised.
    fn set_back(&mut self, at_ms: u64, node: u8, view: &View<'_>) {
        let lost = view.ledger.lost().filter(|commit| commit.lost_at_ms == Some(at_ms));
        let keys = lost.flat_map(|commit| &commit.keys).filter_map(|key| str::from_utf8(key).ok());
        for key in keys.filter_map(|key| key.parse().ok()) {
            if let Key::Execution(id, ExecutionPart::Core) = key
                && let Some(execution) = self.executions.get_mut(&id)
            {
                execution.set_back(Life::of(view.of(id.partition()), &id));
                self.set_back.insert(id, node);
            }
        }
    }

    /// Nobody will hear how a call ended.
    fn lose(&mut self, call: CallId) {
        if let Some((id, _)) = self.under_way.remove(&call)
            && let Some(execution) = self.executions.get_mut(&id)
        {
            execution.lose(call);
        }
    }

    /// Leases that were lost.
    fn happens(&mut self, asked: &Call<'_>, answer: &Answer) {
        let Some(id) = asked.execution() else { return };
        if asked.function == "requeue_lost_lease" && answer.is_done() {
            let claims = self.claims.entry(id.clone()).or_default();
            *claims += 1;
            if *claims >= RECLAIMS_MAX {
                self.executions.entry(id).or_default().fate.may_be_given_up = true;
            }
        }
    }

    fn end(&mut self, call: CallId, learned: &Learned, view: &View<'_>, findings: &mut Findings) {
        let Some((id, operation)) = self.under_way.remove(&call) else { return };
        let Some(execution) = self.executions.get_mut(&id) else { return };
        let told = match learned {
            Learned::Reply(reply) => match Told::by(&Answer::read(reply), operation) {
                Some(told) => told,
                None => return execution.lose(call),
            },
            Learned::NotApplied(_) => Told::Refused,
            Learned::Perhaps(_) => return execution.lose(call),
        };
        if let Err(why) = execution.end(call, told)
            && !self.two_faced.contains(&id)
        {
            findings.add(view, &id, why);
        }
    }
}
