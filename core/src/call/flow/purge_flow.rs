use alloc::string::String;
use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::envelope::broken;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::FlowId;
use crate::key::Key;
use crate::partition::Partition;
use crate::time::ServerTime;
use crate::value::Value;

/// Removes a finished flow all of whose members are gone.
///
/// Goes in steps, until the answer is not [`FlowPurge::Partial`] any more.
#[derive(Clone, Debug)]
pub struct PurgeFlow {
    /// The partition of the flow.
    pub partition: Partition,
    /// The flow.
    pub flow_id: FlowId,
    /// How long it is kept after its last change; a day unless given.
    pub retention_ms: Option<u64>,
    /// How many members or edges to a step; the store has its own limit unless given.
    pub limit: Option<u32>,
}

/// The result of one step of a purge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowPurge {
    /// Everything is gone.
    Purged,
    /// More is left.
    Partial,
    /// Not before this time.
    NotDue(ServerTime),
    /// This member is still there; empty for an open flow that never had any.
    Needed(String),
    /// There was no such flow; its index entry is gone.
    Gone,
}

impl Function for PurgeFlow {
    const NAME: &'static str = "ff_purge_flow";
    const KEYS: &'static [&'static str] = &["flow_core", "members", "flow_index"];
    const ARGS: &'static [&'static str] = &["flow_id", "retention_ms", "limit"];

    type Reply = FlowPurge;

    fn keys(&self) -> Vec<Key> {
        let flow = Key::flow(self.partition, self.flow_id);
        alloc::vec![flow.core(), flow.members(), Key::index(self.partition).flow_index()]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![self.flow_id, self.retention_ms, self.limit]
    }

    fn read(envelope: Envelope) -> Result<FlowPurge, CallError> {
        let mut fields = envelope.ok()?;
        let word = fields.text()?;
        match word.as_str() {
            "purged" => Ok(FlowPurge::Purged),
            "partial" => Ok(FlowPurge::Partial),
            "not_due" => fields.parse("a time").map(ServerTime).map(FlowPurge::NotDue),
            "needed" => fields.text().map(FlowPurge::Needed),
            "gone" => Ok(FlowPurge::Gone),
            _ => Err(broken("an outcome of a purge", Value::Bulk(word.into_bytes()))),
        }
    }
}
