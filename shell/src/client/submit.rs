//! Submits flows and single executions: gives ids to what was described, and has it sent.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Index;

use selvedge_core::call::execution::{CreateExecution, CreateIdempotency};
use selvedge_core::call::flow::{Edge, NewMember, SubmitFlow};
use selvedge_core::client::{FlowSubmission, FlowTask, NewStart, Start, StartMany, Submit};
use selvedge_core::id::{EdgeId, ExecutionId, FlowId, LaneId};
use selvedge_core::partition::Partition;
use uuid::Uuid;

use super::content;
use super::flow::{Flow, Identity};
use super::invalid_flow::InvalidFlow;
use super::limits::limits_of;
use super::millis;
use super::task::Task;
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
    /// Whether the same flow was submitted before, under the same id or idempotency key.
    pub before: bool,
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
    /// it or does not answer; [`ClientError::OtherContent`] when another flow was submitted under
    /// this id or idempotency key. A flow with an id or an idempotency key may then be submitted
    /// again: the submission continues where it stopped.
    pub async fn submit(&self, flow: Flow) -> Result<SubmittedFlow, ClientError> {
        let order = flow.order()?;
        let id = self.flow_id(&flow.identity);
        let lanes: BTreeSet<LaneId> = flow.tasks.iter().map(Task::lane_id).collect();
        let needs = self.needs(lanes, limits_of(&flow.tasks));
        let (submission, executions) = self.submission(id, flow, &order);
        let done = self.run_prepared(needs, |needs| Submit::new(needs, submission)).await?;
        Ok(SubmittedFlow { id, executions, before: done.before })
    }

    /// Submits one execution without a flow.
    ///
    /// # Errors
    /// When the task is invalid or has upstreams, its budget or quota does not exist, or the store
    /// refuses it or does not answer; [`ClientError::OtherContent`] when the first execution with
    /// its idempotency key has another kind, payload or policy.
    pub async fn start(&self, task: Task) -> Result<ExecutionId, ClientError> {
        let needs = self.needs([task.lane_id()], limits_of(std::slice::from_ref(&task)));
        let NewStart { call, start } = self.new_start(task)?;
        self.run_prepared(needs, |needs| Start::new(needs, call, start)).await
    }

    /// Submits many executions without a flow, in few round trips; returns their ids in the same
    /// order. Each of them is submitted as by [`Self::start`].
    ///
    /// ```
    /// # use selvedge::client::{Client, Task};
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let client = Client::connect("memory://").await?;
    /// let tasks = (0..1_000).map(|number| Task::new("mail", "send").payload(format!("{number}")));
    /// assert_eq!(client.start_many(tasks).await?.len(), 1_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::start`]. Nothing is submitted if a task is invalid, or if a budget or quota does
    /// not exist. After any other error, some of them may have been submitted: give them
    /// idempotency keys to submit all of them again.
    pub async fn start_many(
        &self,
        tasks: impl IntoIterator<Item = Task>,
    ) -> Result<Vec<ExecutionId>, ClientError> {
        let tasks: Vec<Task> = tasks.into_iter().collect();
        let lanes: BTreeSet<LaneId> = tasks.iter().map(Task::lane_id).collect();
        let needs = self.needs(lanes, limits_of(&tasks));
        let starts: Result<Vec<NewStart>, ClientError> =
            tasks.into_iter().map(|task| self.new_start(task)).collect();
        let starts = starts?;
        self.run_prepared(needs, |needs| StartMany::new(needs, starts)).await
    }

    /// The execution of a task without a flow.
    fn new_start(&self, task: Task) -> Result<NewStart, ClientError> {
        task.check()?;
        if let Some(upstream) = task.upstreams.first() {
            let (task, upstream) = (task.name.clone(), upstream.clone());
            return Err(InvalidFlow::UpstreamWithoutFlow { task, upstream }.into());
        }
        let lane = task.lane_id();
        let id = ExecutionId::new(self.partitions().of_lane(&lane).index, Uuid::new_v4());
        let (idempotency, start) = (task.idempotency.clone(), task.start);
        let member = task.into_member(id, self.identity());
        let call = CreateExecution {
            execution_id: member.execution_id,
            namespace: self.namespace().clone(),
            lane_id: member.lane_id,
            execution_kind: member.execution_kind,
            priority: member.priority,
            creator_identity: member.creator_identity,
            policy_json: member.policy_json,
            input_payload: member.input_payload,
            delay_until: None,
            idempotency: idempotency
                .map(|(key, kept)| CreateIdempotency { key, ttl_ms: millis(kept) }),
            tags_json: member.tags_json,
            execution_deadline_at: None,
        };
        Ok(NewStart { call, start })
    }

    /// The execution id of a task of a flow, by task name. It is computed, not looked up: the task
    /// may not exist.
    #[must_use]
    pub fn execution_of(&self, flow: FlowId, task: &str) -> ExecutionId {
        member_id(self.partitions().of_flow(flow), flow, task)
    }

    /// What to submit, upstream tasks first, and the execution ids by task name.
    fn submission(&self, id: FlowId, flow: Flow, order: &[usize]) -> (FlowSubmission, TaskIds) {
        let partition = self.partitions().of_flow(id);
        let named: TaskIds =
            flow.names().map(|name| (name.to_owned(), member_id(partition, id, name))).collect();
        let content = match flow.identity {
            Identity::Fresh => String::new(),
            Identity::Given(_) | Identity::Key(_) => content::digest(&flow),
        };
        let mut tasks: Vec<Option<Task>> = flow.tasks.into_iter().map(Some).collect();
        let in_order = order.iter().filter_map(|&at| tasks.get_mut(at).and_then(Option::take));
        let tasks = in_order.map(|task| self.flow_task(id, task, &named)).collect();
        let submission = FlowSubmission {
            flow_id: id,
            partition,
            flow_kind: flow.kind,
            namespace: self.namespace().clone(),
            tasks,
            tags: flow.tags,
            content,
            tasks_per_call: SubmitFlow::MEMBERS_MAX,
        };
        (submission, named)
    }

    fn flow_task(&self, flow: FlowId, task: Task, named: &TaskIds) -> FlowTask {
        let id = named[&task.name].clone();
        let edge = |upstream: &String| {
            let upstream = named[upstream].clone();
            let edge_id = edge_id(flow, &upstream, &id);
            Edge { edge_id, upstream, downstream: id.clone(), data_passing_ref: String::new() }
        };
        let edges = task.upstreams.iter().map(edge).collect();
        let (start, group, name) = (task.start, task.group, task.name.clone());
        // So that tools can show the task's name.
        let member = task.tag(NAME_TAG, name).into_member(id, self.identity());
        FlowTask { member, start, edges, group }
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

type TaskIds = BTreeMap<String, ExecutionId>;

impl Task {
    /// Its lane; `check` has parsed it before.
    fn lane_id(&self) -> LaneId {
        self.lane.parse().unwrap_or_else(|_| super::default_lane())
    }

    fn into_member(self, id: ExecutionId, creator: &str) -> NewMember {
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
            delay_until: None,
            tags_json,
            execution_deadline_at: None,
        }
    }
}

