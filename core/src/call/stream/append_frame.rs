use alloc::string::String;
use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::{AttemptIndex, ExecutionId, Fence};
use crate::key::Key;
use crate::time::ServerTime;

/// How a frame is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameMode {
    /// Kept until the stream's retention trims it.
    Durable,
    /// As a merge patch of the attempt's rolling document; the payload is the patch.
    Summary,
    /// For a while, as many as the rate allows.
    BestEffort {
        /// How long it is worth keeping.
        ttl_ms: u64,
        /// Fewest frames to keep, if not the usual number.
        maxlen_floor: Option<u32>,
        /// Most frames to keep, if not the usual number.
        maxlen_ceiling: Option<u32>,
        /// How fast the measured rate follows, in millionths; the usual pace otherwise.
        ema_alpha_millionths: Option<u32>,
    },
}

/// Appends one frame to the output of an attempt.
#[derive(Clone, Debug)]
pub struct AppendFrame {
    /// The execution.
    pub execution_id: ExecutionId,
    /// The attempt that runs.
    pub attempt_index: AttemptIndex,
    /// The lease it runs under.
    pub fence: Fence,
    /// `stdout`, `stderr`, `event`, `blob`, or the caller's own.
    pub frame_type: String,
    /// When it was written; the server's time if not given.
    pub ts: Option<ServerTime>,
    /// Its payload.
    pub payload: Vec<u8>,
    /// How that is encoded.
    pub encoding: String,
    /// A correlation id.
    pub correlation_id: Option<String>,
    /// Who wrote it.
    pub source: String,
    /// How many frames the stream keeps; 0 for about ten thousand.
    pub retention_maxlen: u32,
    /// Largest payload that is taken.
    pub max_payload_bytes: u32,
    /// How it is kept.
    pub mode: FrameMode,
}

/// An appended frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppendedFrame {
    /// Its id in the stream.
    pub entry_id: String,
    /// How many frames the stream ever got.
    pub frame_count: u64,
    /// The version of the document after a summary frame.
    pub summary_version: Option<u64>,
}

/// The last six arguments, by mode.
fn mode_args(mode: &FrameMode) -> Vec<Vec<u8>> {
    match mode {
        FrameMode::Durable => args!["durable", "", 0_u64, "", "", ""],
        FrameMode::Summary => args!["summary", "json-merge-patch", 0_u64, "", "", ""],
        FrameMode::BestEffort { ttl_ms, maxlen_floor, maxlen_ceiling, ema_alpha_millionths } => {
            args![
                "best_effort",
                "",
                ttl_ms,
                maxlen_floor,
                maxlen_ceiling,
                ema_alpha_millionths.map(decimal),
            ]
        }
    }
}

/// Millionths as a decimal fraction.
fn decimal(millionths: u32) -> String {
    alloc::format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000)
}

impl Function for AppendFrame {
    const NAME: &'static str = "ff_append_frame";
    const KEYS: &'static [&'static str] = &["exec_core", "stream", "stream_meta", "stream_summary"];
    const ARGS: &'static [&'static str] = &[
        "execution_id",
        "attempt_index",
        "lease_id",
        "lease_epoch",
        "frame_type",
        "ts",
        "payload",
        "encoding",
        "correlation_id",
        "source",
        "retention_maxlen",
        "attempt_id",
        "max_payload_bytes",
        "stream_mode",
        "patch_kind",
        "ttl_ms",
        "maxlen_floor",
        "maxlen_ceiling",
        "ema_alpha",
    ];

    type Reply = AppendedFrame;

    fn keys(&self) -> Vec<Key> {
        let execution = Key::execution(&self.execution_id);
        alloc::vec![
            execution.core(),
            execution.stream(self.attempt_index),
            execution.stream_meta(self.attempt_index),
            execution.attempt_summary(self.attempt_index),
        ]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        let mut args = args![
            self.execution_id,
            self.attempt_index,
            self.fence.lease_id,
            self.fence.lease_epoch,
            self.frame_type,
            self.ts,
            self.payload,
            self.encoding,
            self.correlation_id,
            self.source,
            self.retention_maxlen,
            self.fence.attempt_id,
            self.max_payload_bytes,
        ];
        args.extend(mode_args(&self.mode));
        args
    }

    fn read(envelope: Envelope) -> Result<AppendedFrame, CallError> {
        let mut fields = envelope.ok()?;
        Ok(AppendedFrame {
            entry_id: fields.text()?,
            frame_count: fields.parse("a count of frames")?,
            summary_version: fields.parse_if_set("a version")?,
        })
    }
}
