//! Output frames and rolling summaries of attempts.

mod append_frame;
mod read_attempt_stream;
mod read_summary;

pub use append_frame::{AppendFrame, AppendedFrame, FrameMode};
pub use read_attempt_stream::{ReadAttemptStream, StoredFrame, StoredFramePage};
pub use read_summary::{ReadSummary, Summary};

use super::Signature;

/// The functions of this domain.
pub const SIGNATURES: &[Signature] = &[
    Signature::of::<AppendFrame>(),
    Signature::of::<ReadAttemptStream>(),
    Signature::of::<ReadSummary>(),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Function;
    use crate::value::Value;
    use alloc::vec;

    fn bulk(text: &str) -> Value {
        Value::Bulk(text.into())
    }

    #[test]
    fn a_page_keeps_the_fields_of_each_frame() {
        let frame = vec![bulk("1-0"), Value::Array(vec![bulk("mode"), bulk("durable")])];
        let reply = Value::Array(vec![
            Value::Int(1),
            bulk("OK"),
            Value::Array(vec![Value::Array(frame)]),
            bulk(""),
            bulk(""),
        ]);
        let page = ReadAttemptStream::parse(reply).unwrap();
        assert_eq!(page.frames[0].fields, [("mode".into(), b"durable".to_vec())]);
        assert_eq!(page.closed_at, None);
    }

    #[test]
    fn a_pace_is_written_with_six_decimals() {
        let call = AppendFrame {
            execution_id: "{fp:1}:00000000-0000-4000-8000-000000000001".parse().unwrap(),
            attempt_index: crate::id::AttemptIndex(0),
            fence: crate::id::Fence {
                lease_id: "00000000-0000-4000-8000-000000000401".parse().unwrap(),
                lease_epoch: crate::id::LeaseEpoch(1),
                attempt_id: "00000000-0000-4000-8000-000000000501".parse().unwrap(),
            },
            frame_type: "stdout".into(),
            ts: None,
            payload: b"\xff".to_vec(),
            encoding: "utf8".into(),
            correlation_id: None,
            source: "worker".into(),
            retention_maxlen: 0,
            max_payload_bytes: 65_536,
            mode: FrameMode::BestEffort {
                ttl_ms: 1000,
                maxlen_floor: Some(64),
                maxlen_ceiling: None,
                ema_alpha_millionths: Some(200_000),
            },
        };
        let args = call.args();
        assert_eq!(args.len(), AppendFrame::ARGS.len());
        assert_eq!(args[6], b"\xff");
        assert_eq!(args[18], b"0.200000");
    }
}
