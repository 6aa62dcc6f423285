//! Every reply parser takes any reply: a typed reply or a typed error, never a panic.

use selvedge_core::call::signatures;
use selvedge_core::error::CallError;
use selvedge_core::value::Value;

use super::notation;

/// Gives a reply to every parser.
///
/// # Panics
/// When one takes a refusal or a server's error for a success.
pub fn run(data: &[u8]) {
    for reply in notation::read(data).into_iter().take(REPLIES_MAX) {
        for signature in signatures() {
            let read = (signature.check)(reply.clone());
            if let Err(error) = &read {
                // Whoever logs it must be able to.
                assert!(!error.to_string().is_empty());
            }
            match &reply {
                Value::Error(_) => assert!(
                    matches!(read, Err(CallError::Server(_))),
                    "{} reads {reply:?} as {read:?}",
                    signature.name
                ),
                Value::Array(elements) if elements.first() == Some(&Value::Int(0)) => {
                    assert!(read.is_err(), "{} reads {reply:?} as a success", signature.name);
                }
                Value::Array(_)
                | Value::Nil
                | Value::Int(_)
                | Value::Bulk(_)
                | Value::Status(_) => {}
            }
        }
    }
}

/// One is enough to break a parser.
const REPLIES_MAX: usize = 4;
