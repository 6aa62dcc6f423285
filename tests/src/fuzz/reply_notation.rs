//! Replies as lines of text, which a fuzzer can change and a person can read.
//!
//! Each line is one element, with the signs of the wire but without lengths: `:7` a number, `$text`
//! a bulk string, `+text` a status, `-text` an error, `_` nil, `*` opens an array and `.` closes
//! it. Any bytes are some reply: an unknown sign is skipped, and open arrays end at the end.

use selvedge_core::value::Value;

/// The replies that these bytes spell, one after the other.
#[must_use]
pub fn read(bytes: &[u8]) -> Vec<Value> {
    // What is open: the outermost list, then arrays within arrays.
    let mut open = vec![Vec::new()];
    for line in bytes.split(|byte| *byte == b'\n') {
        let Some((sign, rest)) = line.split_first() else { continue };
        let text = || String::from_utf8_lossy(rest).into_owned();
        let element = match sign {
            b':' => Value::Int(text().parse().unwrap_or_default()),
            b'$' => Value::Bulk(rest.to_vec()),
            b'+' => Value::Status(text()),
            b'-' => Value::Error(text()),
            b'_' => Value::Nil,
            b'*' if open.len() < DEPTH_MAX => {
                open.push(Vec::new());
                continue;
            }
            b'.' if open.len() > 1 => Value::Array(open.pop().unwrap_or_default()),
            _ => continue,
        };
        if let Some(innermost) = open.last_mut() {
            innermost.push(element);
        }
    }
    while open.len() > 1 {
        let inner = Value::Array(open.pop().unwrap_or_default());
        if let Some(outer) = open.last_mut() {
            outer.push(inner);
        }
    }
    open.pop().unwrap_or_default()
}

/// The lines that spell a reply. A line break within a text does not survive.
#[must_use]
pub fn write(reply: &Value) -> Vec<u8> {
    let line = |sign: u8, text: &[u8]| [&[sign], text, b"\n"].concat();
    match reply {
        Value::Nil => line(b'_', b""),
        Value::Int(number) => line(b':', number.to_string().as_bytes()),
        Value::Bulk(bytes) => line(b'$', bytes),
        Value::Status(text) => line(b'+', text.as_bytes()),
        Value::Error(text) => line(b'-', text.as_bytes()),
        Value::Array(elements) => {
            let inner: Vec<u8> = elements.iter().flat_map(write).collect();
            [line(b'*', b""), inner, line(b'.', b"")].concat()
        }
    }
}

/// Deeper than any reply; the server itself cuts Lua tables off at about this depth.
const DEPTH_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let inner = Value::Array(vec![Value::Nil, Value::Status("QUEUED".into())]);
        let reply = Value::Array(vec![Value::Int(1), Value::Bulk(b"OK".to_vec()), inner]);
        assert_eq!(read(&write(&reply)), [reply]);
        assert_eq!(read(b"-ERR x\n:-5"), [Value::Error("ERR x".into()), Value::Int(-5)]);
    }

    #[test]
    fn any_bytes_mean_something() {
        assert_eq!(read(b"*\n*\n?\n.."), [Value::Array(vec![Value::Array(vec![])])]);
        assert_eq!(read(b".\n:x\n\n"), [Value::Int(0)]);
    }
}
