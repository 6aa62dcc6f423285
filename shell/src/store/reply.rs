//! Converts replies of the client library to [`Value`].

use redis::Value as Wire;
use selvedge_core::value::Value;

/// Converts a reply; RESP3 types become their RESP2 forms.
pub(super) fn value(wire: Wire) -> Value {
    match wire {
        Wire::Nil => Value::Nil,
        Wire::Int(number) => Value::Int(number),
        Wire::BulkString(bytes) => Value::Bulk(bytes),
        Wire::SimpleString(text) => Value::Status(text),
        Wire::Okay => Value::Status("OK".to_owned()),
        Wire::ServerError(error) => Value::Error(error_text(&error)),
        Wire::Array(parts) | Wire::Set(parts) => {
            Value::Array(parts.into_iter().map(value).collect())
        }
        Wire::Map(pairs) => Value::Array(
            pairs.into_iter().flat_map(|(key, item)| [value(key), value(item)]).collect(),
        ),
        Wire::Attribute { data, .. } => value(*data),
        Wire::Double(number) => Value::Bulk(number.to_string().into_bytes()),
        Wire::Boolean(truth) => Value::Int(i64::from(truth)),
        Wire::VerbatimString { text, .. } => Value::Bulk(text.into_bytes()),
        Wire::BigNumber(digits) => Value::Bulk(digits),
        Wire::Push { data, .. } => Value::Array(data.into_iter().map(value).collect()),
        _ => Value::Error("ERR unknown reply type".to_owned()),
    }
}

/// Parses the bytes of one complete reply.
#[cfg(feature = "fuzzing")]
pub(super) fn read(bytes: &[u8]) -> Option<Value> {
    redis::parse_redis_value(bytes).ok().map(value)
}

/// The server's error text, which the client library splits into code and details.
pub(super) fn error_text(error: &redis::ServerError) -> String {
    match error.details() {
        Some(details) => format!("{} {details}", error.code()),
        None => error.code().to_owned(),
    }
}
