//! Failures, in the notation of the spec files.

use std::fmt;
use std::path::PathBuf;

use selvedge_core::value::Value;

/// One expectation that did not hold, or one act that could not be done.
#[derive(Debug)]
pub struct Failure {
    /// The file.
    pub path: PathBuf,
    /// The line of the expectation or act.
    pub line: usize,
    /// The case.
    pub case: String,
    /// The store.
    pub store: String,
    /// The line as written.
    pub expected: String,
    /// What was there instead.
    pub got: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, case, store, expected, got } = self;
        writeln!(formatter, "{}:{line}: on {store}: case {case}", path.display())?;
        writeln!(formatter, "  expected  {expected}")?;
        write!(formatter, "  got       {got}")
    }
}

/// A value as a spec file would write it.
#[must_use]
pub fn show(value: &Value) -> String {
    match value {
        Value::Nil => "~nil".to_owned(),
        Value::Int(number) => format!(":{number}"),
        Value::Bulk(text) => show_text(text),
        Value::Status(text) => format!("~status:{}", show_text(text.as_bytes())),
        Value::Error(text) => format!("error {text}"),
        Value::Array(elements) => {
            let elements: Vec<_> = elements.iter().map(show).collect();
            if elements.is_empty() {
                "()".to_owned()
            } else {
                format!("( {} )", elements.join(" "))
            }
        }
    }
}

/// A whole reply as a spec file would write it.
#[must_use]
pub fn show_reply(reply: &Value) -> String {
    match reply {
        Value::Array(elements) => {
            let elements: Vec<_> = elements.iter().map(show).collect();
            // The first element is an integer by contract, and written without its sign.
            format!("reply {}", elements.join(" ").trim_start_matches(':'))
        }
        Value::Error(text) => format!("error {text}"),
        bare @ (Value::Nil | Value::Int(_) | Value::Bulk(_) | Value::Status(_)) => {
            format!("raw {}", show(bare))
        }
    }
}

/// A text as a spec file would write it, quoted where it must be.
#[must_use]
pub fn show_text(text: &[u8]) -> String {
    let plain = |byte: &u8| byte.is_ascii_graphic() && !b"\"'()$#".contains(byte);
    if !text.is_empty() && text.iter().all(plain) && !b"~*:".contains(&text[0]) {
        return String::from_utf8_lossy(text).into_owned();
    }
    let json = |byte: &u8| (byte.is_ascii_graphic() || *byte == b' ') && *byte != b'\'';
    if text.contains(&b'"') && text.iter().all(json) {
        return format!("'{}'", String::from_utf8_lossy(text));
    }
    let escaped: String = text.iter().map(|byte| show_byte(*byte)).collect();
    format!("\"{escaped}\"")
}

fn show_byte(byte: u8) -> String {
    match byte {
        b'"' => "\\\"".to_owned(),
        b'\\' => "\\\\".to_owned(),
        b' '..=b'~' => char::from(byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::word;

    #[test]
    fn what_is_shown_can_be_pasted_into_a_spec() {
        for text in
            [&b"plain:{fp:1}"[..], b"", b"a b", b"{\"a\":1}", b"it's \"\\", b"\x00\xff$", b"~x"]
        {
            let shown = show_text(text);
            let words = word::split(&shown).unwrap();
            let [word] = words.as_slice() else { panic!("{shown} is not one word") };
            let read: Vec<u8> = word
                .pieces()
                .iter()
                .flat_map(|piece| match piece {
                    word::Piece::Bare(text) => text.clone().into_bytes(),
                    word::Piece::Quoted(bytes) => bytes.clone(),
                    word::Piece::Variable { .. } => panic!("{shown} holds a variable"),
                })
                .collect();
            assert_eq!(read, text);
        }
    }

    #[test]
    fn a_reply_is_shown_as_its_line() {
        let nested = Value::Array(vec![Value::Int(2), Value::Nil]);
        let reply = Value::Array(vec![Value::Int(1), Value::Bulk(b"OK".to_vec()), nested]);
        assert_eq!(show_reply(&reply), "reply 1 OK ( :2 ~nil )");
    }
}
