//! Every reply parser takes any reply: a typed reply or a typed error, never a panic.

use selvedge_core::call::signatures;
use selvedge_core::error::{CallError, Code, Refusal};
use selvedge_core::value::Value;

use super::reply_notation;

/// Gives a reply to every parser.
///
/// # Panics
/// When one takes anything but the envelope of a success for one, tells another refusal, or does
/// not understand one.
pub fn run(data: &[u8]) {
    for reply in reply_notation::read(data).into_iter().take(REPLIES_MAX) {
        for signature in signatures() {
            let read = (signature.read)(reply.clone());
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
                Value::Array(_)
                | Value::Nil
                | Value::Int(_)
                | Value::Bulk(_)
                | Value::Status(_) => {
                    let may_succeed = is_success(signature.name, &reply);
                    assert!(
                        read.is_err() || may_succeed,
                        "{} reads {reply:?} as a success",
                        signature.name
                    );
                }
            }
            if let Some(refusal) = meant(signature.name, &reply) {
                assert_eq!(read, Err(refusal.into()), "{} reads {reply:?}", signature.name);
            }
            if let Err(CallError::Refused(refusal)) = &read {
                assert!(
                    says(&reply, &refusal.code.to_string()),
                    "{reply:?} is read as {refusal:?}"
                );
            }
        }
    }
}

/// Whether this reply has the form of a success: the envelope, but for the two that have none.
fn is_success(function: &str, reply: &Value) -> bool {
    match (function, reply) {
        ("ff_version", reply) => matches!(reply, Value::Bulk(_)),
        ("ff_check_admission_and_record", Value::Array(elements)) => {
            matches!(elements.first(), Some(Value::Bulk(_)))
        }
        (_, Value::Array(elements)) => elements.first() == Some(&Value::Int(1)),
        (_, Value::Nil | Value::Int(_) | Value::Bulk(_) | Value::Status(_) | Value::Error(_)) => {
            false
        }
    }
}

/// The refusal that this reply means beyond doubt: a code of the contract, and texts behind it.
fn meant(function: &str, reply: &Value) -> Option<Refusal> {
    let Value::Array(elements) = reply else { return None };
    let [Value::Int(0), Value::Bulk(code), details @ ..] = elements.as_slice() else { return None };
    let code: Code = str::from_utf8(code).ok()?.parse().ok()?;
    let text =
        |detail: &Value| if let Value::Bulk(text) = detail { Some(text.clone()) } else { None };
    let details = details.iter().map(text).collect::<Option<_>>()?;
    (!BARE.contains(&function)).then(|| Refusal::new(code, details))
}

/// Whether a reply refuses with this code, which may carry its detail behind a colon.
fn says(reply: &Value, code: &str) -> bool {
    let Value::Array(elements) = reply else { return false };
    let [Value::Int(0), Value::Bulk(said), ..] = elements.as_slice() else { return false };
    let detail = said.strip_prefix(code.as_bytes());
    detail.is_some_and(|detail| detail.is_empty() || detail.starts_with(b":"))
}

/// Those that answer without an envelope.
const BARE: [&str; 2] = ["ff_version", "ff_check_admission_and_record"];

/// One is enough to break a parser.
const REPLIES_MAX: usize = 4;
