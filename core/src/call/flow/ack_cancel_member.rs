use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::{ExecutionId, FlowId};
use crate::key::Key;
use crate::partition::Partition;

/// Records that one member's cancel is done; with the last one the flow leaves the backlog.
#[derive(Clone, Debug)]
pub struct AckCancelMember {
    /// The partition of the flow; the member may be in another one.
    pub partition: Partition,
    /// The flow that was cancelled.
    pub flow_id: FlowId,
    /// The member whose cancel is done.
    pub execution_id: ExecutionId,
}

impl Function for AckCancelMember {
    const NAME: &'static str = "ff_ack_cancel_member";
    const KEYS: &'static [&'static str] = &["pending_cancels", "cancel_backlog"];
    const ARGS: &'static [&'static str] = &["execution_id", "flow_id"];

    type Reply = ();

    fn keys(&self) -> Vec<Key> {
        let flow = Key::flow(self.partition, self.flow_id);
        alloc::vec![flow.pending_cancels(), Key::index(self.partition).cancel_backlog()]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![self.execution_id, self.flow_id]
    }

    fn read(envelope: Envelope) -> Result<(), CallError> {
        envelope.ok().map(drop)
    }
}
