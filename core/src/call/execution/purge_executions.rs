use alloc::vec::Vec;

use super::{Purge, PurgeExecution};
use crate::call::args::args;
use crate::call::{Envelope, Function};
use crate::error::{CallError, ServerError};
use crate::id::{ExecutionId, LaneId};
use crate::key::{Key, LaneIndex};
use crate::partition::Partition;
use crate::value::Value;

/// Purges many executions of one index, each as [`PurgeExecution`] does. An added function.
#[derive(Clone, Debug)]
pub struct PurgeExecutions {
    /// The partition of all of them.
    pub partition: Partition,
    /// The lane in whose terminal index they were found.
    pub lane: LaneId,
    /// As for one.
    pub retention_ms: Option<u64>,
    /// Records in all.
    pub limit: Option<u32>,
    /// As for one.
    pub keep: Option<u64>,
    /// The executions, at most [`Self::MAX`].
    pub executions: Vec<ExecutionId>,
}

impl PurgeExecutions {
    /// Most executions of one call.
    pub const MAX: usize = 256;
}

impl Function for PurgeExecutions {
    const NAME: &'static str = "ff_purge_executions";
    const KEYS: &'static [&'static str] = &["terminal"];
    const ARGS: &'static [&'static str] = &["retention_ms", "limit", "keep"];

    /// One for each, in order; none for those for which there was no room left.
    type Reply = Vec<Result<Purge, CallError>>;

    fn keys(&self) -> Vec<Key> {
        alloc::vec![Key::index(self.partition).lane(&self.lane, LaneIndex::Terminal)]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        let mut args = args![self.retention_ms, self.limit, self.keep];
        args.extend(self.executions.iter().map(|id| id.as_str().as_bytes().to_vec()));
        args
    }

    fn read(envelope: Envelope) -> Result<Self::Reply, CallError> {
        let mut fields = envelope.ok()?;
        let mut purges = Vec::new();
        while !fields.is_empty() {
            purges.push(read_one(fields.array()?));
        }
        Ok(purges)
    }
}

fn read_one(mut reply: Vec<Value>) -> Result<Purge, CallError> {
    match reply.pop() {
        Some(Value::Bulk(text)) if reply.is_empty() => {
            Err(ServerError::from_reply(alloc::string::String::from_utf8_lossy(&text)).into())
        }
        last => PurgeExecution::parse(Value::Array(reply.into_iter().chain(last).collect())),
    }
}
