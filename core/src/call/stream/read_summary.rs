use alloc::string::String;
use alloc::vec::Vec;

use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::{AttemptIndex, ExecutionId};
use crate::key::Key;
use crate::time::ServerTime;

/// Reads the rolling summary document of an attempt.
#[derive(Clone, Debug)]
pub struct ReadSummary {
    /// The execution.
    pub execution_id: ExecutionId,
    /// The attempt.
    pub attempt_index: AttemptIndex,
}

/// The rolling document of an attempt; version 0 means that there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The document as JSON.
    pub document: Vec<u8>,
    /// How many patches it got.
    pub version: u64,
    /// The kind of its patches.
    pub patch_kind: String,
    /// When it got the last one.
    pub last_updated: ServerTime,
    /// When it got the first one.
    pub first_applied: ServerTime,
}

impl Function for ReadSummary {
    const NAME: &'static str = "ff_read_summary";
    const KEYS: &'static [&'static str] = &["stream_summary"];
    const ARGS: &'static [&'static str] = &[];
    const READS_ONLY: bool = true;

    type Reply = Summary;

    fn keys(&self) -> Vec<Key> {
        alloc::vec![Key::execution(&self.execution_id).attempt_summary(self.attempt_index)]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        Vec::new()
    }

    fn read(envelope: Envelope) -> Result<Summary, CallError> {
        let mut fields = envelope.ok()?;
        Ok(Summary {
            document: fields.bytes()?,
            version: fields.parse("a version")?,
            patch_kind: fields.text()?,
            last_updated: fields.parse("a time")?,
            first_applied: fields.parse("a time")?,
        })
    }
}
