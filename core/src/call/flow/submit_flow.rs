use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Value as Json, json};

use super::Edge;
use super::set_edge_group_policy::GroupPolicy;
use crate::call::args::args;
use crate::call::envelope::broken;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::{ExecutionId, FlowId, LaneId, Namespace};
use crate::key::Key;
use crate::partition::Partition;
use crate::time::ServerTime;
use crate::value::Value;

/// Submits a flow as a whole, or one chunk of a large one.
///
/// A chunk brings its members together with the edges that lead to them; edges come from members
/// of this or an earlier chunk. A join of more edges than one call should bring gets the others in
/// later chunks: `joins` announces how many there are, and all their upstreams are in chunks before
/// that of the join. No member can be claimed before the flow is sealed. Every call may be
/// repeated.
#[derive(Clone, Debug)]
pub struct SubmitFlow {
    /// The partition of the flow.
    pub partition: Partition,
    /// The flow.
    pub flow_id: FlowId,
    /// What kind of flow it is.
    pub flow_kind: String,
    /// The namespace of the flow and all its members.
    pub namespace: Namespace,
    /// New members, [`SubmitFlow::MEMBERS_MAX`] at most.
    pub members: Vec<NewMember>,
    /// Edges to them, or to joins of earlier chunks, [`SubmitFlow::EDGES_MAX`] at most.
    pub edges: Vec<Edge>,
    /// Members of this chunk to which later chunks bring edges, with the number of all their edges.
    pub joins: Vec<(ExecutionId, usize)>,
    /// Policies of their groups; a child without one needs all its edges.
    pub groups: Vec<(ExecutionId, GroupPolicy)>,
    /// A digest of the whole flow, the same in every chunk: the library refuses another one. Empty
    /// for none.
    pub content: String,
    /// Whether this is the last chunk.
    pub seal: bool,
}

/// What a member, an edge and payloads cost the server, as measured: see [`SubmitFlow::work`].
const MEMBER_UNITS: usize = 5;
const EDGE_UNITS: usize = 4;
const BYTES_PER_UNIT: usize = 4 * 1024;

/// A member to be.
#[derive(Clone, Debug)]
pub struct NewMember {
    /// Its id; it lives where the flow does.
    pub execution_id: ExecutionId,
    /// The lane that it waits in.
    pub lane_id: LaneId,
    /// What kind of work it is.
    pub execution_kind: String,
    /// Higher goes first, up to 9000.
    pub priority: u32,
    /// Its creator.
    pub creator_identity: String,
    /// Its policy as JSON; empty for none.
    pub policy_json: String,
    /// Its input, any bytes.
    pub input_payload: Vec<u8>,
    /// When it may start; at once unless given.
    pub delay_until: Option<ServerTime>,
    /// Tags as a JSON object; empty for none.
    pub tags_json: String,
    /// When it must have ended; its policy holds otherwise.
    pub execution_deadline_at: Option<ServerTime>,
}

/// How far a submission has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submission {
    /// Further chunks may follow.
    Open {
        /// Members that wait for the seal.
        waiting: u64,
    },
    /// The seal has begun; the next call continues it.
    Sealing {
        /// Members that still wait.
        waiting: u64,
    },
    /// All members are on their own.
    Sealed {
        /// How many members the flow has.
        node_count: u64,
        /// Whether it was so before this call.
        before: bool,
    },
}

impl SubmitFlow {
    /// The tag in which a flow keeps [`SubmitFlow::content`].
    pub const CONTENT_TAG: &'static str = "selvedge.content";
    /// The detail of the refusal of a flow that was submitted with other content.
    pub const OTHER_CONTENT: &'static str = "flow was submitted with other content";
    /// Members that one call may bring.
    pub const MEMBERS_MAX: usize = 256;
    /// Edges that one call may bring.
    pub const EDGES_MAX: usize = 2048;
    /// Edges that may lead to one member, over all calls.
    pub const JOIN_EDGES_MAX: usize = 100_000;
    /// The most [`SubmitFlow::work`] for one call, unless a single payload is larger: about eight
    /// milliseconds of the server's time.
    pub const WORK_MAX: usize = 800;

    /// About how long a call occupies the server, in units of ten microseconds: whoever divides a
    /// flow into calls keeps each below [`SubmitFlow::WORK_MAX`].
    #[must_use]
    pub const fn work(members: usize, edges: usize, payload_bytes: usize) -> usize {
        let bytes = payload_bytes / BYTES_PER_UNIT;
        members.saturating_mul(MEMBER_UNITS) + edges.saturating_mul(EDGE_UNITS) + bytes
    }

