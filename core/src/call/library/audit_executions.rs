use alloc::string::ToString;
use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::LaneId;
use crate::key::{Key, PartitionIndex};
use crate::partition::Partition;
use crate::time::ServerTime;

/// Reads a page of a partition's executions, and returns those whose index entries look wrong. An
/// added function.
#[derive(Clone, Debug)]
pub struct AuditExecutions {
    /// Whose executions.
    pub partition: Partition,
    /// Where to go on; 0 at the beginning.
    pub cursor: u64,
    /// How many executions; at most 1000.
    pub limit: u32,
    /// The records of executions that ended before this are not read again.
    pub ended_before: ServerTime,
    /// The lanes in which such executions are looked for.
    pub lanes: Vec<LaneId>,
}

/// What an audit of a page found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditedPage {
    /// The server's clock.
    pub now: ServerTime,
    /// How many executions the partition has.
    pub size: u64,
    /// The cursor to go on with; 0 at the end.
    pub next: u64,
    /// How many commands the call took inside the server.
    pub commands: u64,
    /// The executions whose entries look wrong; they may be no ids at all.
    pub wrong: Vec<Vec<u8>>,
}

impl Function for AuditExecutions {
    const NAME: &'static str = "ff_audit_executions";
    const KEYS: &'static [&'static str] = &["all_executions"];
    const ARGS: &'static [&'static str] = &["cursor", "limit", "ended_before"];
    const READS_ONLY: bool = true;

    type Reply = AuditedPage;

    fn keys(&self) -> Vec<Key> {
        alloc::vec![Key::index(self.partition).whole(PartitionIndex::AllExecutions)]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        let mut args = args![self.cursor, self.limit, self.ended_before];
        args.extend(self.lanes.iter().map(|lane| lane.to_string().into_bytes()));
        args
    }

    fn read(envelope: Envelope) -> Result<AuditedPage, CallError> {
        let mut fields = envelope.ok()?;
        let (now, size) = (fields.parse("a time")?, fields.parse("a size")?);
        let (next, commands) = (fields.parse("a cursor")?, fields.parse("a count")?);
        let mut wrong = Vec::new();
        while !fields.is_empty() {
            wrong.push(fields.bytes()?);
        }
        Ok(AuditedPage { now, size, next, commands, wrong })
    }
}
