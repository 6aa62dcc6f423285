use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::call::args::{ToArg, args};
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::{EdgeId, ExecutionId, FlowId};
use crate::key::Key;
use crate::partition::Partition;

/// Makes the index entry, members, edges, counts and pending cancels of a flow agree with the
/// records that are left.
#[derive(Clone, Debug)]
pub struct RepairFlow {
    /// Its partition.
    pub partition: Partition,
    /// The flow.
    pub flow_id: FlowId,
    /// The revision of its graph that the caller has seen.
    pub graph_revision: String,
    /// How many edges it had then; none leaves the count as it is.
    pub edge_count: Option<usize>,
    /// Executions whose records name the flow.
    pub members: Vec<ExecutionId>,
    /// Its edges, as far as any record or set names them.
    pub edges: Vec<FoundEdge>,
}

/// An edge, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FoundEdge {
    /// Its id.
    pub edge_id: EdgeId,
    /// The execution that it leads to.
    pub downstream: Option<ExecutionId>,
    /// The execution that it comes from.
    pub upstream: Option<ExecutionId>,
}

/// What was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRepair {
    /// Keys, members and fields.
    pub changes: Vec<String>,
}

impl Function for RepairFlow {
    const NAME: &'static str = "ff_repair_flow";
    const KEYS: &'static [&'static str] = &["flow_core"];
    const ARGS: &'static [&'static str] =
        &["flow_id", "graph_revision", "edge_count", "members", "found"];

    type Reply = FlowRepair;

    fn keys(&self) -> Vec<Key> {
        alloc::vec![Key::flow(self.partition, self.flow_id).core()]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        let count = self.members.len();
        let mut args = args![self.flow_id, self.graph_revision, self.edge_count, count];
        args.extend(self.members.iter().map(ToArg::to_arg));
        let end = |id: &Option<ExecutionId>| id.as_ref().map(ToString::to_string);
        args.extend(self.edges.iter().map(|edge| {
            let [to, from] =
                [&edge.downstream, &edge.upstream].map(|id| end(id).unwrap_or_default());
            format!("{}|{to}|{from}", edge.edge_id).into_bytes()
        }));
        args
    }

    fn read(envelope: Envelope) -> Result<FlowRepair, CallError> {
        let mut fields = envelope.ok()?;
        let _word = fields.text()?;
        let mut changes = Vec::new();
        while !fields.is_empty() {
            changes.push(fields.text()?);
        }
        Ok(FlowRepair { changes })
    }
}
