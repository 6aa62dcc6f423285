//! A policy says what its document says, can be written, and says the same when it is read again.

use selvedge_core::policy::ExecutionPolicy;
use serde_json::Value;

/// Reads a document as a policy.
///
/// # Panics
/// When something is read that the document does not say, or does not survive being written.
pub fn run(data: &[u8]) {
    match ExecutionPolicy::read(data) {
        Ok(policy) => {
            let written = policy.to_json();
            let again = ExecutionPolicy::read(written.as_bytes());
            assert_eq!(again.as_ref(), Ok(&policy), "written as {written}");
            let read: Value = serde_json::from_str(&written).expect("JSON was written");
            // Nothing at all says nothing, and passed over is what nobody else can keep.
            if let Ok(document) = serde_json::from_slice::<Value>(data) {
                assert!(says(&document, &read), "{document} is read as {read}");
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Whether a document says what was read of it. Members that it has not are defaults.
fn says(document: &Value, read: &Value) -> bool {
    match (document, read) {
        (Value::Object(document), Value::Object(read)) => document.iter().all(|(name, said)| {
            // Who gives nothing gives what is left out; what nobody knows is passed over.
            read.get(name).is_none_or(|read| says(said, read)) || said.is_null()
        }),
        (Value::Array(said), Value::Array(read)) => {
            said.len() == read.len() && said.iter().zip(read).all(|(said, read)| says(said, read))
        }
        // A whole number is fraction enough for a factor.
        (Value::Number(said), Value::Number(read)) if read.is_f64() => {
            said.as_f64() == read.as_f64()
        }
        // An id has several spellings, of which one is written.
        (Value::String(said), Value::String(read)) => {
            said == read || said.parse::<uuid::Uuid>().is_ok_and(|id| id.to_string() == *read)
        }
        _ => document == read,
    }
}
