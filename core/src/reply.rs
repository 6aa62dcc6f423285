//! Reads replies of plain commands: strings, bytes, maps and the time. One group of functions takes
//! a reply that is there, and reads whatever is missing or odd as empty. The other takes one that
//! may be missing or an error, and tells what is wrong with it.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::command::Reply;
use crate::error::{Broken, CallError, ServerError};
use crate::time::ServerTime;
use crate::value::Value;

/// The reply of `HGETALL` as a map of strings; empty for any other reply.
#[must_use]
pub fn text_hash(reply: Value) -> BTreeMap<String, String> {
    pairs(fields(reply))
}

fn pairs(flat: Vec<String>) -> BTreeMap<String, String> {
    let mut hash = BTreeMap::new();
    let mut flat = flat.into_iter();
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

/// The reply of `TIME`: seconds and microseconds, as strings.
///
/// # Errors
/// When it is anything else.
pub fn time(reply: &Value) -> Result<ServerTime, Broken> {
    let number = |value: &Value| match value {
        Value::Bulk(text) => core::str::from_utf8(text).ok()?.parse::<i64>().ok(),
        Value::Nil | Value::Int(_) | Value::Status(_) | Value::Error(_) | Value::Array(_) => None,
    };
    let time = || {
        let Value::Array(parts) = reply else { return None };
        let [seconds, micros] = parts.as_slice() else { return None };
        number(seconds)?.checked_mul(1_000)?.checked_add(number(micros)? / 1_000).map(ServerTime)
    };
    time().ok_or_else(|| Broken { expected: "a time", got: reply.clone() })
}

/// A reply that must be there.
pub(crate) fn value(reply: Option<Reply>) -> Result<Value, CallError> {
    match reply {
        Some(reply) => Ok(reply?),
        None => Err(ServerError::silence("not answered").into()),
    }
}

/// The elements of an array reply as strings; missing ones are empty.
pub(crate) fn try_fields(reply: Option<Reply>) -> Result<Vec<String>, CallError> {
    Ok(array(reply, "an array")?.into_iter().map(text).collect())
}

/// A hash reply by field.
pub(crate) fn try_hash(reply: Option<Reply>) -> Result<BTreeMap<String, String>, CallError> {
    try_fields(reply).map(pairs)
}

/// The reply to `SSCAN`: the cursor to go on with, and members.
pub(crate) fn try_scanned(reply: Option<Reply>) -> Result<(String, Vec<String>), CallError> {
    const EXPECTED: &str = "a cursor and members";
    let both = array(reply, EXPECTED)?;
    match <[Value; 2]>::try_from(both) {
        Ok([cursor, members @ Value::Array(_)]) => Ok((text(cursor), fields(members))),
        Ok(both) => Err(Broken { expected: EXPECTED, got: Value::Array(both.into()) }.into()),
        Err(other) => Err(Broken { expected: EXPECTED, got: Value::Array(other) }.into()),
    }
}

fn array(reply: Option<Reply>, expected: &'static str) -> Result<Vec<Value>, CallError> {
    match value(reply)? {
        Value::Array(elements) => Ok(elements),
        got
        @ (Value::Nil | Value::Int(_) | Value::Bulk(_) | Value::Status(_) | Value::Error(_)) => {
            Err(Broken { expected, got }.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::Bulk(text.as_bytes().to_vec())
    }

    #[test]
    fn a_time_is_seconds_and_microseconds() {
        let reply = |parts: &[&str]| Value::Array(parts.iter().map(|part| bulk(part)).collect());
        assert_eq!(time(&reply(&["1700000000", "123456"])), Ok(ServerTime(1_700_000_000_123)));
        let most = i64::MAX.to_string();
        for odd in [reply(&["1"]), reply(&["1", "x"]), reply(&[&most, "0"]), Value::Nil] {
            assert_eq!(time(&odd), Err(Broken { expected: "a time", got: odd.clone() }));
        }
    }

    #[test]
    fn a_page_of_a_set_is_a_cursor_and_members() {
        let page = Value::Array([bulk("7"), Value::Array([bulk("a")].into())].into());
        assert_eq!(try_scanned(Some(Ok(page))), Ok(("7".into(), ["a".into()].into())));
        for odd in
            [Value::Nil, Value::Array(Vec::new()), Value::Array([bulk("7"), bulk("a")].into())]
        {
            assert!(matches!(try_scanned(Some(Ok(odd))), Err(CallError::Broken(_))));
        }
        assert!(matches!(try_scanned(None), Err(CallError::Server(_))));
    }

    #[test]
    fn an_odd_field_of_a_hash_without_a_value_is_left_out() {
        let hash = Value::Array([bulk("a"), Value::Nil, bulk("b")].into());
        let read = BTreeMap::from([("a".into(), String::new())]);
        assert_eq!(text_hash(hash.clone()), read);
        assert_eq!(try_hash(Some(Ok(hash))), Ok(read));
    }
}
