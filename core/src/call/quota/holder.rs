//! Whether the holder of a slot still has a use for it.

use crate::value::Value;

/// The fields of an execution's record that tell its state, for an `HMGET`.
pub const HOLDER_FIELDS: [&[u8]; 2] = [b"lifecycle_phase", b"eligibility_state"];

/// Whether an execution in this state neither runs nor can be claimed: it must be admitted again
/// before it runs. True only if the record says so or there is no record.
#[must_use]
pub fn needs_no_slot(fields: &Value) -> bool {
    let Value::Array(words) = fields else { return false };
    match words.as_slice() {
        [Value::Nil, Value::Nil] => true,
        [Value::Bulk(phase), eligibility] => match phase.as_slice() {
            b"terminal" | b"suspended" => true,
            // An eligible one may be about to be claimed with the slot that it has.
            b"runnable" => matches!(eligibility, Value::Bulk(word) if word != b"eligible_now"),
            _ => false,
        },
        _ => false,
    }
}
