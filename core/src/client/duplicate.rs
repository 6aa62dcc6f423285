//! An idempotency key that was used before: is it the same execution that is submitted again?

use alloc::string::ToString;

use super::{Failure, Replies};
use crate::call::execution::CreateExecution;
use crate::command::Command;
use crate::id::ExecutionId;
use crate::key::Key;
use crate::reply::{as_bytes, record};

/// The reads whose replies [`check`] needs.
pub(super) fn reads(first: &ExecutionId) -> [Command; 3] {
    let keys = Key::execution(first);
    let names: [&[u8]; 2] = [b"execution_kind", b"lane_id"];
    [
        Command::read("HMGET", &keys.core(), &names),
        Command::read("GET", &keys.payload(), &[]),
        Command::read("GET", &keys.policy(), &[]),
    ]
}

/// Compares kind, lane, input and policy with those of the first execution. One that was purged
/// meanwhile compares as the same.
pub(super) fn check(
    call: &CreateExecution,
    first: &ExecutionId,
    replies: &mut Replies,
) -> Result<(), Failure> {
    let core = record(replies.value());
    let mut bytes = || as_bytes(replies.value()).unwrap_or_default();
    let (payload, policy) = (bytes(), bytes());
    let Some(core) = core else { return Ok(()) };
    let is_same = core.field(0) == call.execution_kind
        && core.field(1) == call.lane_id.as_str()
        && payload == call.input_payload
        && policy == call.policy_json.as_bytes();
    if is_same {
        return Ok(());
    }
    Err(Failure::OtherContent { kind: "execution", id: first.to_string() })
}
