//! Edges that were staged in the flow and never applied to their child, because whoever built the
//! flow died between the two calls. A child that waits for nothing else would wait for ever: after
//! a while the engine applies them in the builder's place, whose own late call finds it done.

use alloc::string::String;
use alloc::vec::Vec;

use super::Scene;
use crate::call::flow::{ApplyDependencyToChild, Edge};
use crate::engine::step::{Step, Verdict};
use crate::engine::texts::{scanned, text, texts};
use crate::engine::wire::Command;
use crate::error::Code;
use crate::id::{EdgeId, ExecutionId, FlowId, LaneId};
use crate::key::{FlowKeys, Key};

/// How long a builder may take between the two calls before it counts as dead.
const PATIENCE_MS: i64 = 60_000;

/// Edges looked at in one step.
const EDGES_PER_STEP: &[u8] = b"100";

/// Fields of a staged edge.
const FIELDS: [&[u8]; 3] = [b"upstream_execution_id", b"data_passing_ref", b"created_at"];

/// A blocked child without open edges.
pub(super) struct Orphan {
    pub(super) id: ExecutionId,
    pub(super) lane: LaneId,
    pub(super) scene: Scene,
}

impl Orphan {
    /// Applies what was staged for it long ago.
    pub(super) fn adopt(self) -> Step {
        let core = Key::execution(&self.id).core();
        let read = Command::read("HGET", &core, &[b"flow_id"]);
        Step::read(alloc::vec![read], move |replies| {
            match text(replies.into_iter().next()).map(|flow| flow.parse()) {
                Ok(Ok(flow)) => self.page(flow, String::from("0"), 0),
                Ok(Err(_)) => Verdict::nothing().staying().into(),
                Err(verdict) => verdict.into(),
            }
        })
    }

    fn page(self, flow: FlowId, cursor: String, applied: u32) -> Step {
        let key = self.keys(flow).in_to(&self.id);
        let read = Command::read("SSCAN", &key, &[cursor.as_bytes(), b"COUNT", EDGES_PER_STEP]);
        Step::read(alloc::vec![read], move |replies| match scanned(replies.into_iter().next()) {
            Ok((cursor, edges)) => {
                let edges = edges.iter().filter_map(|edge| edge.parse().ok()).collect();
                self.sift(flow, edges, cursor, applied)
            }
            Err(verdict) => verdict.into(),
        })
    }

    fn keys(&self, flow: FlowId) -> FlowKeys {
        Key::flow(self.id.partition(), flow)
    }

    /// Of these edges, those that the child does not know of and that are old enough.
    fn sift(self, flow: FlowId, edges: Vec<EdgeId>, cursor: String, applied: u32) -> Step {
        let child = Key::execution(&self.id);
        let reads = edges.iter().flat_map(|&edge| {
            let known = Command::read("HGET", &child.dependency(edge), &[b"edge_id"]);
            [known, Command::read("HMGET", &self.keys(flow).edge(edge), &FIELDS)]
        });
        Step::read(reads.collect(), move |replies| {
            let mut replies = replies.into_iter();
            let mut calls = Vec::new();
            for edge in edges {
                match (text(replies.next()), texts(replies.next())) {
                    (Ok(known), Ok(staged)) if known.is_empty() => {
                        calls.extend(self.call(flow, edge, &staged));
                    }
                    (Ok(_), Ok(_)) => {}
                    (Err(verdict), _) | (_, Err(verdict)) => return verdict.into(),
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
        let age_ms = self.scene.now.0.saturating_sub(created_at.parse().ok()?);
        if age_ms < PATIENCE_MS {
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
            now: self.scene.now,
        })
    }

    fn apply(
        self,
        flow: FlowId,
        calls: Vec<ApplyDependencyToChild>,
        cursor: String,
        mut applied: u32,
    ) -> Step {
        Step::calls(&calls, move |replies| {
            for reply in replies {
                match reply {
                    Ok(_) => applied += 1,
                    // It was purged, or is in another flow by now.
                    Err(error) => {
                        let moved_on = [Code::ExecutionNotFound, Code::ExecutionAlreadyInFlow];
                        let verdict = Verdict::error_unless(error, &moved_on);
                        if verdict != Verdict::nothing().staying() {
                            return verdict.into();
                        }
                    }
                }
            }
            match (cursor.as_str(), applied) {
                ("0", 0) => Verdict::nothing().staying().into(),
                ("0", _) => Verdict::processed().times(applied).into(),
                _ => self.page(flow, cursor, applied),
            }
        })
    }
}
