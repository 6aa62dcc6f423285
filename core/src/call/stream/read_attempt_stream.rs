use alloc::string::String;
use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::{Envelope, Fields, Function};
use crate::error::CallError;
use crate::id::{AttemptIndex, ExecutionId};
use crate::key::Key;
use crate::time::ServerTime;

/// Reads a page of an attempt's frames, oldest first.
#[derive(Clone, Debug)]
pub struct ReadAttemptStream {
    /// The execution.
    pub execution_id: ExecutionId,
    /// The attempt.
    pub attempt_index: AttemptIndex,
    /// First id, `-` for the oldest; `(` before it leaves it out.
    pub from_id: String,
    /// Last id, `+` for the newest.
    pub to_id: String,
    /// Most frames to read, from 1 to 10000.
    pub count_limit: u32,
    /// Whether best-effort frames are left out.
    pub exclude_best_effort: bool,
}

/// A frame as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFrame {
    /// Its id in the stream.
    pub entry_id: String,
    /// Its fields, in order.
    pub fields: Vec<(String, Vec<u8>)>,
}

/// A page of frames, and whether more can come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFramePage {
    /// The frames.
    pub frames: Vec<StoredFrame>,
    /// When the stream was closed, if it was.
    pub closed_at: Option<ServerTime>,
    /// Why it was closed; empty while it is open.
    pub closed_reason: String,
}

impl Function for ReadAttemptStream {
    const NAME: &'static str = "ff_read_attempt_stream";
    const KEYS: &'static [&'static str] = &["stream", "stream_meta"];
    const ARGS: &'static [&'static str] = &["from_id", "to_id", "count_limit", "visibility"];
    const READS_ONLY: bool = true;

    type Reply = StoredFramePage;

    fn keys(&self) -> Vec<Key> {
        let execution = Key::execution(&self.execution_id);
        alloc::vec![execution.stream(self.attempt_index), execution.stream_meta(self.attempt_index)]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        let visibility = if self.exclude_best_effort { "exclude_best_effort" } else { "" };
        args![self.from_id, self.to_id, self.count_limit, visibility]
    }

    fn read(envelope: Envelope) -> Result<StoredFramePage, CallError> {
        let mut fields = envelope.ok()?;
        let mut entries = Fields::over(fields.array()?);
        let mut frames = Vec::new();
        while !entries.is_empty() {
            frames.push(frame(Fields::over(entries.array()?))?);
        }
        Ok(StoredFramePage {
            frames,
            closed_at: fields.parse_if_set("a time")?,
            closed_reason: fields.text()?,
        })
    }
}

fn frame(mut entry: Fields) -> Result<StoredFrame, CallError> {
    let entry_id = entry.text()?;
    let mut flat = Fields::over(entry.array()?);
    let mut fields = Vec::new();
    while !flat.is_empty() {
        fields.push((flat.text()?, flat.bytes()?));
    }
    Ok(StoredFrame { entry_id, fields })
}
