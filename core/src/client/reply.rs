//! Converts replies of plain commands to strings, bytes and maps.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::value::Value;

/// The reply of `HGETALL` as a map of strings; empty for any other reply.
#[must_use]
pub fn text_hash(reply: Value) -> BTreeMap<String, String> {
    let mut hash = BTreeMap::new();
    let mut flat = fields(reply).into_iter();
    while let (Some(name), Some(value)) = (flat.next(), flat.next()) {
        hash.insert(name, value);
    }
    hash
}

/// The elements of an array reply as strings; see [`text`]. Empty for any other reply.
#[must_use]
pub fn fields(reply: Value) -> Vec<String> {
    let Value::Array(elements) = reply else { return Vec::new() };
    elements.into_iter().map(text).collect()
}

/// A reply as a string; empty for nil, errors and arrays.
#[must_use]
pub fn text(reply: Value) -> String {
    match reply {
        Value::Bulk(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Value::Status(text) => text,
        Value::Int(number) => number.to_string(),
        Value::Nil | Value::Error(_) | Value::Array(_) => String::new(),
    }
}

/// The bytes of a bulk string; `None` for any other reply.
#[must_use]
pub fn as_bytes(reply: Value) -> Option<Vec<u8>> {
    if let Value::Bulk(bytes) = reply { Some(bytes) } else { None }
}

/// The fields of an `HMGET`; `None` when the first is missing, and with it the record.
#[must_use]
pub fn record(reply: Value) -> Option<Record> {
    match reply {
        Value::Array(all) if all.first().is_some_and(|first| *first != Value::Nil) => {
            Some(Record(fields(Value::Array(all))))
        }
        Value::Array(_)
        | Value::Nil
        | Value::Int(_)
        | Value::Bulk(_)
        | Value::Status(_)
        | Value::Error(_) => None,
    }
}

/// The fields of a record that were read, by position.
pub struct Record(Vec<String>);

impl Record {
    /// The field at a position; empty if it is missing.
    #[must_use]
    pub fn field(&self, at: usize) -> &str {
        self.0.get(at).map(String::as_str).unwrap_or_default()
    }
}
