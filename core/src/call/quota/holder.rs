//! Whether the holder of a slot still has a use for it.

use crate::value::Value;

/// The fields of an execution's record that tell how it stands, for an `HMGET`.
pub const STANDING: [&[u8]; 2] = [b"lifecycle_phase", b"eligibility_state"];

/// Whether an execution that stands so neither runs nor can be claimed: it has to ask again before
/// it runs. Only a clear word counts: the record says so, or there is none.
#[must_use]
pub fn needs_no_slot(standing: &Value) -> bool {
    let Value::Array(words) = standing else { return false };
    match words.as_slice() {
        [Value::Nil, Value::Nil] => true,
        [Value::Bulk(phase), eligibility] => match phase.as_slice() {
            b"terminal" | b"suspended" => true,
            // Whoever is eligible may be about to be claimed with the slot that it has.
            b"runnable" => matches!(eligibility, Value::Bulk(word) if word != b"eligible_now"),
            _ => false,
        },
        _ => false,
    }
}
