//! Edges that were staged in the flow and never applied to their child, because the client that
//! built the flow died between the two calls. Without them a child would wait for ever, so the
//! engine applies them after some time; a late call of the client then finds it done.

use alloc::string::String;
use alloc::vec::Vec;

use super::ScanContext;
use crate::call::flow::{ApplyDependencyToChild, Edge};
use crate::command::Command;
use crate::engine::reply::{scanned, text, texts};
use crate::engine::scanning::{CandidateOutcome, ScanStep};
use crate::error::Code;
use crate::id::{EdgeId, ExecutionId, FlowId, LaneId};
use crate::key::{FlowKeys, Key};

/// How long a client may take between the two calls.
const APPLY_WITHIN_MS: i64 = 60_000;

/// Edges read by one command.
const EDGES_PER_STEP: &[u8] = b"100";

/// Fields of a staged edge.
const FIELDS: [&[u8]; 3] = [b"upstream_execution_id", b"data_passing_ref", b"created_at"];

/// A blocked child without open edges.
pub(super) struct ChildWithoutEdges {
    pub(super) id: ExecutionId,
    pub(super) lane: LaneId,
    pub(super) context: ScanContext,
}

impl ChildWithoutEdges {
    /// Applies the edges that were staged for it long enough ago.
    pub(super) fn apply_staged(self) -> ScanStep {
        let core = Key::execution(&self.id).core();
        let read = Command::read("HGET", &core, &[b"flow_id"]);
        ScanStep::read(alloc::vec![read], move |replies| {
            match text(replies.into_iter().next()).map(|flow| flow.parse()) {
                Ok(Ok(flow)) => self.page(flow, String::from("0"), 0),
                Ok(Err(_)) => CandidateOutcome::nothing().remaining().into(),
                Err(outcome) => outcome.into(),
            }
        })
    }

    fn page(self, flow: FlowId, cursor: String, applied: u32) -> ScanStep {
        let key = self.keys(flow).in_to(&self.id);
        let read = Command::read("SSCAN", &key, &[cursor.as_bytes(), b"COUNT", EDGES_PER_STEP]);
        ScanStep::read(alloc::vec![read], move |replies| {
            match scanned(replies.into_iter().next()) {
                Ok((cursor, edges)) => {
                    let edges = edges.iter().filter_map(|edge| edge.parse().ok()).collect();
                    self.select_unapplied(flow, edges, cursor, applied)
                }
                Err(outcome) => outcome.into(),
            }
        })
    }

    fn keys(&self, flow: FlowId) -> FlowKeys {
        Key::flow(self.id.partition(), flow)
    }

    /// Of these edges, applies those that the child does not have and that are old enough.
    fn select_unapplied(
        self,
        flow: FlowId,
        edges: Vec<EdgeId>,
        cursor: String,
        applied: u32,
    ) -> ScanStep {
        let child = Key::execution(&self.id);
        let reads = edges.iter().flat_map(|&edge| {
            let known = Command::read("HGET", &child.dependency(edge), &[b"edge_id"]);
            [known, Command::read("HMGET", &self.keys(flow).edge(edge), &FIELDS)]
        });
        ScanStep::read(reads.collect(), move |replies| {
            let mut replies = replies.into_iter();
            let mut calls = Vec::new();
            for edge in edges {
                match (text(replies.next()), texts(replies.next())) {
                    (Ok(known), Ok(staged)) if known.is_empty() => {
                        calls.extend(self.call(flow, edge, &staged));
                    }
                    (Ok(_), Ok(_)) => {}
                    (Err(outcome), _) | (_, Err(outcome)) => return outcome.into(),
                }
            }
            self.apply(flow, calls, cursor, applied)
        })
    }

    fn call(
        &self,
        flow: FlowId,
        edge: EdgeId,
        staged: &[String],
    ) -> Option<ApplyDependencyToChild> {
        let [upstream, data_passing_ref, created_at] = staged else { return None };
        let age_ms = self.context.now.0.saturating_sub(created_at.parse().ok()?);
        if age_ms < APPLY_WITHIN_MS {
            return None;
        }
        Some(ApplyDependencyToChild {
            flow_id: flow,
            edge: Edge {
                edge_id: edge,
                upstream: upstream.parse().ok()?,
                downstream: self.id.clone(),
                data_passing_ref: data_passing_ref.clone(),
            },
            lane_id: self.lane.clone(),
            graph_revision: 0,
            now: self.context.now,
        })
    }

    fn apply(
        self,
        flow: FlowId,
        calls: Vec<ApplyDependencyToChild>,
        cursor: String,
        mut applied: u32,
    ) -> ScanStep {
        ScanStep::calls(&calls, move |replies| {
            for reply in replies {
                match reply {
                    Ok(_) => applied += 1,
                    // It was purged, or is in another flow now.
                    Err(error) => {
                        let moved_on = [Code::ExecutionNotFound, Code::ExecutionAlreadyInFlow];
                        let outcome = CandidateOutcome::error_unless(error, &moved_on);
                        if outcome != CandidateOutcome::nothing().remaining() {
                            return outcome.into();
                        }
                    }
                }
            }
            match (cursor.as_str(), applied) {
                ("0", 0) => CandidateOutcome::nothing().remaining().into(),
                ("0", _) => CandidateOutcome::processed_times(applied).into(),
                _ => self.page(flow, cursor, applied),
            }
        })
    }
}
