//! Builds flows for tests, with members that are numbered like executions.

use selvedge_core::call::Function;
use selvedge_core::call::execution::{Authority, CompleteExecution, FailExecution, Running};
use selvedge_core::call::flow::{
    ApplyDependencyToChild, Edge, GroupPolicy, NewMember, OnSatisfied, ReplayExecution,
    StageDependencyEdge, Submission, SubmitFlow,
};
use selvedge_core::id::{AttemptIndex, EdgeId, ExecutionId, FlowId, Namespace, WorkerInstanceId};
use selvedge_core::partition::{Family, Partition};
use selvedge_core::time::ServerTime;
use selvedge_core::value::Value;
use selvedge_tests::harness::{EPOCH_MS, Harness};

use crate::fixtures::{ClientCalls, core, execution};

/// The flow partition of all tests.
pub(crate) const HOME: Partition = Partition { family: Family::Flow, index: 0 };

/// The set of groups with siblings to cancel.
pub(crate) const CANCEL_GROUPS: &str = "ff:idx:{fp:0}:pending_cancel_groups";

/// One succeeds, the others are cancelled.
pub(crate) const ANY_OF: GroupPolicy = GroupPolicy::AnyOf(OnSatisfied::CancelRemaining);

/// The `n`-th execution, as an id.
pub(crate) fn member(n: usize) -> ExecutionId {
    execution(n).parse().unwrap()
}

/// The `n`-th flow.
pub(crate) fn flow(n: usize) -> FlowId {
    format!("0000000f-0000-4000-8000-{n:012}").parse().unwrap()
}

/// The edge between two members.
pub(crate) fn edge(upstream: usize, downstream: usize) -> EdgeId {
    format!("{upstream:08x}-0000-4000-8000-{downstream:012x}").parse().unwrap()
}

/// A key of a flow.
pub(crate) fn of_flow(n: usize, part: &str) -> String {
    format!("ff:flow:{{fp:0}}:{}:{part}", flow(n))
}

/// The key of a child's group in flow 0.
pub(crate) fn group_key(child: usize) -> String {
    of_flow(0, &format!("edgegroup:{}", execution(child)))
}

/// A flow to submit: members with their upstreams, upstreams first.
#[derive(Default)]
pub(crate) struct Graph {
    number: usize,
    namespace: Option<&'static str>,
    nameless: bool,
    members: Vec<Child>,
}

struct Child {
    number: usize,
    upstreams: Vec<usize>,
    policy: Option<GroupPolicy>,
}

impl Graph {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// The flow with this number instead of 0.
    pub(crate) fn numbered(mut self, number: usize) -> Self {
        self.number = number;
        self
    }

    /// Owned by this tenant instead of `ns`.
    pub(crate) fn owned_by(mut self, namespace: &'static str) -> Self {
        self.namespace = Some(namespace);
        self
    }

    /// Without short names in the trace, for flows with many members.
    pub(crate) fn nameless(mut self) -> Self {
        self.nameless = true;
        self
    }

    /// Members without upstreams.
    pub(crate) fn roots(mut self, numbers: impl IntoIterator<Item = usize>) -> Self {
        let child = |number| Child { number, upstreams: Vec::new(), policy: None };
        self.members.extend(numbers.into_iter().map(child));
        self
    }

    /// A child that needs all its upstreams.
    pub(crate) fn all_of(
        mut self,
        number: usize,
        upstreams: impl IntoIterator<Item = usize>,
    ) -> Self {
        let upstreams = upstreams.into_iter().collect();
        self.members.push(Child { number, upstreams, policy: None });
        self
    }

    /// A child that needs some of its upstreams.
    pub(crate) fn some_of(
        mut self,
        number: usize,
        upstreams: impl IntoIterator<Item = usize>,
        policy: GroupPolicy,
    ) -> Self {
        let upstreams = upstreams.into_iter().collect();
        self.members.push(Child { number, upstreams, policy: Some(policy) });
        self
    }
}

fn new_member(number: usize) -> NewMember {
    NewMember {
        execution_id: member(number),
        lane_id: "default".parse().unwrap(),
        execution_kind: "kind".into(),
        priority: 0,
        creator_identity: "maker".into(),
        policy_json: String::new(),
        input_payload: Vec::new(),
        delay_until: None,
        tags_json: String::new(),
        execution_deadline_at: None,
    }
}

