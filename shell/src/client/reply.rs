//! Converts replies of plain commands to strings, bytes and maps.

use std::collections::BTreeMap;

use selvedge_core::value::Value;

/// The reply of `HGETALL` as a map of strings; empty for any other reply.
pub(crate) fn text_hash(reply: Value) -> BTreeMap<String, String> {
    let mut hash = BTreeMap::new();
    let mut flat = fields(reply).into_iter();
    while let (Some(name), Some(value)) = (flat.next(), flat.next()) {
        hash.insert(name, value);
    }
    hash
}

/// The elements of an array reply as strings; see [`text`]. Empty for any other reply.
pub(crate) fn fields(reply: Value) -> Vec<String> {
    let Value::Array(elements) = reply else { return Vec::new() };
    elements.into_iter().map(text).collect()
}

/// A reply as a string; empty for nil, errors and arrays.
pub(crate) fn text(reply: Value) -> String {
    match reply {
        Value::Bulk(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Value::Status(text) => text,
        Value::Int(number) => number.to_string(),
        Value::Nil | Value::Error(_) | Value::Array(_) => String::new(),
    }
}

/// The bytes of a bulk string; `None` for any other reply.
pub(crate) fn as_bytes(reply: Value) -> Option<Vec<u8>> {
    if let Value::Bulk(bytes) = reply { Some(bytes) } else { None }
}
