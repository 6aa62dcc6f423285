//! Replies of plain commands, or the outcome of a candidate whose reply cannot be used.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::scanning::CandidateOutcome;
use crate::command::Reply;
use crate::reply;

/// The elements of an array reply; missing ones read as empty.
pub(super) fn texts(reply: Option<Reply>) -> Result<Vec<String>, CandidateOutcome> {
    reply::try_fields(reply).map_err(CandidateOutcome::error)
}

/// A hash reply by field.
pub(super) fn hash(reply: Option<Reply>) -> Result<BTreeMap<String, String>, CandidateOutcome> {
    reply::try_hash(reply).map_err(CandidateOutcome::error)
}

/// A single text; empty where there is none.
pub(super) fn text(reply: Option<Reply>) -> Result<String, CandidateOutcome> {
    reply::value(reply).map(reply::text).map_err(CandidateOutcome::error)
}

/// A single number; zero where there is none.
pub(super) fn number(reply: Option<Reply>) -> Result<u64, CandidateOutcome> {
    text(reply).map(|text| text.parse().unwrap_or(0))
}

/// The reply to `SSCAN`: the cursor to go on with, and members.
pub(super) fn scanned(reply: Option<Reply>) -> Result<(String, Vec<String>), CandidateOutcome> {
    reply::try_scanned(reply).map_err(CandidateOutcome::error)
}
