//! Looking at one execution or one flow.

use std::collections::BTreeMap;

use selvedge_core::engine::Command;
use selvedge_core::id::{AttemptIndex, ExecutionId, FlowId, LaneId, WorkerInstanceId};
use selvedge_core::key::Key;
use selvedge_core::state::{PublicState, TerminalOutcome};
use selvedge_core::time::ServerTime;
use selvedge_core::value::Value;

use super::{Client, ClientError, default_lane};

/// An execution as it was when it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Execution {
    /// Its id.
    pub id: ExecutionId,
    /// The flow it belongs to.
    pub flow: Option<FlowId>,
    /// What kind of work it is.
    pub kind: String,
    /// The lane it waits in.
    pub lane: LaneId,
    /// Where it stands.
    pub state: PublicState,
    /// How it ended, if it did.
    pub outcome: Option<TerminalOutcome>,
    /// What holds it back; `none` when nothing does.
    pub blocking_reason: String,
    /// The same for people.
    pub blocking_detail: String,
    /// The attempt it is at, if there was one.
    pub attempt: Option<AttemptIndex>,
    /// Who runs it.
    pub worker: Option<WorkerInstanceId>,
    /// When its lease ends unless it is renewed.
    pub lease_expires_at: Option<ServerTime>,
    /// Its priority.
    pub priority: i64,
    /// How often it was tried again.
    pub retries: u32,
    /// How often it came back from a worker that was lost.
    pub reclaims: u32,
    /// How often it was replayed.
    pub replays: u32,
    /// How far its worker says it is.
    pub progress_percent: Option<u16>,
    /// What its worker says it does.
    pub progress_message: String,
    /// Why it failed, expired or was cancelled; empty otherwise.
    pub reason: String,
    /// When it was created.
    pub created_at: Option<ServerTime>,
    /// When it started first.
    pub started_at: Option<ServerTime>,
    /// When it ended.
    pub completed_at: Option<ServerTime>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// The whole record, for what is not named above.
    pub record: BTreeMap<String, String>,
}

/// A flow as it was when it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlowRecord {
    /// Its id.
    pub id: FlowId,
    /// What kind of flow it is.
    pub kind: String,
    /// Whose it is.
    pub namespace: String,
    /// How many tasks it has.
    pub node_count: u64,
    /// How many dependencies.
    pub edge_count: u64,
    /// `open`, `cancelled`, … as the flow's own record says.
    pub state: String,
    /// When it was created.
    pub created_at: Option<ServerTime>,
    /// What the projector counted last: states, and how many tasks are in each.
    pub summary: BTreeMap<String, String>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// The whole record, for what is not named above.
    pub record: BTreeMap<String, String>,
}

impl FlowRecord {
    /// Where it stands: what the projector found last, or `cancelled`; until then its own record.
    #[must_use]
    pub fn public_state(&self) -> &str {
        match self.summary.get("public_flow_state") {
            Some(projected) if !projected.is_empty() && self.state != "cancelled" => projected,
            _ => &self.state,
        }
    }
}

impl Client {
    /// Reads an execution: one round trip.
    ///
    /// # Errors
    /// When there is none, or the store does not answer.
    pub async fn execution(&self, id: &ExecutionId) -> Result<Execution, ClientError> {
        let keys = Key::execution(id);
        let reads = vec![
            Command::read("HGETALL", &keys.core(), &[]),
            Command::read("HGETALL", &keys.tags(), &[]),
        ];
        let mut replies = self.read(reads).await?.into_iter();
        let record = text_hash(replies.next().unwrap_or(Value::Nil));
        if record.is_empty() {
            return Err(ClientError::NotFound { kind: "execution", id: id.to_string() });
        }
        let tags = text_hash(replies.next().unwrap_or(Value::Nil));
        Ok(Execution::from_record(id.clone(), record, tags))
    }

