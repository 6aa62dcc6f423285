//! [`Value`]: what a store answers, whatever carried it.
//!
//! The shell maps wire replies into it, the in-process host produces it, every reply parser of
//! [`crate::call`] reads it. It has the shapes of RESP2, in which all our functions answer.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// One reply, or one element of a reply.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value {
    /// A null bulk string or null array; Lua sees `false`.
    Nil,
    /// A RESP integer.
    Int(i64),
    /// A bulk string: any bytes.
    Bulk(Vec<u8>),
    /// A status reply such as `OK`, without the leading `+`.
    Status(String),
    /// An error reply, without the leading `-`: first word is the code, e.g. `WRONGTYPE …`.
    Error(String),
    /// An array of replies.
    Array(Vec<Value>),
}

/// For messages to people: the beginning of what is large.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nil => f.write_str("nil"),
            Self::Int(number) => write!(f, "{number}"),
            Self::Bulk(bytes) => write_text(f, bytes),
            Self::Status(text) => write_text(f, text.as_bytes()),
            Self::Error(text) => {
                f.write_str("the error ")?;
                write_text(f, text.as_bytes())
            }
            Self::Array(elements) => {
                f.write_str("[")?;
                for (at, element) in elements.iter().take(ELEMENTS_SHOWN).enumerate() {
                    f.write_str(if at > 0 { ", " } else { "" })?;
                    element.fmt(f)?;
                }
                match elements.len().saturating_sub(ELEMENTS_SHOWN) {
                    0 => f.write_str("]"),
                    more => write!(f, ", and {more} more]"),
                }
            }
        }
    }
}

fn write_text(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    let shown = bytes.get(..BYTES_SHOWN).unwrap_or(bytes);
    let end = if shown.len() < bytes.len() { "…" } else { "" };
    write!(f, "`{}{end}`", shown.escape_ascii())
}

const ELEMENTS_SHOWN: usize = 8;
const BYTES_SHOWN: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec;

    #[test]
    fn a_value_is_shown_as_people_read_it() {
        let reply = Value::Array(vec![
            Value::Int(1),
            Value::Bulk(b"OK\n".to_vec()),
            Value::Nil,
            Value::Error("ERR no".to_string()),
        ]);
        assert_eq!(reply.to_string(), "[1, `OK\\n`, nil, the error `ERR no`]");
        let many = Value::Array(vec![Value::Int(0); 10]).to_string();
        assert!(many.ends_with("0, and 2 more]"), "{many}");
        assert!(Value::Bulk(vec![b'x'; 99]).to_string().ends_with("x…`"));
    }
}
