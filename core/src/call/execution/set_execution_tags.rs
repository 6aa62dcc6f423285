use alloc::string::String;
use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::ExecutionId;
use crate::key::Key;

/// Sets tags of an execution, in any phase.
#[derive(Clone, Debug)]
pub struct SetExecutionTags {
    /// The execution.
    pub execution_id: ExecutionId,
    /// Names, `<caller>.<field>`, and values; at least one.
    pub tags: Vec<(String, Vec<u8>)>,
}

impl Function for SetExecutionTags {
    const NAME: &'static str = "ff_set_execution_tags";
    const KEYS: &'static [&'static str] = &["exec_core", "tags"];
    const ARGS: &'static [&'static str] = &[];

    /// How many pairs were given.
    type Reply = u32;

    fn keys(&self) -> Vec<Key> {
        let execution = Key::execution(&self.execution_id);
        alloc::vec![execution.core(), execution.tags()]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        self.tags.iter().flat_map(|(name, value)| args![name, value]).collect()
    }

    fn read(envelope: Envelope) -> Result<u32, CallError> {
        envelope.ok()?.parse("a count")
    }
}
