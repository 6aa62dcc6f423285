use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::envelope::broken;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::{ExecutionId, LaneId};
use crate::key::{Key, LaneIndex};
use crate::time::ServerTime;
use crate::value::Value;

/// Removes a terminal execution whose retention is over, in bounded steps. An added function.
#[derive(Clone, Debug)]
pub struct PurgeExecution {
    /// The execution.
    pub execution_id: ExecutionId,
    /// The lane in whose terminal index it was found.
    pub lane: LaneId,
    /// How long a finished execution is kept; its policy comes first.
    pub retention_ms: Option<u64>,
    /// How many records one step removes; the function has a default and a ceiling.
    pub limit: Option<u32>,
    /// If given, the retention does not matter to an execution after whose end at least so many
    /// others of its index ended.
    pub keep: Option<u64>,
}

/// The result of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purge {
    /// Nothing of it is left; this many records went in this step.
    Purged(u32),
    /// Some are left: call again.
    Partial(u32),
    /// It is kept until then.
    NotDue(ServerTime),
    /// This child is still waiting for its outcome.
    Needed(ExecutionId),
    /// There is no such execution; the entries are gone.
    NotFound,
}

impl Function for PurgeExecution {
    const NAME: &'static str = "ff_purge_execution";
    const KEYS: &'static [&'static str] = &["exec_core", "terminal"];
    const ARGS: &'static [&'static str] = &["execution_id", "retention_ms", "limit", "keep"];

    type Reply = Purge;

    fn keys(&self) -> Vec<Key> {
        let index = Key::index(self.execution_id.partition());
        alloc::vec![
            Key::execution(&self.execution_id).core(),
            index.lane(&self.lane, LaneIndex::Terminal),
        ]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![self.execution_id, self.retention_ms, self.limit, self.keep]
    }

    fn read(envelope: Envelope) -> Result<Purge, CallError> {
        let mut fields = envelope.ok()?;
        let word = fields.text()?;
        match word.as_str() {
            "purged" => fields.parse("a count").map(Purge::Purged),
            "partial" => fields.parse("a count").map(Purge::Partial),
            "not_due" => fields.parse("when it is due").map(Purge::NotDue),
            "needed" => fields.parse("an execution id").map(Purge::Needed),
            "not_found_cleaned" => Ok(Purge::NotFound),
            _ => Err(broken("an outcome of a purge", Value::Bulk(word.into_bytes()))),
        }
    }
}
