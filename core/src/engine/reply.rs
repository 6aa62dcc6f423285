//! Reading plain replies: what a `HGET`, `HMGET` or `SSCAN` returned, or the outcome of a candidate
//! whose reply cannot be used.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::scanning::CandidateOutcome;
use crate::command::Reply;
use crate::error::{Broken, ServerError};
use crate::value::Value;

/// The elements of an array reply; missing ones read as empty.
pub(super) fn texts(reply: Option<Reply>) -> Result<Vec<String>, CandidateOutcome> {
    Ok(array(reply, "an array")?.iter().map(lossy).collect())
}

/// A hash reply by field.
pub(super) fn hash(reply: Option<Reply>) -> Result<BTreeMap<String, String>, CandidateOutcome> {
    let flat = texts(reply)?;
    Ok(flat.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect())
}

/// A single text; empty where there is none.
pub(super) fn text(reply: Option<Reply>) -> Result<String, CandidateOutcome> {
    value(reply).map(|value| lossy(&value))
}

/// A single number; zero where there is none.
pub(super) fn number(reply: Option<Reply>) -> Result<u64, CandidateOutcome> {
    text(reply).map(|text| text.parse().unwrap_or(0))
}

/// The reply to `SSCAN`: the cursor to go on with, and members.
pub(super) fn scanned(reply: Option<Reply>) -> Result<(String, Vec<String>), CandidateOutcome> {
    const EXPECTED: &str = "a cursor and members";
    let both = array(reply, EXPECTED)?;
    match both.as_slice() {
        [cursor, Value::Array(members)] => Ok((lossy(cursor), members.iter().map(lossy).collect())),
        _ => Err(unreadable(EXPECTED, Value::Array(both))),
    }
}

fn array(reply: Option<Reply>, expected: &'static str) -> Result<Vec<Value>, CandidateOutcome> {
    match value(reply)? {
        Value::Array(elements) => Ok(elements),
        other @ (Value::Nil
        | Value::Int(_)
        | Value::Bulk(_)
        | Value::Status(_)
        | Value::Error(_)) => Err(unreadable(expected, other)),
    }
}

fn value(reply: Option<Reply>) -> Result<Value, CandidateOutcome> {
    match reply {
        Some(Ok(value)) => Ok(value),
        Some(Err(error)) => Err(CandidateOutcome::error(error.into())),
        None => Err(CandidateOutcome::error(ServerError::silence("not answered").into())),
    }
}

fn unreadable(expected: &'static str, got: Value) -> CandidateOutcome {
    CandidateOutcome::error(Broken { expected, got }.into())
}

fn lossy(value: &Value) -> String {
    match value {
        Value::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Status(text) => text.clone(),
        Value::Int(number) => number.to_string(),
        Value::Nil | Value::Error(_) | Value::Array(_) => String::new(),
    }
}
