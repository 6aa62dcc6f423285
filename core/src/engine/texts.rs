//! Plain replies as texts.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::step::{Reply, Verdict};
use crate::error::{Broken, ServerError};
use crate::value::Value;

/// The texts of an array reply; missing ones read as empty.
pub(super) fn texts(reply: Option<Reply>) -> Result<Vec<String>, Verdict> {
    match value(reply)? {
        Value::Array(elements) => Ok(elements.iter().map(lossy).collect()),
        other @ (Value::Nil
        | Value::Int(_)
        | Value::Bulk(_)
        | Value::Status(_)
        | Value::Error(_)) => Err(unreadable("an array", other)),
    }
}

/// A hash reply by field.
pub(super) fn hash(reply: Option<Reply>) -> Result<BTreeMap<String, String>, Verdict> {
    let flat = texts(reply)?;
    Ok(flat.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect())
}

/// A single text; empty where there is none.
pub(super) fn text(reply: Option<Reply>) -> Result<String, Verdict> {
    value(reply).map(|value| lossy(&value))
}

/// A single number; zero where there is none.
pub(super) fn number(reply: Option<Reply>) -> Result<u64, Verdict> {
    text(reply).map(|text| text.parse().unwrap_or(0))
}

/// `SSCAN`: the cursor to go on with, and members.
pub(super) fn scanned(reply: Option<Reply>) -> Result<(String, Vec<String>), Verdict> {
    let both = match value(reply)? {
        Value::Array(both) => both,
        other @ (Value::Nil
        | Value::Int(_)
        | Value::Bulk(_)
        | Value::Status(_)
        | Value::Error(_)) => return Err(unreadable("a cursor and members", other)),
    };
    match both.as_slice() {
        [cursor, Value::Array(members)] => Ok((lossy(cursor), members.iter().map(lossy).collect())),
        _ => Err(unreadable("a cursor and members", Value::Array(both))),
    }
}

fn value(reply: Option<Reply>) -> Result<Value, Verdict> {
    match reply {
        Some(Ok(value)) => Ok(value),
        Some(Err(error)) => Err(Verdict::error(error.into())),
        None => Err(Verdict::error(ServerError::silence("not answered").into())),
    }
}

fn unreadable(expected: &'static str, got: Value) -> Verdict {
    Verdict::error(Broken { expected, got }.into())
}

fn lossy(value: &Value) -> String {
    match value {
        Value::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Status(text) => text.clone(),
        Value::Int(number) => number.to_string(),
        Value::Nil | Value::Error(_) | Value::Array(_) => String::new(),
    }
}
