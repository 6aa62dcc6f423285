use alloc::string::String;
use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::{ExecutionId, FlowId};
use crate::key::Key;
use crate::partition::Partition;

/// Marks a flow cancelled and answers its members.
#[derive(Clone, Debug)]
pub struct CancelFlow {
    /// The partition of the flow.
    pub partition: Partition,
    /// The flow.
    pub flow_id: FlowId,
    /// Why; may be empty.
    pub reason: String,
    /// What happens to its members.
    pub policy: CancellationPolicy,
    /// How long the reconciler leaves the cancels to the caller; half a minute unless given.
    pub grace_ms: Option<u64>,
}

wire_enum! {
    /// What happens to the members of a cancelled flow.
    pub enum CancellationPolicy {
        /// All are cancelled; the store lists those that are still to be cancelled.
        CancelAll = "cancel_all",
        /// They are left alone.
        FlowOnly = "flow_only",
        /// Stored, and left to the caller.
        CancelPending = "cancel_pending",
    }
}

impl Function for CancelFlow {
    const NAME: &'static str = "ff_cancel_flow";
    const KEYS: &'static [&'static str] =
        &["flow_core", "members", "flow_index", "pending_cancels", "cancel_backlog"];
    const ARGS: &'static [&'static str] =
        &["flow_id", "reason", "cancellation_policy", "now_ms", "grace_ms"];

    /// The members. One with an id that cannot be parsed is left out.
    type Reply = Vec<ExecutionId>;

    fn keys(&self) -> Vec<Key> {
        let flow = Key::flow(self.partition, self.flow_id);
        let index = Key::index(self.partition);
        alloc::vec![
            flow.core(),
            flow.members(),
            index.flow_index(),
            flow.pending_cancels(),
            index.cancel_backlog(),
        ]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![self.flow_id, self.reason, self.policy.as_str(), "", self.grace_ms]
    }

    fn read(envelope: Envelope) -> Result<Vec<ExecutionId>, CallError> {
        let mut fields = envelope.ok()?;
        let _policy = fields.bytes()?;
        let mut members = Vec::new();
        while !fields.is_empty() {
            members.extend(fields.text()?.parse::<ExecutionId>().ok());
        }
        Ok(members)
    }
}
