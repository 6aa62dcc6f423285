//! The safety net under dispatch: finds children whose upstream has ended without being dispatched,
//! resolves their edges by the upstream's record, and releases children without open edges. Also
//! resolves the edges of upstreams whose record is gone for good.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::index_reconciler::repair;
use super::staged_edges::ChildWithoutEdges;
use super::{Candidate, ScanContext, Scanner, ScannerName, ScannerSpec, Source};
use crate::call::flow::{
    LostEdge, OutgoingBatch, PromoteBlockedToEligible, ResolveLost, ResolveOutgoing,
};
use crate::command::Command;
use crate::engine::reply::{scanned, text};
use crate::engine::scanning::{CandidateOutcome, ScanStep};
use crate::error::{CallError, Code};
use crate::id::{EdgeId, ExecutionId, LaneId};
use crate::key::{Key, LaneIndex};
use crate::partition::Family;

pub(super) struct DependencyReconciler;

const SPEC: ScannerSpec = ScannerSpec {
    name: ScannerName::DependencyReconciler,
    interval: Duration::from_secs(15),
    interval_variable: "FF_DEPENDENCY_RECONCILER_INTERVAL_S",
    family: Family::Flow,
    sources: &[Source::AllInLane(LaneIndex::BlockedDependencies)],
    batch: 50,
    filtered: true,
};

/// Edges read by one command.
const EDGES_PER_STEP: &[u8] = b"100";

impl Scanner for DependencyReconciler {
    fn spec(&self) -> &'static ScannerSpec {
        &SPEC
    }

    fn sweep_cost(&self) -> u64 {
        3
    }

    fn begin(
        &self,
        context: &ScanContext,
        candidate: &Candidate,
    ) -> Result<ScanStep, CandidateOutcome> {
        let (id, lane) = (candidate.execution(context)?, candidate.lane()?);
        Ok(Child::new(id, Some(lane), context.clone()).next_edges())
    }
}

/// Resolves the edges of a child that is not in the index of blocked executions.
pub(super) fn resolve_edges(id: ExecutionId, context: ScanContext) -> ScanStep {
    Child::new(id, None, context).next_edges()
}

struct Child {
    id: ExecutionId,
    /// The lane in which it is blocked, if it is.
    lane: Option<LaneId>,
    context: ScanContext,
    cursor: String,
    /// Whether it has an open edge.
    waits: bool,
    resolved: u32,
    ended: Vec<ExecutionId>,
    /// A failure of one edge; the others go on.
    failure: Option<CandidateOutcome>,
}

impl Child {
    fn new(id: ExecutionId, lane: Option<LaneId>, context: ScanContext) -> Self {
        let (cursor, ended) = ("0".into(), Vec::new());
        Self { id, lane, context, cursor, waits: false, resolved: 0, ended, failure: None }
    }

    fn next_edges(self) -> ScanStep {
        let key = Key::execution(&self.id).dependencies_unresolved();
        let rest: [&[u8]; 3] = [self.cursor.as_bytes(), b"COUNT", EDGES_PER_STEP];
        let read = Command::read("SSCAN", &key, &rest);
        ScanStep::read(alloc::vec![read], move |replies| {
            match scanned(replies.into_iter().next()) {
                Ok((cursor, edges)) if edges.is_empty() => self.next_page(cursor),
                Ok((cursor, edges)) => self.find_upstreams(cursor, edges),
                Err(outcome) => outcome.with_skipped(self.ended).into(),
            }
        })
    }

    /// The next edges, or the end. A page of a set may be empty although more follow.
    fn next_page(mut self, cursor: String) -> ScanStep {
        self.cursor = cursor;
        if self.cursor != "0" {
            return self.next_edges();
        }
        if let (false, Some(lane)) = (self.waits, self.lane.clone()) {
            return self.release(lane);
        }
        let outcome = match (self.failure, self.resolved, self.lane) {
            (Some(failure), ..) => failure,
            (None, 0, _) => CandidateOutcome::nothing().remaining(),
            // Whether it left the index depends on its other edges; another look is cheap.
            (None, resolved, Some(_)) => CandidateOutcome::processed_times(resolved),
            (None, resolved, None) => CandidateOutcome::processed_times(resolved).remaining(),
        };
        outcome.with_skipped(self.ended).into()
    }