/// What tests do to flows.
pub(crate) trait Flows {
    /// Makes a typed call that has to succeed.
    fn fcall<F: Function>(&mut self, call: &F) -> F::Reply;
    /// Submits a flow and seals it. Its members are called by their numbers in the trace: `E1`, …
    fn submit(&mut self, graph: &Graph);
    /// Claims an execution and completes it.
    fn complete(&mut self, number: usize);
    /// Claims an execution and fails it.
    fn fail(&mut self, number: usize);
    /// Resets an ended execution.
    fn replay(&mut self, number: usize);
    /// An execution's public state.
    fn state(&mut self, number: usize) -> String;
    /// How many members a set has.
    fn size(&mut self, set: &str) -> i64;
    /// How many lines of the trace contain all these words.
    fn traced(&self, words: &[&str]) -> usize;
}

impl Flows for Harness {
    fn fcall<F: Function>(&mut self, call: &F) -> F::Reply {
        let reply = self.call(&call.command());
        match F::parse(reply) {
            Ok(reply) => reply,
            Err(error) => panic!("{}: {error}", F::NAME),
        }
    }

    fn submit(&mut self, graph: &Graph) {
        self.name(flow(graph.number).to_string(), format!("F{}", graph.number));
        for chunk in graph.members.chunks(SubmitFlow::MEMBERS_MAX) {
            for child in chunk.iter().filter(|_| !graph.nameless) {
                self.name(execution(child.number), format!("E{}", child.number));
            }
            let edges = chunk.iter().flat_map(|child| {
                child.upstreams.iter().map(|&upstream| Edge {
                    edge_id: edge(upstream, child.number),
                    upstream: member(upstream),
                    downstream: member(child.number),
                    data_passing_ref: String::new(),
                })
            });
            let groups = chunk
                .iter()
                .filter_map(|child| child.policy.map(|policy| (member(child.number), policy)));
            self.fcall(&chunk_of(
                graph,
                chunk.iter().map(|child| new_member(child.number)).collect(),
                edges.collect(),
                groups.collect(),
                false,
            ));
        }
        let seal = chunk_of(graph, Vec::new(), Vec::new(), Vec::new(), true);
        while !matches!(self.fcall(&seal), Submission::Sealed { .. }) {}
    }

    fn complete(&mut self, number: usize) {
        self.claim(&execution(number), 60_000);
        self.fcall(&CompleteExecution {
            running: running(number),
            authority: Authority::Operator,
            result_payload: Vec::new(),
        });
    }

    fn fail(&mut self, number: usize) {
        self.claim(&execution(number), 60_000);
        self.fcall(&FailExecution {
            running: running(number),
            authority: Authority::Operator,
            failure_reason: "it broke".into(),
            failure_category: "permanent".into(),
            retry_policy_json: String::new(),
        });
    }

    fn replay(&mut self, number: usize) {
        self.fcall(&ReplayExecution {
            execution_id: member(number),
            lane_id: "default".parse().unwrap(),
            inbound_edges: Vec::new(),
        });
    }

    fn state(&mut self, number: usize) -> String {
        self.field(&core(&execution(number)), "public_state")
    }

    fn size(&mut self, set: &str) -> i64 {
        match self.call(&["SCARD", set]) {
            Value::Int(size) => size,
            other => panic!("{set}: {other:?}"),
        }
    }

    fn traced(&self, words: &[&str]) -> usize {
        self.trace.iter().filter(|line| words.iter().all(|word| line.contains(word))).count()
    }
}

fn chunk_of(
    graph: &Graph,
    members: Vec<NewMember>,
    edges: Vec<Edge>,
    groups: Vec<(ExecutionId, GroupPolicy)>,
    seal: bool,
) -> SubmitFlow {
    SubmitFlow {
        partition: HOME,
        flow_id: flow(graph.number),
        flow_kind: "kind".into(),
        namespace: Namespace::new(graph.namespace.unwrap_or("ns")),
        members,
        edges,
        joins: Vec::new(),
        groups,
        content: String::new(),
        seal,
    }
}

fn running(number: usize) -> Running {
    Running {
        execution_id: member(number),
        attempt_index: AttemptIndex(0),
        lane: "default".parse().unwrap(),
        worker_instance_id: WorkerInstanceId::new("wi"),
    }
}

/// Stages an edge between two members of flow 0; returns the call that applies it.
pub(crate) fn stage(
    harness: &mut Harness,
    upstream: usize,
    downstream: usize,
) -> ApplyDependencyToChild {
    let new = Edge {
        edge_id: edge(upstream, downstream),
        upstream: member(upstream),
        downstream: member(downstream),
        data_passing_ref: String::new(),
    };
    let seen = harness.field(&of_flow(0, "core"), "graph_revision").parse().unwrap();
    let now = ServerTime(EPOCH_MS as i64);
    let graph_revision = harness.fcall(&StageDependencyEdge {
        flow_id: flow(0),
        edge: new.clone(),
        expected_graph_revision: seen,
        now,
    });
    let lane_id = "default".parse().unwrap();
    ApplyDependencyToChild { flow_id: flow(0), edge: new, lane_id, graph_revision, now }
}
