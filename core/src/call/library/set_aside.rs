use alloc::string::String;
use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::key::Key;
use crate::partition::Partition;

/// Moves an index entry that nobody can work on out of the way, with the reason. An added function.
#[derive(Clone, Debug)]
pub struct SetAside {
    /// The partition of the index.
    pub partition: Partition,
    /// The index.
    pub index: Key,
    /// The entry, verbatim.
    pub member: Vec<u8>,
    /// What is wrong with it.
    pub reason: String,
}

wire_enum! {
    /// What happened to it.
    pub enum SetAsideReply {
        /// It is kept aside now.
        SetAside = "set_aside",
        /// It was not in the index any more.
        AlreadyGone = "already_gone",
        /// The set-aside list is full; the entry stays in the index.
        Kept = "kept",
    }
}

impl Function for SetAside {
    const NAME: &'static str = "ff_set_aside";
    const KEYS: &'static [&'static str] = &["index", "aside"];
    const ARGS: &'static [&'static str] = &["member", "reason"];

    type Reply = SetAsideReply;

    fn keys(&self) -> Vec<Key> {
        alloc::vec![self.index.clone(), Key::Aside(self.partition)]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![self.member, self.reason]
    }

    fn read(envelope: Envelope) -> Result<SetAsideReply, CallError> {
        envelope.ok()?.parse("what became of the entry")
    }
}
