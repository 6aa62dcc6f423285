use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::envelope::broken;
use crate::call::{Envelope, Fields, Function};
use crate::error::{CallError, ServerError};
use crate::key::Key;
use crate::time::ServerTime;
use crate::value::Value;

/// Reads one page of each of several indexes of one partition, at one instant. An added function.
#[derive(Clone, Debug)]
pub struct ScanPartition {
    /// What to read; all keys are in one slot.
    pub requests: Vec<PageQuery>,
}

wire_enum! {
    /// How to read an index.
    pub enum PageMode {
        /// Members of a sorted set whose score has come.
        Due = "due",
        /// Members of a sorted set in order.
        All = "all",
        /// Members of a set.
        Members = "members",
        /// No members of a set, only how many there are.
        Size = "size",
    }
}

/// One page to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageQuery {
    /// The index.
    pub index: Key,
    /// How to read it.
    pub mode: PageMode,
    /// Offset in a sorted set, cursor in a set.
    pub from: u64,
    /// How many members; at most 1000.
    pub limit: u32,
    /// For [`PageMode::Due`]: how far in the past scores must be.
    pub lag_ms: u64,
}

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pages {
    /// The server's clock at that instant.
    pub now: ServerTime,
    /// One per request; an index of another type fails alone.
    pub pages: Vec<Result<Page, ServerError>>,
}

/// One page of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// How many members the whole index has.
    pub size: u64,
    /// The next score to come ([`PageMode::Due`]) or the cursor to go on with
    /// ([`PageMode::Members`]).
    pub next: Option<u64>,
    /// Members, with their scores in whole milliseconds if they have one.
    pub members: Vec<(Vec<u8>, Option<i64>)>,
}

impl Function for ScanPartition {
    const NAME: &'static str = "ff_scan_partition";
    const KEYS: &'static [&'static str] = &[];
    const ARGS: &'static [&'static str] = &[];
    const READS_ONLY: bool = true;

    type Reply = Pages;

    fn keys(&self) -> Vec<Key> {
        self.requests.iter().map(|request| request.index.clone()).collect()
    }

    fn args(&self) -> Vec<Vec<u8>> {
        self.requests
            .iter()
            .flat_map(|request| {
                args![request.mode.as_str(), request.from, request.limit, request.lag_ms]
            })
            .collect()
    }

    fn read(envelope: Envelope) -> Result<Pages, CallError> {
        let mut fields = envelope.ok()?;
        let now = fields.parse("a time")?;
        let mut pages = Vec::new();
        while !fields.is_empty() {
            pages.push(read_page(fields.array()?)?);
        }
        Ok(Pages { now, pages })
    }
}

fn read_page(elements: Vec<Value>) -> Result<Result<Page, ServerError>, CallError> {
    let count = elements.len();
    let mut fields = Fields::over(elements);
    match count {
        0 => return Ok(Ok(Page { size: 0, next: None, members: Vec::new() })),
        1 => return Ok(Err(ServerError::from_reply(fields.text()?))),
        _ => {}
    }
    let size = fields.parse("a size")?;
    // A cursor takes all 64 bits. A score may carry a fraction; the whole milliseconds before it
    // are early enough.
    let next = fields.text()?;
    let next = match next.parse() {
        Ok(exact) => Some(exact),
        Err(_) => whole(&next)?.and_then(|next| u64::try_from(next).ok()),
    };
    let mut members = Vec::new();
    while !fields.is_empty() {
        let member = fields.bytes()?;
        members.push((member, whole(&fields.text()?)?));
    }
    Ok(Ok(Page { size, next, members }))
}

/// The whole part of a score; none for an empty text. Scores out of range are cut to its ends.
fn whole(score: &str) -> Result<Option<i64>, CallError> {
    if score.is_empty() {
        return Ok(None);
    }
    if let Ok(exact) = score.parse() {
        return Ok(Some(exact));
    }
    match score.parse::<f64>() {
        // From float to integer `as` saturates, which is what we want.
        Ok(number) if !number.is_nan() => Ok(Some(number as i64)),
        Ok(_) | Err(_) => Err(broken("a score", Value::Bulk(score.into()))),
    }
}
