use alloc::vec::Vec;

use super::Novelty;
use crate::call::args::args;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::{ExecutionId, FlowId};
use crate::key::Key;

/// Adds a member to a flow and stamps the flow on the member's record.
#[derive(Clone, Debug)]
pub struct AddExecutionToFlow {
    /// The flow.
    pub flow_id: FlowId,
    /// The member; it lives where the flow does.
    pub execution_id: ExecutionId,
}

/// A flow with one member more, or as many as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    /// Whether the member is new.
    pub novelty: Novelty,
    /// How many members the flow has counted.
    pub node_count: u64,
}

impl Function for AddExecutionToFlow {
    const NAME: &'static str = "ff_add_execution_to_flow";
    const KEYS: &'static [&'static str] = &["flow_core", "members", "flow_index", "exec_core"];
    const ARGS: &'static [&'static str] = &["flow_id", "execution_id", "now_ms"];

    type Reply = Membership;

    fn keys(&self) -> Vec<Key> {
        let partition = self.execution_id.partition();
        let flow = Key::flow(partition, self.flow_id);
        alloc::vec![
            flow.core(),
            flow.members(),
            Key::index(partition).flow_index(),
            Key::execution(&self.execution_id).core(),
        ]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![self.flow_id, self.execution_id, ""]
    }

    fn read(mut envelope: Envelope) -> Result<Membership, CallError> {
        let Some(novelty) = Novelty::of(&envelope) else { return Err(envelope.unexpected()) };
        let _member: ExecutionId = envelope.fields.parse("an execution id")?;
        Ok(Membership { novelty, node_count: envelope.fields.parse("a count")? })
    }
}
