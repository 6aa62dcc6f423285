//! The net under dispatch: finds children whose upstream ended while nobody heard, resolves their
//! edges by the upstream's own record, and releases those that wait for nothing.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::index_reconciler::repair;
use super::staged_edges::Orphan;
use super::{Candidate, Scanner, ScannerName, Scene, Source, Spec};
use crate::call::flow::{OutgoingBatch, PromoteBlockedToEligible, ResolveOutgoing};
use crate::engine::step::{Step, Verdict};
use crate::engine::texts::{scanned, text};
use crate::engine::wire::Command;
use crate::error::{CallError, Code};
use crate::id::{EdgeId, ExecutionId, LaneId};
use crate::key::{Key, LaneIndex};
use crate::partition::Family;

pub(super) struct DependencyReconciler;

const SPEC: Spec = Spec {
    name: ScannerName::DependencyReconciler,
    every: Duration::from_secs(15),
    interval_variable: "FF_DEPENDENCY_RECONCILER_INTERVAL_S",
    family: Family::Flow,
    sources: &[Source::AllInLane(LaneIndex::BlockedDependencies)],
    batch: 50,
    filtered: true,
};

/// Edges looked at in one step.
const EDGES_PER_STEP: &[u8] = b"100";

impl Scanner for DependencyReconciler {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn begin(&self, scene: &Scene, candidate: &Candidate) -> Result<Step, Verdict> {
        let (id, lane) = (candidate.execution(scene)?, candidate.lane()?);
        Ok(Child::new(id, Some(lane), scene.clone()).next_edges())
    }
}

/// Resolves what can be resolved of the edges of a child that is not among the blocked.
pub(super) fn resolve_edges(id: ExecutionId, scene: Scene) -> Step {
    Child::new(id, None, scene).next_edges()
}

struct Child {
    id: ExecutionId,
    /// Where it is blocked, if it is.
    lane: Option<LaneId>,
    scene: Scene,
    cursor: String,
    /// Whether it has an open edge.
    waits: bool,
    resolved: u32,
    ended: Vec<ExecutionId>,
    /// What went wrong with one edge; the others go on all the same.
    trouble: Option<Verdict>,
}

impl Child {
    fn new(id: ExecutionId, lane: Option<LaneId>, scene: Scene) -> Self {
        let (cursor, ended) = ("0".into(), Vec::new());
        Self { id, lane, scene, cursor, waits: false, resolved: 0, ended, trouble: None }
    }

    fn next_edges(self) -> Step {
        let key = Key::execution(&self.id).dependencies_unresolved();
        let rest: [&[u8]; 3] = [self.cursor.as_bytes(), b"COUNT", EDGES_PER_STEP];
        let read = Command::read("SSCAN", &key, &rest);
        Step::read(alloc::vec![read], move |replies| match scanned(replies.into_iter().next()) {
            Ok((cursor, edges)) if edges.is_empty() => self.go_on(cursor),
            Ok((cursor, edges)) => self.find_upstreams(cursor, edges),
            Err(verdict) => verdict.ending(self.ended).into(),
        })
    }

    /// The next edges, or the end. A page of a set may be empty although others follow.
    fn go_on(mut self, cursor: String) -> Step {
        self.cursor = cursor;
        if self.cursor != "0" {
            return self.next_edges();
        }
        if let (false, Some(lane)) = (self.waits, self.lane.clone()) {
            return self.release(lane);
        }
        let verdict = match (self.trouble, self.resolved, self.lane) {
            (Some(trouble), ..) => trouble,
            (None, 0, _) => Verdict::nothing().staying(),
            // Whether it left the index depends on its other edges; looking again is cheap.
            (None, resolved, Some(_)) => Verdict::processed().times(resolved),
            (None, resolved, None) => Verdict::processed().times(resolved).staying(),
        };
        verdict.ending(self.ended).into()
    }