/// The tag that stores a task's name.
pub(crate) const NAME_TAG: &str = "selvedge.task";

/// The UUID namespace of flow ids derived from idempotency keys: a random constant.
const FLOW_ID_NAMESPACE: Uuid = Uuid::from_u128(0x6d0f_3a52_7c1e_4b8e_9a40_5e1d_2c7b_94f1);

#[cfg(all(test, feature = "memory"))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_without_a_flow_cannot_wait_for_others() {
        let client = Client::connect("memory://").await.unwrap();
        let refused = client.start(Task::new("b", "k").after(["a"])).await.unwrap_err();
        let (task, upstream) = ("b".to_owned(), "a".to_owned());
        let expected = InvalidFlow::UpstreamWithoutFlow { task, upstream };
        assert!(matches!(&refused, ClientError::Flow(why) if *why == expected), "{refused}");
    }

    #[tokio::test]
    async fn namespace_and_identity_of_a_client_are_names() {
        let store = Client::connect("memory://").await.unwrap().store().clone();
        let builder = || Client::builder(store.clone());
        for (builder, says) in [
            (builder().namespace(""), "the namespace cannot be used: it is empty"),
            (builder().identity("a\nb"), "the identity cannot be used: character 2"),
        ] {
            let refused = builder.build().await.unwrap_err().to_string();
            assert!(refused.starts_with(says), "{refused}");
        }
        assert!(builder().identity("billing").build().await.is_ok());
    }
}
