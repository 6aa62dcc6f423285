use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::{Envelope, Fields, Function};
use crate::error::CallError;
use crate::key::Key;
use crate::time::ServerTime;

/// Asks what is due in some indexes of one slot, by the server's clock. An added function.
#[derive(Clone, Debug)]
pub struct Due {
    /// The indexes, and how many due members to pass over in each.
    pub indexes: Vec<(Key, u32)>,
    /// How many members of each are told; the function has a default and a ceiling.
    pub limit: Option<u32>,
}

/// What is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueNow {
    /// The server's clock.
    pub now: ServerTime,
    /// One entry per index, in order.
    pub indexes: Vec<DueIndex>,
}

/// What is due in one index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueIndex {
    /// When the first member that is not due yet will be.
    pub next: Option<ServerTime>,
    /// Due members and since when, oldest first. They are bytes: an index may hold anything.
    pub members: Vec<(Vec<u8>, ServerTime)>,
}

impl Function for Due {
    const NAME: &'static str = "ff_due";
    const KEYS: &'static [&'static str] = &[];
    const ARGS: &'static [&'static str] = &["limit"];
    const READS_ONLY: bool = true;

    type Reply = DueNow;

    fn keys(&self) -> Vec<Key> {
        self.indexes.iter().map(|(key, _)| key.clone()).collect()
    }

    fn args(&self) -> Vec<Vec<u8>> {
        let mut list = args![self.limit];
        list.extend(self.indexes.iter().flat_map(|(_, offset)| args![offset]));
        list
    }

    fn read(envelope: Envelope) -> Result<DueNow, CallError> {
        let mut fields = envelope.ok()?;
        let now = fields.parse("the server's time")?;
        let mut indexes = Vec::new();
        while !fields.is_empty() {
            indexes.push(read_index(Fields::over(fields.array()?))?);
        }
        Ok(DueNow { now, indexes })
    }
}

fn read_index(mut fields: Fields) -> Result<DueIndex, CallError> {
    let next = fields.parse_if_set("a score")?;
    let mut members = Vec::new();
    while !fields.is_empty() {
        members.push((fields.bytes()?, fields.parse("a score")?));
    }
    Ok(DueIndex { next, members })
}