    /// No open edge is left: whatever blocks the child now is nothing at all.
    fn release(self, lane: LaneId) -> Step {
        let call = PromoteBlockedToEligible {
            execution_id: self.id.clone(),
            lane_id: lane.clone(),
            now: self.scene.now,
        };
        Step::call(&call, move |reply| match reply {
            Ok(_) => Verdict::processed().into(),
            // Nobody is there: the entry is all that is left, and goes.
            Err(CallError::Refused(refusal)) if refusal.code == Code::ExecutionNotFound => {
                repair(self.id, Some(lane))
            }
            Err(CallError::Refused(refusal)) if refusal.code == Code::DepsNotSatisfied => {
                Orphan { id: self.id, lane, scene: self.scene }.adopt()
            }
            Err(error) => {
                let settled = [Code::NotBlockedByDeps, Code::NotRunnable, Code::TerminalExecution];
                Verdict::error_unless(error, &settled).into()
            }
        })
    }

    fn find_upstreams(mut self, cursor: String, edges: Vec<String>) -> Step {
        self.waits = true;
        let edges: Vec<EdgeId> = edges.iter().filter_map(|edge| edge.parse().ok()).collect();
        let keys = Key::execution(&self.id);
        let reads = edges
            .iter()
            .map(|&edge| Command::read("HGET", &keys.dependency(edge), &[b"upstream_execution_id"]))
            .collect();
        Step::read(reads, move |replies| {
            let mut by_upstream: BTreeMap<ExecutionId, Vec<EdgeId>> = BTreeMap::new();
            for (edge, reply) in edges.into_iter().zip(replies) {
                match text(Some(reply)).map(|upstream| upstream.parse()) {
                    Ok(Ok(upstream)) => by_upstream.entry(upstream).or_default().push(edge),
                    Ok(Err(_)) => {}
                    Err(verdict) => self.trouble = Some(verdict),
                }
            }
            self.ask_upstreams(cursor, by_upstream)
        })
    }

    /// Only an upstream that has ended is asked to resolve its edge; an open one would refuse.
    fn ask_upstreams(
        mut self,
        cursor: String,
        by_upstream: BTreeMap<ExecutionId, Vec<EdgeId>>,
    ) -> Step {
        let reads = by_upstream
            .keys()
            .map(|id| Command::read("HGET", &Key::execution(id).core(), &[b"lifecycle_phase"]))
            .collect();
        Step::read(reads, move |phases| {
            let mut calls = Vec::new();
            for ((upstream, edges), phase) in by_upstream.into_iter().zip(phases) {
                match text(Some(phase)) {
                    Ok(phase) if phase == "terminal" => {
                        calls.extend(edges.into_iter().map(|edge| ResolveOutgoing {
                            execution_id: upstream.clone(),
                            cursor: "0".into(),
                            limit: None,
                            only_edge: Some(edge),
                            only_child: Some(self.id.clone()),
                        }));
                    }
                    Ok(_) => {}
                    Err(verdict) => self.trouble = Some(verdict),
                }
            }
            self.resolve(cursor, calls)
        })
    }

    fn resolve(mut self, cursor: String, calls: Vec<ResolveOutgoing>) -> Step {
        Step::calls(&calls, move |replies| {
            for reply in replies {
                match reply {
                    Ok(OutgoingBatch { resolved, skipped, .. }) => {
                        self.resolved += u32::try_from(resolved).unwrap_or(u32::MAX);
                        self.ended.extend(skipped);
                    }
                    // The upstream was replayed or purged since: its edge stays open.
                    Err(error) => {
                        let moved_on = [Code::ExecutionNotTerminal, Code::ExecutionNotFound];
                        let verdict = Verdict::error_unless(error, &moved_on);
                        if verdict != Verdict::nothing().staying() {
                            self.trouble = Some(verdict);
                        }
                    }
                }
            }
            self.go_on(cursor)
        })
    }
}
