use alloc::string::String;
use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::envelope::broken;
use crate::call::{Envelope, Fields, Function};
use crate::error::CallError;
use crate::id::{EdgeId, ExecutionId};
use crate::key::Key;
use crate::value::Value;

/// Resolves the outgoing edges of an execution that ended, by the outcome its own record holds.
///
/// Goes in batches: an answer with a cursor is to be followed by a call with that cursor.
#[derive(Clone, Debug)]
pub struct ResolveOutgoing {
    /// The execution that ended.
    pub execution_id: ExecutionId,
    /// Where the last batch stopped; empty to begin.
    pub cursor: String,
    /// About how many edges to a batch; the store has its own limit unless given.
    pub limit: Option<u32>,
    /// This edge alone.
    pub only_edge: Option<EdgeId>,
    /// The child of that edge: it alone knows of an edge that was never staged.
    pub only_child: Option<ExecutionId>,
}

/// The result of one batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutgoingBatch {
    /// The cursor of the next page; none after the last edge.
    pub cursor: Option<String>,
    /// Edges that this batch resolved; those that were before are counted nowhere.
    pub resolved: u64,
    /// Edges that cannot be resolved yet: not applied, re-armed since, or under a foreign key.
    pub left: u64,
    /// Children that this batch ended; their own children follow.
    pub skipped: Vec<ExecutionId>,
    /// Children that can be claimed now.
    pub released: Vec<ExecutionId>,
}

impl Function for ResolveOutgoing {
    const NAME: &'static str = "ff_resolve_outgoing";
    const KEYS: &'static [&'static str] = &["upstream_core"];
    const ARGS: &'static [&'static str] =
        &["execution_id", "cursor", "limit", "only_edge", "only_child"];

    type Reply = OutgoingBatch;

    fn keys(&self) -> Vec<Key> {
        alloc::vec![Key::execution(&self.execution_id).core()]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![self.execution_id, self.cursor, self.limit, self.only_edge, self.only_child]
    }

    fn read(envelope: Envelope) -> Result<OutgoingBatch, CallError> {
        let mut fields = envelope.ok()?;
        let word = fields.text()?;
        let cursor = fields.text()?;
        let cursor = match word.as_str() {
            "more" => Some(cursor),
            "done" => None,
            _ => return Err(broken("done or more", Value::Bulk(word.into_bytes()))),
        };
        Ok(OutgoingBatch {
            cursor,
            resolved: fields.parse("a count")?,
            left: fields.parse("a count")?,
            skipped: counted(&mut fields)?,
            released: counted(&mut fields)?,
        })
    }
}

/// A list of executions with its length before it. The length is the sender's claim and reserves
/// nothing: a list that ends before it is broken.
fn counted(fields: &mut Fields) -> Result<Vec<ExecutionId>, CallError> {
    let length: u64 = fields.parse("a count")?;
    (0..length).map(|_| fields.parse("an execution id")).collect()
}