    /// How many edges are about this much work.
    #[must_use]
    pub const fn edges_within(work: usize) -> usize {
        work / EDGE_UNITS
    }

    /// The join that this member is, if later chunks bring edges to it.
    fn join_of(&self, member: &ExecutionId) -> Option<&(ExecutionId, usize)> {
        self.joins.iter().find(|(join, _)| join == member)
    }

    /// The structure as one JSON document; payloads are separate arguments, unencoded.
    fn document(&self) -> String {
        let mut payloads = 0;
        let members: Vec<Json> = self
            .members
            .iter()
            .map(|member| {
                let mut described = member.describe();
                if !member.input_payload.is_empty() {
                    payloads += 1;
                    described["payload"] = Json::from(payloads);
                }
                if let Some((_, edges)) = self.join_of(&member.execution_id) {
                    described["edge_count"] = Json::from(*edges);
                }
                described
            })
            .collect();
        let edges: Vec<Json> = self.edges.iter().map(describe_edge).collect();
        let groups: Vec<Json> = self.groups.iter().map(describe_group).collect();
        let mut document = json!({ "members": members, "edges": edges, "groups": groups });
        if !self.content.is_empty() {
            document["content"] = Json::from(self.content.as_str());
        }
        document.to_string()
    }
}

impl NewMember {
    /// Without what is empty: a missing field means the same, and need not be read.
    fn describe(&self) -> Json {
        let time = |at: Option<ServerTime>| at.map(|at| at.0.to_string()).unwrap_or_default();
        let mut described = json!({
            "execution_id": self.execution_id.to_string(),
            "lane_id": self.lane_id.to_string(),
            "execution_kind": self.execution_kind,
            "priority": self.priority,
            "creator_identity": self.creator_identity,
            "partition_id": self.execution_id.partition().index,
        });
        for (name, value) in [
            ("policy_json", self.policy_json.clone()),
            ("delay_until", time(self.delay_until)),
            ("tags_json", self.tags_json.clone()),
            ("execution_deadline_at", time(self.execution_deadline_at)),
        ] {
            if !value.is_empty() {
                described[name] = Json::from(value);
            }
        }
        described
    }
}

/// The kind is that of every edge, so it is not told.
fn describe_edge(edge: &Edge) -> Json {
    let mut described = json!({
        "edge_id": edge.edge_id.to_string(),
        "upstream_eid": edge.upstream.to_string(),
        "downstream_eid": edge.downstream.to_string(),
    });
    if !edge.data_passing_ref.is_empty() {
        described["data_passing_ref"] = Json::from(edge.data_passing_ref.clone());
    }
    described
}

fn describe_group((child, policy): &(ExecutionId, GroupPolicy)) -> Json {
    let (variant, on_satisfied, k) = policy.words();
    json!({
        "downstream_eid": child.to_string(),
        "policy_variant": variant,
        "on_satisfied": on_satisfied,
        "k": k,
    })
}

impl Function for SubmitFlow {
    const NAME: &'static str = "ff_submit_flow";
    const KEYS: &'static [&'static str] = &["flow_core", "members", "flow_index"];
    const ARGS: &'static [&'static str] =
        &["flow_id", "flow_kind", "namespace", "document", "seal"];

    type Reply = Submission;

    fn keys(&self) -> Vec<Key> {
        let flow = Key::flow(self.partition, self.flow_id);
        alloc::vec![flow.core(), flow.members(), Key::index(self.partition).flow_index()]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        let seal = if self.seal { "1" } else { "" };
        let mut args = args![self.flow_id, self.flow_kind, self.namespace, self.document(), seal];
        let payloads = self.members.iter().map(|member| &member.input_payload);
        args.extend(payloads.filter(|payload| !payload.is_empty()).cloned());
        args
    }

    fn read(mut envelope: Envelope) -> Result<Submission, CallError> {
        if !matches!(envelope.status.as_str(), "OK" | "ALREADY_SATISFIED") {
            return Err(envelope.unexpected());
        }
        let word = envelope.fields.text()?;
        let count = envelope.fields.parse("a count")?;
        match word.as_str() {
            "open" => Ok(Submission::Open { waiting: count }),
            "sealing" => Ok(Submission::Sealing { waiting: count }),
            "sealed" => {
                let before = envelope.status == "ALREADY_SATISFIED";
                Ok(Submission::Sealed { node_count: count, before })
            }
            _ => Err(broken("a stage of a submission", Value::Bulk(word.into_bytes()))),
        }
    }
}
