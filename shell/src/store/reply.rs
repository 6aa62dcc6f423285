//! Replies of the client library as the one [`Value`] that everything above reads.

use redis::Value as Wire;
use selvedge_core::value::Value;

/// The same reply in the shapes of RESP2, which is what our connections speak.
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
        Wire::BigNumber(number) => Value::Bulk(number.to_string().into_bytes()),
        Wire::Push { data, .. } => Value::Array(data.into_iter().map(value).collect()),
        _ => Value::Error("ERR a kind of reply that this client does not know".to_owned()),
    }
}

/// What bytes of a server mean, if they are a whole reply.
pub(super) fn read(bytes: &[u8]) -> Option<Value> {
    redis::parse_redis_value(bytes).ok().map(value)
}

/// The server's own words, which the client library takes apart.
pub(super) fn error_text(error: &redis::ServerError) -> String {
    match error.details() {
        Some(details) => format!("{} {details}", error.code()),
        None => error.code().to_owned(),
    }
}
