//! A policy that was read can be written, and says the same when it is read again.

use selvedge_core::policy::ExecutionPolicy;

/// Reads a document as a policy.
///
/// # Panics
/// When what was read does not survive being written.
pub fn run(data: &[u8]) {
    match ExecutionPolicy::read(data) {
        Ok(policy) => {
            let written = policy.to_json();
            let again = ExecutionPolicy::read(written.as_bytes());
            assert_eq!(again.as_ref(), Ok(&policy), "written as {written}");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
