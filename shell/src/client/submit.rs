//! Submits flows and single executions. Most flows are one call; large ones are sent in idempotent
//! chunks.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Index;

use selvedge_core::call::execution::{CreateExecution, Creation, Idempotency};
use selvedge_core::call::flow::{Edge, NewMember, SetFlowTags, Submission, SubmitFlow};
use selvedge_core::id::{EdgeId, ExecutionId, FlowId, LaneId};
use selvedge_core::partition::Partition;
use selvedge_core::time::ServerTime;
use uuid::Uuid;

use super::flow::{Flow, Identity};
use super::invalid_flow::InvalidFlow;
use super::millis;
use super::task::{Start, Task};
use super::{Client, ClientError};

/// A submitted flow, and the execution ids of its tasks.
///
/// Index it by task name: `&submitted["render"]`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubmittedFlow {
    /// The id of the flow.
    pub id: FlowId,
    /// The execution ids of its tasks, by task name.
    pub executions: BTreeMap<String, ExecutionId>,
}

impl Index<&str> for SubmittedFlow {
    type Output = ExecutionId;

    /// # Panics
    /// When the flow has no task of that name.
    fn index(&self, name: &str) -> &ExecutionId {
        &self.executions[name]
    }
}

impl Client {
    /// Submits a flow, atomically: either all of it runs or nothing. Flows of up to about 150 tasks
    /// or 400 dependencies are one call; larger ones are sent in chunks, so that no call occupies
    /// the server for long, and start when the last chunk has arrived.
    ///
    /// # Errors
    /// When the flow is invalid, a budget or quota of a task does not exist, or the store refuses
    /// it or does not answer. A flow with an id or an idempotency key may then be submitted again:
    /// the submission continues where it stopped.
    pub async fn submit(&self, flow: Flow) -> Result<SubmittedFlow, ClientError> {
        let order = flow.order()?;
        self.require_limits(&flow.tasks).await?;
        let id = self.flow_id(&flow.identity);
        let plan = SubmissionPlan {
            id,
            partition: self.partitions().of_flow(id),
            now: self.server_time_if(flow.tasks.iter().any(Task::starts_later)).await?,
            client: self,
        };
        let (kind, tags) = (flow.kind.clone(), flow.tags.clone());
        let lanes: BTreeSet<LaneId> = flow.tasks.iter().map(Task::lane_id).collect();
        self.register_lanes(lanes.iter()).await?;
        let (chunks, executions) = plan.chunks(flow, &order);
        let last = chunks.len().saturating_sub(1);
        for (at, chunk) in chunks.into_iter().enumerate() {
            self.submit_chunk(&plan, &kind, chunk, at == last).await?;
        }
        if !tags.is_empty() {
            let partition = plan.partition;
            self.call_with_retry(&SetFlowTags { partition, flow_id: id, tags }).await?;
        }
        Ok(SubmittedFlow { id, executions })
    }

    /// Submits one execution without a flow.
    ///
    /// # Errors
    /// When the task is invalid or has upstreams, its budget or quota does not exist, or the store
    /// refuses it or does not answer.
    pub async fn start(&self, task: Task) -> Result<ExecutionId, ClientError> {
        task.check()?;
        if let Some(upstream) = task.upstreams.first() {
            let (task, upstream) = (task.name.clone(), upstream.clone());
            return Err(InvalidFlow::UnknownUpstream { task, upstream }.into());
        }
        self.require_limits(std::slice::from_ref(&task)).await?;
        let now = self.server_time_if(task.starts_later()).await?;
        let lane = task.lane_id();
        self.register_lanes(std::iter::once(&lane)).await?;
        let id = ExecutionId::new(self.partitions().of_lane(&lane).index, Uuid::new_v4());
        let idempotency = task.idempotency.clone();
        let member = task.into_member(id, now, self.identity());
        let call = CreateExecution {
            execution_id: member.execution_id,
            namespace: self.namespace().clone(),
            lane_id: member.lane_id,
            execution_kind: member.execution_kind,
            priority: member.priority,
            creator_identity: member.creator_identity,
            policy_json: member.policy_json,
            input_payload: member.input_payload,
            delay_until: member.delay_until,
            idempotency: idempotency.map(|(key, kept)| Idempotency { key, ttl_ms: millis(kept) }),
            tags_json: member.tags_json,
            execution_deadline_at: None,
        };
        match self.call_with_retry(&call).await? {
            Creation::Created(_) => Ok(call.execution_id),
            Creation::Duplicate(first) => Ok(first),
        }
    }

    /// The execution id of a task of a flow, by task name. It is computed, not looked up: the task
    /// may not exist.
    #[must_use]
    pub fn execution_of(&self, flow: FlowId, task: &str) -> ExecutionId {
        member_id(self.partitions().of_flow(flow), flow, task)
    }

    async fn submit_chunk(
        &self,
        plan: &SubmissionPlan<'_>,
        kind: &str,
        chunk: Chunk,
        seal: bool,
    ) -> Result<(), ClientError> {
        let mut call = SubmitFlow {
            partition: plan.partition,
            flow_id: plan.id,
            flow_kind: kind.to_owned(),
            namespace: self.namespace().clone(),
            members: chunk.members,
            edges: chunk.edges,
            groups: chunk.groups,
            seal,
        };
        while let Submission::Sealing { .. } = self.call_with_retry(&call).await? {
            // All members are stored; repeat the call to release them, some at a time.
            (call.members, call.edges, call.groups) = (Vec::new(), Vec::new(), Vec::new());
        }
        Ok(())
    }

