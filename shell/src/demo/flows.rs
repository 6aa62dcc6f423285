//! The sample work.

use selvedge_core::call::flow::{Edge, GroupPolicy, NewMember, OnSatisfied, SubmitFlow};
use selvedge_core::error::CallError;
use selvedge_core::id::{ExecutionId, FlowId, LaneId, Namespace};
use uuid::Uuid;

use super::HOME;
use crate::embedded::Embedded;

/// A piece of work, and how its tasks should end.
pub(super) struct Sample {
    pub(super) name: &'static str,
    pub(super) shows: &'static str,
    /// Each task, and the public state it should end in.
    pub(super) expected: Vec<(ExecutionId, &'static str)>,
}

/// The input of a task that takes its time.
pub(super) const SLOW: &[u8] = b"slow";

const RETRY: &str =
    r#"{"retry_policy":{"max_retries":5,"backoff":{"type":"fixed","delay_ms":200}}}"#;

/// Submits everything.
pub(super) fn submit(store: &mut Embedded) -> Result<Vec<Sample>, CallError> {
    Ok(vec![
        fan_out(store)?,
        race(store)?,
        single(store, "flaky", "flaky", "fails twice, and is tried again", RETRY)?,
        single(store, "approval", "approve", "waits for a signal with a signed token", "")?,
        single(store, "lost", "mortal", "its worker dies; the work comes back", "")?,
    ])
}

fn fan_out(store: &mut Embedded) -> Result<Sample, CallError> {
    let members: Vec<NewMember> =
        ["fetch", "render", "render", "render", "publish"].map(|kind| member(kind, "")).into();
    let id = |at: usize| members[at].execution_id.clone();
    let edges = [(0, 1), (0, 2), (0, 3), (1, 4), (2, 4), (3, 4)]
        .map(|(from, to)| edge(id(from), id(to)))
        .into();
    let expected = (0..5).map(|at| (id(at), "completed")).collect();
    send(store, members, edges, Vec::new())?;
    Ok(Sample { name: "fan-out", shows: "one task feeds three, a last one joins them", expected })
}

fn race(store: &mut Embedded) -> Result<Sample, CallError> {
    let mut members: Vec<NewMember> =
        ["mirror", "mirror", "mirror", "use"].map(|kind| member(kind, "")).into();
    for loser in &mut members[1..3] {
        loser.input_payload = SLOW.to_vec();
    }
    let id = |at: usize| members[at].execution_id.clone();
    let edges = (0..3).map(|at| edge(id(at), id(3))).collect();
    let groups = vec![(id(3), GroupPolicy::AnyOf(OnSatisfied::CancelRemaining))];
    let expected = ["completed", "cancelled", "cancelled", "completed"]
        .into_iter()
        .enumerate()
        .map(|(at, state)| (id(at), state))
        .collect();
    send(store, members, edges, groups)?;
    Ok(Sample { name: "race", shows: "the first of three wins, the rest is cancelled", expected })
}

fn single(
    store: &mut Embedded,
    name: &'static str,
    kind: &str,
    shows: &'static str,
    policy: &str,
) -> Result<Sample, CallError> {
    let member = member(kind, policy);
    let expected = vec![(member.execution_id.clone(), "completed")];
    send(store, vec![member], Vec::new(), Vec::new())?;
    Ok(Sample { name, shows, expected })
}

fn member(kind: &str, policy: &str) -> NewMember {
    NewMember {
        execution_id: ExecutionId::new(HOME.index, Uuid::new_v4()),
        lane_id: lane(),
        execution_kind: kind.to_owned(),
        priority: 0,
        creator_identity: "demo".to_owned(),
        policy_json: policy.to_owned(),
        input_payload: kind.as_bytes().to_vec(),
        delay_until: None,
        tags_json: String::new(),
        execution_deadline_at: None,
    }
}

/// The lane of the whole demo.
pub(super) fn lane() -> LaneId {
    "default".parse().expect("`default` is printable ASCII")
}

fn edge(upstream: ExecutionId, downstream: ExecutionId) -> Edge {
    let data_passing_ref = String::new();
    Edge { edge_id: Uuid::new_v4().into(), upstream, downstream, data_passing_ref }
}

fn send(
    store: &mut Embedded,
    members: Vec<NewMember>,
    edges: Vec<Edge>,
    groups: Vec<(ExecutionId, GroupPolicy)>,
) -> Result<(), CallError> {
    let call = SubmitFlow {
        partition: HOME,
        flow_id: FlowId::from(Uuid::new_v4()),
        flow_kind: "demo".to_owned(),
        namespace: Namespace::new("demo"),
        members,
        edges,
        groups,
        seal: true,
    };
    store.call(&call).map(drop)
}
