use alloc::string::String;
use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::{EdgeId, ExecutionId, FlowId};
use crate::key::Key;
use crate::time::ServerTime;

/// Adds an edge to the graph of a flow, if the graph is still the one the caller saw.
#[derive(Clone, Debug)]
pub struct StageDependencyEdge {
    /// The flow.
    pub flow_id: FlowId,
    /// The edge.
    pub edge: Edge,
    /// The revision of the graph that the caller saw.
    pub expected_graph_revision: u64,
    /// When.
    pub now: ServerTime,
}

/// An edge between two members of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Its id.
    pub edge_id: EdgeId,
    /// The member that comes first.
    pub upstream: ExecutionId,
    /// The member that waits for it.
    pub downstream: ExecutionId,
    /// Anything that is not empty hands the upstream's result to the child.
    pub data_passing_ref: String,
}

/// The only kind of dependency; stored and never read.
pub(super) const DEPENDENCY_KIND: &str = "success_only";

impl Function for StageDependencyEdge {
    const NAME: &'static str = "ff_stage_dependency_edge";
    const KEYS: &'static [&'static str] =
        &["flow_core", "members", "edge", "outgoing", "incoming", "grant"];
    const ARGS: &'static [&'static str] = &[
        "flow_id",
        "edge_id",
        "upstream_eid",
        "downstream_eid",
        "dependency_kind",
        "data_passing_ref",
        "expected_graph_revision",
        "now_ms",
    ];

    /// The revision of the graph with this edge.
    type Reply = u64;

    fn keys(&self) -> Vec<Key> {
        let flow = Key::flow(self.edge.downstream.partition(), self.flow_id);
        alloc::vec![
            flow.core(),
            flow.members(),
            flow.edge(self.edge.edge_id),
            flow.out_of(&self.edge.upstream),
            flow.in_to(&self.edge.downstream),
            flow.grant(self.edge.edge_id),
        ]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![
            self.flow_id,
            self.edge.edge_id,
            self.edge.upstream,
            self.edge.downstream,
            DEPENDENCY_KIND,
            self.edge.data_passing_ref,
            self.expected_graph_revision,
            self.now,
        ]
    }

    fn read(envelope: Envelope) -> Result<u64, CallError> {
        let mut fields = envelope.ok()?;
        let _edge = fields.bytes()?;
        fields.parse("a graph revision")
    }
}
