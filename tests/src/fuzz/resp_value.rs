//! Any bytes from a server: a reply that a second reader confirms, or an error.

use selvedge::fuzzing::read_wire;
use selvedge_core::call::signatures;
use selvedge_core::value::Value;

/// Reads bytes as one reply, and gives it to every parser.
///
/// # Panics
/// When a reply whose meaning is beyond doubt is refused, or read as another one.
pub fn run(data: &[u8]) {
    let read = read_wire(data);
    if let Some((meant, _)) = meant(data, 0) {
        assert_eq!(read, Some(meant), "{} is read otherwise", data.escape_ascii());
    }
    let Some(reply) = read else { return };
    for signature in signatures() {
        let read = (signature.read)(reply.clone());
        if matches!(reply, Value::Error(_)) {
            assert!(read.is_err(), "{} takes an error for a success", signature.name);
        }
    }
}

/// The first reply among these bytes, as far as its meaning is beyond doubt, and what follows it:
/// the whole older protocol, and of the newer one what it says in another way.
fn meant(data: &[u8], depth: usize) -> Option<(Value, &[u8])> {
    let (sign, rest) = data.split_first()?;
    let end = rest.windows(2).position(|two| two == b"\r\n").filter(|_| depth < DEPTH_MAX)?;
    let (line, rest) = (str::from_utf8(&rest[..end]).ok()?, &rest[end + 2..]);
    let reply = match sign {
        b'+' => Value::Status(line.to_owned()),
        b'-' => Value::Error(line.to_owned()),
        b':' => Value::Int(number(line)?),
        b'$' | b'*' if line == "-1" => Value::Nil,
        b'_' if line.is_empty() => Value::Nil,
        b'#' if line == "t" || line == "f" => Value::Int(i64::from(line == "t")),
        b'$' => return text(rest, count(line)?),
        b'*' | b'~' => return list(rest, count(line)?, depth),
        // Names and values in turn, as the older protocol has it.
        b'%' => return list(rest, count(line)?.checked_mul(2)?, depth),
        _ => return None,
    };
    Some((reply, rest))
}

fn text(data: &[u8], length: usize) -> Option<(Value, &[u8])> {
    let (text, rest) = data.split_at_checked(length)?;
    Some((Value::Bulk(text.to_vec()), rest.strip_prefix(b"\r\n")?))
}

fn list(mut data: &[u8], length: usize, depth: usize) -> Option<(Value, &[u8])> {
    let mut elements = Vec::new();
    for _ in 0..length {
        let (element, rest) = meant(data, depth + 1)?;
        elements.push(element);
        data = rest;
    }
    Some((Value::Array(elements), data))
}

fn count(text: &str) -> Option<usize> {
    usize::try_from(number(text)?).ok()
}

/// A number in the one spelling that servers use.
fn number(text: &str) -> Option<i64> {
    text.parse::<i64>().ok().filter(|number| number.to_string() == text)
}

/// Deeper than any reply of ours; the client library gives up at 100.
const DEPTH_MAX: usize = 64;
