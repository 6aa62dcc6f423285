//! `MatchesModel`: the replies to callers and workers are possible in the sequential model.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_core::id::ExecutionId;
use selvedge_core::key::{ExecutionPart, Key};

use super::call::{Answer, Call};
use super::{Changes, Checker, Class, Findings, Oracle, RunEnd, View};
use crate::event::{Actor, CallId, Event, EventKind, Learned};
use crate::model::{Execution, Operation, Reply, Status};

pub(super) const ORACLE: Oracle = Oracle {
    name: "MatchesModel",
    statement: "the replies to callers and workers are possible in the sequential model",
    class: Class::Safety,
    checker: || Box::<MatchesModel>::default(),
};

/// The default limit of lost leases, after which an execution may fail.
const RECLAIMS_MAX: u32 = 100;

#[derive(Default)]
struct MatchesModel {
    executions: BTreeMap<ExecutionId, Execution>,
    claims: BTreeMap<ExecutionId, u32>,
    /// Operations in progress, and the execution of each.
    under_way: BTreeMap<CallId, (ExecutionId, Operation)>,
    /// The leases of reports that claim too, and the repeats among these calls: a repeat gets the
    /// answer of its first try, so it does not say when that was done.
    ends: BTreeSet<Vec<u8>>,
    repeats: BTreeSet<CallId>,
    /// The node that served an execution. Executions served by two nodes are not checked.
    nodes: BTreeMap<ExecutionId, u8>,
    served_twice: BTreeSet<ExecutionId>,
    /// The node that lost the last state of an execution.
    set_back: BTreeMap<ExecutionId, u8>,
}