    /// Its input, as it was given; `None` for none.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn payload(&self, id: &ExecutionId) -> Result<Option<Vec<u8>>, ClientError> {
        self.bytes(&Key::execution(id).payload()).await
    }

    /// Its result, as its handler gave it; `None` while there is none.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn result(&self, id: &ExecutionId) -> Result<Option<Vec<u8>>, ClientError> {
        self.bytes(&Key::execution(id).result()).await
    }

    /// Reads a flow: one round trip. Its tasks are listed by
    /// [`flow_members`](Client::flow_members).
    ///
    /// # Errors
    /// When there is none, or the store does not answer.
    pub async fn flow(&self, id: FlowId) -> Result<FlowRecord, ClientError> {
        let keys = Key::flow(self.partitions().of_flow(id), id);
        let reads = [keys.core(), keys.summary(), keys.tags()]
            .iter()
            .map(|key| Command::read("HGETALL", key, &[]))
            .collect();
        let mut hashes = self.read(reads).await?.into_iter().map(text_hash);
        let record = hashes.next().unwrap_or_default();
        if record.is_empty() {
            return Err(ClientError::NotFound { kind: "flow", id: id.to_string() });
        }
        let field = |name: &str| record.get(name).cloned().unwrap_or_default();
        Ok(FlowRecord {
            id,
            kind: field("flow_kind"),
            namespace: field("namespace"),
            node_count: field("node_count").parse().unwrap_or(0),
            edge_count: field("edge_count").parse().unwrap_or(0),
            state: field("public_flow_state"),
            created_at: field("created_at").parse().ok(),
            summary: hashes.next().unwrap_or_default(),
            tags: hashes.next().unwrap_or_default(),
            record,
        })
    }

    async fn bytes(&self, key: &Key) -> Result<Option<Vec<u8>>, ClientError> {
        Ok(as_bytes(self.read_one(Command::read("GET", key, &[])).await?))
    }
}

impl Execution {
    fn from_record(
        id: ExecutionId,
        record: BTreeMap<String, String>,
        tags: BTreeMap<String, String>,
    ) -> Self {
        let field = |name: &str| record.get(name).cloned().unwrap_or_default();
        let set = |name: &str| Some(field(name)).filter(|text| !text.is_empty());
        let outcome = field("terminal_outcome").parse().ok();
        let reason = set("cancellation_reason").or_else(|| set("failure_reason"));
        Self {
            id,
            flow: field("flow_id").parse().ok(),
            kind: field("execution_kind"),
            lane: field("lane_id").parse().unwrap_or_else(|_| default_lane()),
            // A word of a later version reads as the least that is true of it.
            state: field("public_state").parse().unwrap_or(PublicState::Waiting),
            outcome: outcome.filter(|outcome| *outcome != TerminalOutcome::None),
            blocking_reason: field("blocking_reason"),
            blocking_detail: field("blocking_detail"),
            attempt: field("current_attempt_index").parse().ok(),
            worker: set("current_worker_instance_id").map(WorkerInstanceId::new),
            lease_expires_at: field("lease_expires_at").parse().ok(),
            priority: field("priority").parse().unwrap_or(0),
            retries: field("retry_count").parse().unwrap_or(0),
            reclaims: field("lease_reclaim_count").parse().unwrap_or(0),
            replays: field("replay_count").parse().unwrap_or(0),
            progress_percent: field("progress_pct").parse().ok(),
            progress_message: field("progress_message"),
            reason: reason.unwrap_or_default(),
            created_at: field("created_at").parse().ok(),
            started_at: field("started_at").parse().ok(),
            completed_at: field("completed_at").parse().ok(),
            tags,
            record,
        }
    }
}

/// A reply of `HGETALL` as texts; anything else is an empty one.
pub(crate) fn text_hash(reply: Value) -> BTreeMap<String, String> {
    let mut hash = BTreeMap::new();
    let mut flat = fields(reply).into_iter();
    while let (Some(name), Some(value)) = (flat.next(), flat.next()) {
        hash.insert(name, value);
    }
    hash
}

/// The elements of an array as texts; what is no text is an empty one.
pub(crate) fn fields(reply: Value) -> Vec<String> {
    let Value::Array(elements) = reply else { return Vec::new() };
    elements.into_iter().map(text).collect()
}

/// A reply as text; nothing and what is no text are an empty one.
pub(crate) fn text(reply: Value) -> String {
    match reply {
        Value::Bulk(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Value::Status(text) => text,
        Value::Int(number) => number.to_string(),
        Value::Nil | Value::Error(_) | Value::Array(_) => String::new(),
    }
}

/// The bytes of a reply that has some.
pub(crate) fn as_bytes(reply: Value) -> Option<Vec<u8>> {
    if let Value::Bulk(bytes) = reply { Some(bytes) } else { None }
}