    /// No open edge is left, so nothing blocks the child.
    fn release(self, lane: LaneId) -> ScanStep {
        let call = PromoteBlockedToEligible {
            execution_id: self.id.clone(),
            lane_id: lane.clone(),
            now: self.context.now,
        };
        ScanStep::call(&call, move |reply| match reply {
            Ok(_) => CandidateOutcome::processed().into(),
            // The execution is gone: only the entry is left, and is removed.
            Err(CallError::Refused(refusal)) if refusal.code == Code::ExecutionNotFound => {
                repair(self.id, Some(lane))
            }
            Err(CallError::Refused(refusal)) if refusal.code == Code::DepsNotSatisfied => {
                ChildWithoutEdges { id: self.id, lane, context: self.context }.apply_staged()
            }
            Err(error) => {
                let settled = [Code::NotBlockedByDeps, Code::NotRunnable, Code::TerminalExecution];
                CandidateOutcome::error_unless(error, &settled).into()
            }
        })
    }

    fn find_upstreams(mut self, cursor: String, edges: Vec<String>) -> ScanStep {
        self.waits = true;
        let edges: Vec<EdgeId> = edges.iter().filter_map(|edge| edge.parse().ok()).collect();
        let keys = Key::execution(&self.id);
        let reads = edges
            .iter()
            .map(|&edge| Command::read("HGET", &keys.dependency(edge), &[b"upstream_execution_id"]))
            .collect();
        ScanStep::read(reads, move |replies| {
            let mut by_upstream: BTreeMap<ExecutionId, Vec<EdgeId>> = BTreeMap::new();
            for (edge, reply) in edges.into_iter().zip(replies) {
                match text(Some(reply)).map(|upstream| upstream.parse()) {
                    Ok(Ok(upstream)) => by_upstream.entry(upstream).or_default().push(edge),
                    Ok(Err(_)) => {}
                    Err(outcome) => self.failure = Some(outcome),
                }
            }
            self.read_upstreams(cursor, by_upstream)
        })
    }

    /// Resolves the edges of upstreams that have ended, or that have no record; a call about
    /// another would be refused. The call itself decides whether a record is gone or not created
    /// yet.
    fn read_upstreams(
        mut self,
        cursor: String,
        by_upstream: BTreeMap<ExecutionId, Vec<EdgeId>>,
    ) -> ScanStep {
        let reads = by_upstream
            .keys()
            .map(|id| Command::read("HGET", &Key::execution(id).core(), &[b"lifecycle_phase"]))
            .collect();
        ScanStep::read(reads, move |phases| {
            let (mut calls, mut lost) = (Vec::new(), Vec::new());
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
                    Ok(phase) if phase.is_empty() => {
                        lost.extend(edges.into_iter().map(|edge_id| ResolveLost {
                            upstream: upstream.clone(),
                            edge_id,
                            child: self.id.clone(),
                        }));
                    }
                    Ok(_) => {}
                    Err(outcome) => self.failure = Some(outcome),
                }
            }
            self.resolve(cursor, calls, lost)
        })
    }

    fn resolve(
        mut self,
        cursor: String,
        calls: Vec<ResolveOutgoing>,
        lost: Vec<ResolveLost>,
    ) -> ScanStep {
        ScanStep::calls(&calls, move |replies| {
            for reply in replies {
                match reply {
                    Ok(OutgoingBatch { resolved, skipped, .. }) => {
                        self.resolved += u32::try_from(resolved).unwrap_or(u32::MAX);
                        self.ended.extend(skipped);
                    }
                    // The upstream was replayed or purged since: its edge remains open.
                    Err(error) => {
                        let moved_on = [Code::ExecutionNotTerminal, Code::ExecutionNotFound];
                        let outcome = CandidateOutcome::error_unless(error, &moved_on);
                        if outcome != CandidateOutcome::nothing().remaining() {
                            self.failure = Some(outcome);
                        }
                    }
                }
            }
            self.resolve_lost(cursor, lost)
        })
    }

    fn resolve_lost(mut self, cursor: String, calls: Vec<ResolveLost>) -> ScanStep {
        if calls.is_empty() {
            return self.next_page(cursor);
        }
        ScanStep::calls(&calls, move |replies| {
            for reply in replies {
                match reply {
                    Ok(LostEdge::Left) => {}
                    Ok(LostEdge::Resolved | LostEdge::Released) => self.resolved += 1,
                    Ok(LostEdge::Skipped) => {
                        self.resolved += 1;
                        self.ended.push(self.id.clone());
                    }
                    Err(error) => self.failure = Some(CandidateOutcome::error(error)),
                }
            }
            self.next_page(cursor)
        })
    }
}
