//! Which upstreams have to run again before a replayed execution can.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use super::{Procedure, Replies, Step};
use crate::command::Command;
use crate::id::{EdgeId, ExecutionId, FlowId};
use crate::key::Key;
use crate::reply::fields;

/// An upstream without whose success an execution cannot run, and which will not succeed unless it
/// is replayed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReplayNeed {
    /// The upstream.
    pub upstream: ExecutionId,
    /// How it ended; empty if its record is gone, so that it cannot be replayed.
    pub outcome: String,
}

/// Finds out what a replay of an execution needs. Nothing is decided for an execution that has not
/// ended, or whose group has the successes that it needs.
pub struct ReplayNeeds {
    id: ExecutionId,
    edges: Vec<EdgeId>,
    /// Of a group that needs only some of its edges, how many.
    threshold: Option<u64>,
    /// The upstreams that have succeeded, as the edges say.
    satisfied: BTreeSet<ExecutionId>,
    /// The other upstreams.
    open: Vec<ExecutionId>,
    reading: Reading,
}

#[derive(Clone, Copy)]
enum Reading {
    Record,
    Edges,
    Upstreams,
}

impl ReplayNeeds {
    /// What a replay of this execution needs.
    #[must_use]
    pub const fn new(id: ExecutionId) -> Self {
        Self {
            id,
            edges: Vec::new(),
            threshold: None,
            satisfied: BTreeSet::new(),
            open: Vec::new(),
            reading: Reading::Record,
        }
    }

    fn read_edges(&mut self, mut replies: Replies) -> Step<Vec<ReplayNeed>> {
        let record = fields(replies.value());
        let [phase, flow] = record.as_slice() else { return Step::Done(Ok(Vec::new())) };
        self.edges = fields(replies.value()).iter().filter_map(|edge| edge.parse().ok()).collect();
        if phase != "terminal" || self.edges.is_empty() {
            return Step::Done(Ok(Vec::new()));
        }
        let keys = Key::execution(&self.id);
        let edge: [&[u8]; 2] = [b"state", b"upstream_execution_id"];
        let mut reads: Vec<Command> = self
            .edges
            .iter()
            .map(|id| Command::read("HMGET", &keys.dependency(*id), &edge))
            .collect();
        if let Ok(flow) = flow.parse::<FlowId>() {
            let group = Key::flow(self.id.partition(), flow).edge_group(&self.id);
            let names: [&[u8]; 3] = [b"policy_variant", b"k", b"group_state"];
            reads.push(Command::read("HMGET", &group, &names));
        }
        self.reading = Reading::Edges;
        Step::Send(reads)
    }

    fn read_upstreams(&mut self, mut replies: Replies) -> Step<Vec<ReplayNeed>> {
        for _ in 0..self.edges.len() {
            let edge = fields(replies.value());
            let [state, upstream] = edge.as_slice() else { continue };
            let Ok(upstream) = upstream.parse::<ExecutionId>() else { continue };
            match state.as_str() {
                "satisfied" => drop(self.satisfied.insert(upstream)),
                _ if !self.open.contains(&upstream) => self.open.push(upstream),
                _ => {}
            }
        }
        let group = fields(replies.value());
        if let [variant, k, state] = group.as_slice() {
            self.threshold = match variant.as_str() {
                "any_of" => Some(1),
                "quorum" => Some(k.parse::<u64>().unwrap_or(1).max(1)),
                _ => None,
            };
            if self.threshold.is_some() && state == "satisfied" {
                return Step::Done(Ok(Vec::new()));
            }
        }
        if self.open.is_empty() {
            return Step::Done(Ok(Vec::new()));
        }
        let names: [&[u8]; 2] = [b"lifecycle_phase", b"terminal_outcome"];
        let read = |id| Command::read("HMGET", &Key::execution(id).core(), &names);
        self.reading = Reading::Upstreams;
        Step::Send(self.open.iter().map(read).collect())
    }

    fn decide(&mut self, mut replies: Replies) -> Vec<ReplayNeed> {
        let mut hopeful = u64::try_from(self.satisfied.len()).unwrap_or(u64::MAX);
        let mut needs = Vec::new();
        for upstream in core::mem::take(&mut self.open) {
            let record = fields(replies.value());
            let [phase, outcome] = record.as_slice() else { continue };
            match (phase.as_str(), outcome.as_str()) {
                ("", _) => needs.push(ReplayNeed { upstream, outcome: String::new() }),
                ("terminal", outcome) if outcome != "success" => {
                    needs.push(ReplayNeed { upstream, outcome: outcome.into() });
                }
                _ => hopeful += 1,
            }
        }
        match self.threshold {
            Some(threshold) if hopeful >= threshold => Vec::new(),
            // Of those that can run again, any may be the one.
            Some(_) if needs.iter().any(|need| !need.outcome.is_empty()) => {
                needs.retain(|need| !need.outcome.is_empty());
                needs
            }
            Some(_) | None => needs,
        }
    }
}

impl Procedure for ReplayNeeds {
    type Output = Vec<ReplayNeed>;

    fn begin(&mut self) -> Step<Vec<ReplayNeed>> {
        let keys = Key::execution(&self.id);
        let names: [&[u8]; 2] = [b"lifecycle_phase", b"flow_id"];
        Step::Send(alloc::vec![
            Command::read("HMGET", &keys.core(), &names),
            Command::read("SMEMBERS", &keys.dependencies_all(), &[]),
        ])
    }

    fn replied(&mut self, replies: Replies) -> Step<Vec<ReplayNeed>> {
        match self.reading {
            Reading::Record => self.read_edges(replies),
            Reading::Edges => self.read_upstreams(replies),
            Reading::Upstreams => Step::Done(Ok(self.decide(replies))),
        }
    }
}
