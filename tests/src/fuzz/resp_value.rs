//! Any bytes from a server: a reply or a failure, and the reply as the server meant it.

use selvedge::store::read_wire;
use selvedge_core::call::signatures;
use selvedge_core::value::Value;

/// Reads bytes as one reply, and gives it to every parser.
///
/// # Panics
/// When a reply of the older protocol is not read as what it says.
pub fn run(data: &[u8]) {
    let Some(reply) = read_wire(data) else { return };
    if let Some(meant) = plain(data) {
        assert_eq!(reply, meant, "{} is read otherwise", data.escape_ascii());
    }
    for signature in signatures() {
        let read = (signature.check)(reply.clone());
        if matches!(reply, Value::Error(_)) {
            assert!(read.is_err(), "{} takes an error for a success", signature.name);
        }
    }
}

/// What one line of the older protocol means, as far as that is beyond doubt.
fn plain(data: &[u8]) -> Option<Value> {
    let (sign, rest) = data.split_first()?;
    let line = rest.strip_suffix(b"\r\n")?;
    let text = str::from_utf8(line).ok()?;
    if text.contains(['\r', '\n']) {
        return None;
    }
    match sign {
        b'+' => Some(Value::Status(text.to_owned())),
        b'-' => Some(Value::Error(text.to_owned())),
        b':' if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok().map(Value::Int),
        b'$' if text == "-1" => Some(Value::Nil),
        b'*' if text == "-1" => Some(Value::Nil),
        _ => None,
    }
}
