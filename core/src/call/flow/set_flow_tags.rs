use alloc::string::String;
use alloc::vec::Vec;

use crate::call::{Envelope, Function, ToArg};
use crate::error::CallError;
use crate::id::FlowId;
use crate::key::Key;
use crate::partition::Partition;

/// Writes tags of a flow.
#[derive(Clone, Debug)]
pub struct SetFlowTags {
    /// The partition of the flow.
    pub partition: Partition,
    /// The flow.
    pub flow_id: FlowId,
    /// Tags and their values; of equal tags the last one counts.
    pub tags: Vec<(String, String)>,
}

impl Function for SetFlowTags {
    const NAME: &'static str = "ff_set_flow_tags";
    const KEYS: &'static [&'static str] = &["flow_core", "tags"];
    const ARGS: &'static [&'static str] = &["tag", "value"];

    /// How many pairs were written.
    type Reply = u64;

    fn keys(&self) -> Vec<Key> {
        let flow = Key::flow(self.partition, self.flow_id);
        alloc::vec![flow.core(), flow.tags()]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        self.tags.iter().flat_map(|(tag, value)| [tag.to_arg(), value.to_arg()]).collect()
    }

    fn read(envelope: Envelope) -> Result<u64, CallError> {
        envelope.ok()?.parse("a count")
    }
}
