use alloc::vec::Vec;

use super::stage_dependency_edge::{DEPENDENCY_KIND, Edge};
use crate::call::args::args;
use crate::call::envelope::broken;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::{FlowId, LaneId};
use crate::key::{Key, LaneIndex};
use crate::time::ServerTime;
use crate::value::Value;

/// Records a dependency on a child and holds it back until the edge is resolved.
#[derive(Clone, Debug)]
pub struct ApplyDependencyToChild {
    /// The flow.
    pub flow_id: FlowId,
    /// The edge.
    pub edge: Edge,
    /// The child's lane.
    pub lane_id: LaneId,
    /// The revision of the graph with this edge; stored for readers.
    pub graph_revision: u64,
    /// When.
    pub now: ServerTime,
}

/// The result of applying a dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Application {
    /// The child waits for this many edges now.
    Applied {
        /// How many.
        unsatisfied: u64,
    },
    /// It had been applied before.
    AlreadyApplied,
}

impl Function for ApplyDependencyToChild {
    const NAME: &'static str = "ff_apply_dependency_to_child";
    const KEYS: &'static [&'static str] = &[
        "exec_core",
        "deps_meta",
        "unresolved",
        "dep",
        "eligible",
        "blocked",
        "all_edges",
        "edgegroup",
    ];
    const ARGS: &'static [&'static str] = &[
        "flow_id",
        "edge_id",
        "upstream_eid",
        "graph_revision",
        "dependency_kind",
        "data_passing_ref",
        "now_ms",
    ];

    type Reply = Application;

    fn keys(&self) -> Vec<Key> {
        let child = &self.edge.downstream;
        let partition = child.partition();
        let execution = Key::execution(child);
        let index = Key::index(partition);
        alloc::vec![
            execution.core(),
            execution.dependency_meta(),
            execution.dependencies_unresolved(),
            execution.dependency(self.edge.edge_id),
            index.lane(&self.lane_id, LaneIndex::Eligible),
            index.lane(&self.lane_id, LaneIndex::BlockedDependencies),
            execution.dependencies_all(),
            Key::flow(partition, self.flow_id).edge_group(child),
        ]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![
            self.flow_id,
            self.edge.edge_id,
            self.edge.upstream,
            self.graph_revision,
            DEPENDENCY_KIND,
            self.edge.data_passing_ref,
            self.now,
        ]
    }

    fn read(envelope: Envelope) -> Result<Application, CallError> {
        let word = envelope.ok()?.text()?;
        if word == "already_applied" {
            return Ok(Application::AlreadyApplied);
        }
        match word.parse() {
            Ok(unsatisfied) => Ok(Application::Applied { unsatisfied }),
            Err(_) => Err(broken("a count or already_applied", Value::Bulk(word.into_bytes()))),
        }
    }
}
