//! Reads the record of one execution or one flow.

use std::collections::BTreeMap;

use selvedge_core::call::flow::SubmitFlow;
use selvedge_core::command::Command;
use selvedge_core::id::{AttemptIndex, ExecutionId, FlowId, LaneId, WorkerInstanceId};
use selvedge_core::key::Key;
use selvedge_core::reply::{as_bytes, text_hash};
use selvedge_core::state::{MemberCounts, PublicState, TerminalOutcome};
use selvedge_core::time::ServerTime;
use selvedge_core::value::Value;

use super::{Client, ClientError};

/// The record of an execution at the time it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Execution {
    /// Its id.
    pub id: ExecutionId,
    /// Its namespace.
    pub namespace: String,
    /// The flow it belongs to.
    pub flow: Option<FlowId>,
    /// Its kind, which selects the handler.
    pub kind: String,
    /// Its lane; none if the record holds no valid one.
    pub lane: Option<LaneId>,
    /// Its state; none if this version does not know the one in the record.
    pub state: Option<PublicState>,
    /// How it ended, if it did.
    pub outcome: Option<TerminalOutcome>,
    /// Why it is blocked; `none` if it is not.
    pub blocking_reason: String,
    /// Details of the blocking reason, for people.
    pub blocking_detail: String,
    /// Its current or last attempt, if there was one.
    pub attempt: Option<AttemptIndex>,
    /// The worker instance that runs it.
    pub worker: Option<WorkerInstanceId>,
    /// When its lease expires unless it is renewed.
    pub lease_expires_at: Option<ServerTime>,
    /// Its priority.
    pub priority: i64,
    /// How often it was retried after a failure.
    pub retries: u32,
    /// How often it was reclaimed from a dead worker.
    pub reclaims: u32,
    /// How often it was replayed.
    pub replays: u32,
    /// The progress its handler reported last, in percent.
    pub progress_percent: Option<u16>,
    /// The progress message its handler reported last.
    pub progress_message: String,
    /// Why it failed, expired or was cancelled; empty otherwise.
    pub reason: String,
    /// When it was created.
    pub created_at: Option<ServerTime>,
    /// When its first attempt started.
    pub started_at: Option<ServerTime>,
    /// When it ended.
    pub completed_at: Option<ServerTime>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// All fields of the record, including those without a field here.
    pub record: BTreeMap<String, String>,
}

/// The record of a flow at the time it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlowRecord {
    /// Its id.
    pub id: FlowId,
    /// Its kind.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// How many tasks it has.
    pub node_count: u64,
    /// How many dependency edges it has.
    pub edge_count: u64,
    /// `open`, `cancelled`, … as stored in the flow's own record.
    pub state: String,
    /// When it was created.
    pub created_at: Option<ServerTime>,
    /// The engine's last summary: how many tasks are in each state, and the contract's word for
    /// the state of the flow; see [`public_state`](Self::public_state).
    pub summary: BTreeMap<String, String>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// All fields of the record, including those without a field here.
    pub record: BTreeMap<String, String>,
}

impl FlowRecord {
    /// The state of the flow by the counts of the last summary, which an engine updates
    /// periodically; by its own record if it has no summary yet. Cancelled tasks do not make it
    /// `failed`, although the word in the summary says so: a join may cancel the upstreams that it
    /// does not need any more.
    #[must_use]
    pub fn public_state(&self) -> &str {
        match MemberCounts::of_summary(&self.summary) {
            Some(counts) => counts.state(&self.state).as_str(),
            None => &self.state,
        }
    }
}

impl Client {
    /// Reads an execution. One round trip.
    ///
    /// # Errors
    /// [`ClientError::NotFound`] when it does not exist; otherwise when the store does not answer.
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

    /// The payload of an execution; `None` if it has none or does not exist.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn payload(&self, id: &ExecutionId) -> Result<Option<Vec<u8>>, ClientError> {
        self.bytes(&Key::execution(id).payload()).await
    }

    /// The result of an execution; `None` if it has none (yet) or does not exist.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn result(&self, id: &ExecutionId) -> Result<Option<Vec<u8>>, ClientError> {
        self.bytes(&Key::execution(id).result()).await
    }

    /// Reads a flow. One round trip. [`flow_members`](Client::flow_members) lists its tasks.
    ///
    /// # Errors
    /// [`ClientError::NotFound`] when it does not exist; otherwise when the store does not answer.
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
        let summary = hashes.next().unwrap_or_default();
        let mut tags = hashes.next().unwrap_or_default();
        tags.remove(SubmitFlow::CONTENT_TAG);
        Ok(FlowRecord {
            id,
            kind: field("flow_kind"),
            namespace: field("namespace"),
            node_count: field("node_count").parse().unwrap_or(0),
            edge_count: field("edge_count").parse().unwrap_or(0),
            state: field("public_flow_state"),
            created_at: field("created_at").parse().ok(),
            summary,
            tags,
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
            namespace: field("namespace"),
            flow: field("flow_id").parse().ok(),
            kind: field("execution_kind"),
            lane: field("lane_id").parse().ok(),
            state: field("public_state").parse().ok(),
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
