use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::{EdgeId, ExecutionId};
use crate::key::Key;

/// Resolves one edge of a child whose upstream has lost its record for good.
#[derive(Clone, Debug)]
pub struct ResolveLost {
    /// The upstream.
    pub upstream: ExecutionId,
    /// The edge.
    pub edge_id: EdgeId,
    /// The execution that it leads to.
    pub child: ExecutionId,
}

wire_enum! {
    /// What happened to the child.
    pub enum LostEdge {
        /// The edge is resolved; the child waits for others.
        Resolved = "resolved",
        /// The child has ended: its own children follow.
        Skipped = "skipped",
        /// The child can be claimed.
        Released = "released",
        /// Nothing: the upstream has a record, or may be created yet, or the edge was resolved.
        Left = "left",
    }
}

impl Function for ResolveLost {
    const NAME: &'static str = "ff_resolve_lost";
    const KEYS: &'static [&'static str] = &["upstream_core"];
    const ARGS: &'static [&'static str] = &["execution_id", "edge_id", "downstream_eid"];

    type Reply = LostEdge;

    fn keys(&self) -> Vec<Key> {
        alloc::vec![Key::execution(&self.upstream).core()]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![self.upstream, self.edge_id, self.child]
    }

    fn read(envelope: Envelope) -> Result<LostEdge, CallError> {
        envelope.ok()?.parse("an outcome for the child")
    }
}