impl Checker for MatchesModel {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "an oracle reacts to the events that it names"
    )]
    fn on_event(&mut self, event: &Event, _: &Changes, view: &View<'_>, findings: &mut Findings) {
        match &event.kind {
            EventKind::Sent { call, argv, .. } if !matches!(event.actor, Actor::Engine(_)) => {
                if let Some(asked) = Call::read(argv) {
                    self.begin(*call, &asked);
                }
            }
            EventKind::Applied(applied) => {
                let Some(asked) = Call::of(applied) else { return };
                self.served(&asked, applied.node, applied.superseded);
                let answer = &applied.answer;
                if matches!(event.actor, Actor::Engine(_)) {
                    // The model has no operations of engines.
                    self.count_lost_leases(&asked, answer);
                } else if answer.is_done() && !self.under_way.contains_key(&applied.call) {
                    // Its sender already has a result or gave up, and will not learn of this.
                    self.begin(applied.call, &asked);
                    self.lose(applied.call);
                }
            }
            EventKind::Delivered { call, learned } => self.end(*call, learned, view, findings),
            EventKind::CommitsLost { node, .. } => self.set_back(event.at_ms, *node, view),
            _ => {}
        }
    }

    fn on_end(&mut self, end: RunEnd, view: &View<'_>, findings: &mut Findings) {
        if end != RunEnd::AtRest {
            return;
        }
        // The result of an operation whose sender died is unknown.
        for (call, (id, _)) in std::mem::take(&mut self.under_way) {
            if let Some(execution) = self.executions.get_mut(&id) {
                execution.lose(call);
            }
        }
        self.executions.retain(|id, _| !self.served_twice.contains(id));
        for (id, execution) in &mut self.executions {
            if let Err(why) = execution.observe(Status::of(view.of(id.partition()), id)) {
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
        let permitted = &mut self.executions.entry(id.clone()).or_default().permitted;
        match asked.function {
            "add_execution_to_flow" => permitted.in_flow = true,
            "purge_execution" | "purge_executions" => permitted.may_be_half_gone = true,
            "suspend_execution" => {
                permitted.may_time_out |= !asked.argument("timeout_at").is_empty()
            }
            _ => {}
        }
        let operation = match asked.function {
            "create_execution" => Operation::Create,
            "complete_execution" => Operation::Complete,
            "fail_execution" => Operation::Fail,
            "end_and_claim" if asked.argument("ending") == "complete" => Operation::Complete,
            "end_and_claim" => Operation::Fail,
            "cancel_execution" => Operation::Cancel,
            "replay_execution" => Operation::Replay,
            _ => return,
        };
        let execution = self.executions.entry(id.clone()).or_default();
        if operation == Operation::Create {
            let policy = asked.argument("policy_json");
            let deadline = asked.argument("execution_deadline_at");
            execution.permitted.may_expire |= !deadline.is_empty() || policy.contains("timeout");
            execution.permitted.may_be_given_up |= policy.contains("max_reclaim_count");
        }
        if let Some(lease) = asked.new_leases().first()
            && !self.ends.insert(lease.to_vec())
        {
            self.repeats.insert(call);
        }
        execution.begin(call, operation);
        self.under_way.insert(call, (id, operation));
    }

    /// A flow creates its members chunk by chunk; each of them may exist from now on.
    fn begin_flow(&mut self, asked: &Call<'_>) {
        let document = asked.argument("document");
        let ids = document.split('"').filter_map(|word| word.parse::<ExecutionId>().ok());
        for (at, id) in ids.enumerate() {
            let execution = self.executions.entry(id).or_default();
            execution.permitted.in_flow = true;
            execution.permitted.may_expire |=
                document.contains("timeout") || document.contains("deadline");
            execution.permitted.may_be_given_up |= document.contains("max_reclaim_count");
            // A number that no call has: the result is never known.
            let number = u64::MAX - u64::try_from(at).unwrap_or_default();
            execution.begin(number, Operation::Create);
            execution.lose(number);
        }
    }

    /// Records which node served an execution. In a split brain there are two, and what one of them
    /// did will be lost.
    fn served(&mut self, asked: &Call<'_>, node: u8, superseded: bool) {
        let Some(id) = asked.execution() else { return };
        let lost_elsewhere =
            superseded && self.set_back.get(&id).is_some_and(|loser| *loser != node);
        if lost_elsewhere || *self.nodes.entry(id.clone()).or_insert(node) != node {
            self.served_twice.insert(id);
        }
    }

    /// Resets the executions whose records were lost; `NoLostAck` checks what was acknowledged.
    fn set_back(&mut self, at_ms: u64, node: u8, view: &View<'_>) {
        let lost = view.commit_log.lost().filter(|commit| commit.lost_at_ms == Some(at_ms));
        let keys = lost.flat_map(|commit| &commit.keys).filter_map(|key| str::from_utf8(key).ok());
        for key in keys.filter_map(|key| key.parse().ok()) {
            if let Key::Execution(id, ExecutionPart::Core) = key
                && let Some(execution) = self.executions.get_mut(&id)
            {
                execution.set_back(Status::of(view.of(id.partition()), &id));
                self.set_back.insert(id, node);
            }
        }
    }

    /// The result of a call will never be known.
    fn lose(&mut self, call: CallId) {
        if let Some((id, _)) = self.under_way.remove(&call)
            && let Some(execution) = self.executions.get_mut(&id)
        {
            execution.lose(call);
        }
    }

    /// Counts lost leases.
    fn count_lost_leases(&mut self, asked: &Call<'_>, answer: &Answer) {
        let Some(id) = asked.execution() else { return };
        if asked.function == "requeue_lost_lease" && answer.is_done() {
            let claims = self.claims.entry(id.clone()).or_default();
            *claims += 1;
            if *claims >= RECLAIMS_MAX {
                self.executions.entry(id).or_default().permitted.may_be_given_up = true;
            }
        }
    }

    fn end(&mut self, call: CallId, learned: &Learned, view: &View<'_>, findings: &mut Findings) {
        let Some((id, operation)) = self.under_way.remove(&call) else { return };
        let Some(execution) = self.executions.get_mut(&id) else { return };
        let reply = match learned {
            Learned::Reply(reply)
                if self.repeats.remove(&call) && Answer::read(reply).is_done() =>
            {
                return execution.lose(call);
            }
            Learned::Reply(reply) => match Reply::read(&Answer::read(reply), operation) {
                Some(reply) => reply,
                None => return execution.lose(call),
            },
            Learned::NotApplied(_) => Reply::Refused,
            Learned::PerhapsApplied(_) => return execution.lose(call),
        };
        if let Err(why) = execution.end(call, reply)
            && !self.served_twice.contains(&id)
        {
            findings.add(view, &id, why);
        }
    }
}
