//! What belongs to an execution besides its record: payload, result, policy, attempts, output.

use std::collections::BTreeMap;

use selvedge_core::command::Command;
use selvedge_core::id::AttemptIndex;
use selvedge_core::key::Key;
use selvedge_core::time::ServerTime;
use selvedge_core::value::Value;

use crate::client::{Client, ClientError, Execution, ExecutionPolicy, as_bytes, text_hash};

/// What belongs to an execution besides its record.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ExecutionDetails {
    /// Its payload; empty if there is none.
    pub payload: Vec<u8>,
    /// Its result, if there is one.
    pub result: Option<Vec<u8>>,
    /// Its policy; the default if none is stored, `None` if the stored one cannot be read.
    pub policy: Option<ExecutionPolicy>,
    /// Its last attempts, oldest first.
    pub attempts: Vec<Attempt>,
    /// How many frames its current or last attempt has put out.
    pub frame_count: u64,
    /// The last of them, oldest first: type and payload.
    pub last_frames: Vec<(String, Vec<u8>)>,
}

/// One attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attempt {
    /// Its number; the first is 0.
    pub index: AttemptIndex,
    /// Its state, as stored: `started`, `ended_success`, …
    pub state: String,
    /// When it started.
    pub started_at: Option<ServerTime>,
    /// When it ended.
    pub ended_at: Option<ServerTime>,
    /// The worker instance that runs or ran it.
    pub worker: String,
    /// Why it failed; empty otherwise.
    pub reason: String,
}

impl Client {
    /// Reads payload, result, policy, the last ten attempts, and the last five frames of output of
    /// an execution. One round trip.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn details(&self, execution: &Execution) -> Result<ExecutionDetails, ClientError> {
        let keys = Key::execution(&execution.id);
        let last = execution.attempt.unwrap_or(AttemptIndex(0));
        let first = last.0.saturating_sub(ATTEMPTS_MAX - 1);
        let numbers = (first..=last.0).map(AttemptIndex);
        let numbers: Vec<AttemptIndex> =
            if execution.attempt.is_some() { numbers.collect() } else { Vec::new() };
        let newest: [&[u8]; 4] = [b"+", b"-", b"COUNT", FRAMES_MAX];
        let mut reads = vec![
            Command::read("GET", &keys.payload(), &[]),
            Command::read("GET", &keys.result(), &[]),
            Command::read("GET", &keys.policy(), &[]),
            Command::read("XLEN", &keys.stream(last), &[]),
            Command::read("XREVRANGE", &keys.stream(last), &newest),
        ];
        reads.extend(numbers.iter().map(|at| Command::read("HGETALL", &keys.attempt(*at), &[])));
        let mut replies = self.read(reads).await?.into_iter();
        let mut next = || replies.next().unwrap_or(Value::Nil);
        let (payload, result) = (as_bytes(next()).unwrap_or_default(), as_bytes(next()));
        let policy = match as_bytes(next()) {
            None => Some(ExecutionPolicy::default()),
            Some(json) => ExecutionPolicy::read(&json).ok(),
        };
        let frame_count = if let Value::Int(count) = next() { count } else { 0 };
        let last_frames = read_frames(next());
        let attempts = numbers.into_iter().map(|index| read_attempt(index, text_hash(next())));
        Ok(ExecutionDetails {
            payload,
            result,
            policy,
            attempts: attempts.collect(),
            frame_count: u64::try_from(frame_count).unwrap_or_default(),
            last_frames,
        })
    }
}

fn read_attempt(index: AttemptIndex, record: BTreeMap<String, String>) -> Attempt {
    let field = |name: &str| record.get(name).cloned().unwrap_or_default();
    Attempt {
        index,
        state: field("attempt_state"),
        started_at: field("started_at").parse().ok(),
        ended_at: field("ended_at").parse().ok(),
        worker: field("worker_instance_id"),
        reason: field("failure_reason"),
    }
}

/// The entries of a stream, of which the newest comes first.
fn read_frames(reply: Value) -> Vec<(String, Vec<u8>)> {
    let Value::Array(entries) = reply else { return Vec::new() };
    let frame = |entry: Value| {
        let Value::Array(parts) = entry else { return None };
        let Some(Value::Array(pairs)) = parts.into_iter().nth(1) else { return None };
        let named = |name: &[u8]| {
            let at = pairs.iter().step_by(2).position(|one| *one == Value::Bulk(name.to_vec()))?;
            as_bytes(pairs.get(2 * at + 1)?.clone())
        };
        let kind = named(b"frame_type").unwrap_or_default();
        let payload = named(b"payload").unwrap_or_default();
        Some((String::from_utf8_lossy(&kind).into_owned(), payload))
    };
    let mut frames: Vec<(String, Vec<u8>)> = entries.into_iter().filter_map(frame).collect();
    frames.reverse();
    frames
}

/// Most attempts that are read.
const ATTEMPTS_MAX: u32 = 10;
/// Most frames that are read.
const FRAMES_MAX: &[u8] = b"5";
