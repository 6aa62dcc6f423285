use alloc::string::String;
use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::{FlowId, Namespace};
use crate::key::Key;
use crate::partition::Partition;

/// Creates a flow, once, and enters it in the index of its partition.
#[derive(Clone, Debug)]
pub struct CreateFlow {
    /// The partition of the flow.
    pub partition: Partition,
    /// The flow.
    pub flow_id: FlowId,
    /// What kind of flow it is.
    pub flow_kind: String,
    /// Its namespace.
    pub namespace: Namespace,
}

/// Whether a call did its work or found it done before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Novelty {
    /// This call did it.
    New,
    /// It had been done before; nothing changed.
    Known,
}

impl Novelty {
    pub(super) fn of(envelope: &Envelope) -> Option<Self> {
        match envelope.status.as_str() {
            "OK" => Some(Self::New),
            "ALREADY_SATISFIED" => Some(Self::Known),
            _ => None,
        }
    }
}

impl Function for CreateFlow {
    const NAME: &'static str = "ff_create_flow";
    const KEYS: &'static [&'static str] = &["flow_core", "members", "flow_index"];
    const ARGS: &'static [&'static str] = &["flow_id", "flow_kind", "namespace", "now_ms"];

    type Reply = Novelty;

    fn keys(&self) -> Vec<Key> {
        let flow = Key::flow(self.partition, self.flow_id);
        alloc::vec![flow.core(), flow.members(), Key::index(self.partition).flow_index()]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![self.flow_id, self.flow_kind, self.namespace, ""]
    }

    fn read(envelope: Envelope) -> Result<Novelty, CallError> {
        Novelty::of(&envelope).ok_or_else(|| envelope.unexpected())
    }
}
