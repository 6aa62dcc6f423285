use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::envelope::broken;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::FlowId;
use crate::key::Key;
use crate::partition::Partition;
use crate::state::FlowState;
use crate::value::Value;

/// Writes the summary of a flow, counted over all its members.
///
/// A large flow takes several calls, until the answer is not [`Projection::Partial`] any more. What
/// the flow's callers began and cannot finish any more is pursued on the way.
#[derive(Clone, Debug)]
pub struct ProjectFlow {
    /// The partition of the flow.
    pub partition: Partition,
    /// The flow.
    pub flow_id: FlowId,
    /// About how many members to a call; the store has its own limit unless given.
    pub limit: Option<u32>,
}

/// The result of a projection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Projection {
    /// The summary is written, with this word of the contract; some members have not ended.
    Projected(FlowState),
    /// The summary is written, all members have ended, and the flow left the index.
    Finished(FlowState),
    /// The summary is written, and all members are gone: the flow can be purged. It stays in the
    /// index until it is.
    Deserted,
    /// Members are left to count.
    Partial,
    /// Its submission had stopped halfway through the seal, which went on by some members.
    Sealing,
    /// Its submission was never finished and is cancelled now, with all its members.
    Abandoned,
    /// There is no such flow; it left the index.
    Gone,
}

impl Function for ProjectFlow {
    const NAME: &'static str = "ff_project_flow";
    const KEYS: &'static [&'static str] = &["flow_core", "members", "summary", "flow_index"];
    const ARGS: &'static [&'static str] = &["flow_id", "limit"];

    type Reply = Projection;

    fn keys(&self) -> Vec<Key> {
        let flow = Key::flow(self.partition, self.flow_id);
        alloc::vec![
            flow.core(),
            flow.members(),
            flow.summary(),
            Key::index(self.partition).flow_index(),
        ]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![self.flow_id, self.limit]
    }

    fn read(envelope: Envelope) -> Result<Projection, CallError> {
        let mut fields = envelope.ok()?;
        let word = fields.text()?;
        match word.as_str() {
            "projected" => Ok(Projection::Projected(fields.parse("a flow's state")?)),
            "finished" => Ok(Projection::Finished(fields.parse("a flow's state")?)),
            "deserted" => Ok(Projection::Deserted),
            "partial" => Ok(Projection::Partial),
            "sealing" => Ok(Projection::Sealing),
            "abandoned" => Ok(Projection::Abandoned),
            "gone" => Ok(Projection::Gone),
            _ => Err(broken("an outcome of a projection", Value::Bulk(word.into_bytes()))),
        }
    }
}