    async fn server_time_if(&self, needed: bool) -> Result<Option<ServerTime>, ClientError> {
        if needed { Ok(Some(self.server_time().await?)) } else { Ok(None) }
    }

    fn flow_id(&self, identity: &Identity) -> FlowId {
        match identity {
            Identity::Fresh => FlowId::from(Uuid::new_v4()),
            Identity::Given(id) => *id,
            Identity::Key(key) => {
                let name = format!("{}\n{key}", self.namespace());
                FlowId::from(Uuid::new_v5(&FLOW_ID_NAMESPACE, name.as_bytes()))
            }
        }
    }
}

/// The execution id of a task, derived from flow id and task name: a repeated submission is
/// identical, and a handler finds the other tasks by name.
pub(crate) fn member_id(partition: Partition, flow: FlowId, name: &str) -> ExecutionId {
    ExecutionId::new(partition.index, Uuid::new_v5(&flow.into(), name.as_bytes()))
}

fn edge_id(flow: FlowId, from: &ExecutionId, to: &ExecutionId) -> EdgeId {
    Uuid::new_v5(&flow.into(), format!("{from}>{to}").as_bytes()).into()
}

struct SubmissionPlan<'a> {
    id: FlowId,
    partition: Partition,
    now: Option<ServerTime>,
    client: &'a Client,
}

#[derive(Default)]
struct Chunk {
    members: Vec<NewMember>,
    edges: Vec<Edge>,
    groups: Vec<(ExecutionId, selvedge_core::call::flow::GroupPolicy)>,
    bytes: usize,
}

impl Chunk {
    fn is_full(&self, edges: usize, bytes: usize) -> bool {
        !self.members.is_empty()
            && SubmitFlow::work(
                self.members.len() + 1,
                self.edges.len() + edges,
                self.bytes + bytes,
            ) > SubmitFlow::WORK_MAX
    }
}

type TaskIds = BTreeMap<String, ExecutionId>;

impl SubmissionPlan<'_> {
    /// Splits the flow into chunks, upstream tasks first.
    fn chunks(&self, flow: Flow, order: &[usize]) -> (Vec<Chunk>, TaskIds) {
        let named: TaskIds = flow
            .names()
            .map(|name| (name.to_owned(), member_id(self.partition, self.id, name)))
            .collect();
        let mut tasks: Vec<Option<Task>> = flow.tasks.into_iter().map(Some).collect();
        let mut chunks = vec![Chunk::default()];
        for &at in order {
            let Some(task) = tasks.get_mut(at).and_then(Option::take) else { continue };
            if let Some(chunk) = chunks.last()
                && chunk.is_full(task.upstreams.len(), task.payload.len())
            {
                chunks.push(Chunk::default());
            }
            if let Some(chunk) = chunks.last_mut() {
                self.add(chunk, task, &named);
            }
        }
        (chunks, named)
    }

    fn add(&self, chunk: &mut Chunk, task: Task, named: &TaskIds) {
        let (id, task_name) = (named[&task.name].clone(), task.name.clone());
        for upstream in &task.upstreams {
            let upstream = named[upstream].clone();
            let edge_id = edge_id(self.id, &upstream, &id);
            let (downstream, data_passing_ref) = (id.clone(), String::new());
            chunk.edges.push(Edge { edge_id, upstream, downstream, data_passing_ref });
        }
        if let Some(group) = task.group {
            chunk.groups.push((id.clone(), group));
        }
        chunk.bytes += task.payload.len();
        // So that tools can show the task's name.
        let task = task.tag(NAME_TAG, task_name);
        chunk.members.push(task.into_member(id, self.now, self.client.identity()));
    }
}

impl Task {
    fn starts_later(&self) -> bool {
        matches!(self.start, Start::After(_))
    }

    /// Its lane; `check` has parsed it before.
    fn lane_id(&self) -> LaneId {
        self.lane.parse().unwrap_or_else(|_| super::default_lane())
    }

    fn into_member(self, id: ExecutionId, now: Option<ServerTime>, creator: &str) -> NewMember {
        let delay_until = match self.start {
            Start::AtOnce => None,
            Start::NotBefore(time) => Some(time),
            Start::After(delay) => now.map(|now| {
                let delay_ms = i64::try_from(millis(delay)).unwrap_or(i64::MAX);
                ServerTime(now.0.saturating_add(delay_ms))
            }),
        };
        let tags_json = if self.tags.is_empty() {
            String::new()
        } else {
            serde_json::to_string(&self.tags).unwrap_or_default()
        };
        NewMember {
            execution_id: id,
            lane_id: self.lane_id(),
            execution_kind: self.kind,
            priority: self.priority,
            creator_identity: creator.to_owned(),
            policy_json: if self.has_policy { self.policy.to_json() } else { String::new() },
            input_payload: self.payload,
            delay_until,
            tags_json,
            execution_deadline_at: None,
        }
    }
}

/// The tag that stores a task's name.
pub(crate) const NAME_TAG: &str = "selvedge.task";

/// The UUID namespace of flow ids derived from idempotency keys: a random constant.
const FLOW_ID_NAMESPACE: Uuid = Uuid::from_u128(0x6d0f_3a52_7c1e_4b8e_9a40_5e1d_2c7b_94f1);
