use alloc::format;
use alloc::vec;

use super::*;
use crate::call::execution::CreateExecution;
use crate::call::flow::{Edge, NewMember, SubmitFlow};
use crate::client::{
    FlowSubmission, FlowTask, Limits, Needs, NewStart, Start, StartMany, StartTime, Submit,
    Submitted,
};
use crate::id::{FlowId, LaneId, Namespace};
use crate::partition::{Partition, PartitionCounts};
use core::time::Duration;

fn member(at: u8) -> NewMember {
    NewMember {
        execution_id: execution(at),
        lane_id: LaneId::default_lane(),
        execution_kind: "work".into(),
        priority: 0,
        creator_identity: "test".into(),
        policy_json: String::new(),
        input_payload: Vec::new(),
        delay_until: None,
        tags_json: String::new(),
        execution_deadline_at: None,
    }
}

pub(super) fn flow(tasks: u8, per_call: usize) -> FlowSubmission {
    let edge = |at: u8| Edge {
        edge_id: uuid::Uuid::from_bytes([at; 16]).into(),
        upstream: execution(at - 1),
        downstream: execution(at),
        data_passing_ref: String::new(),
    };
    let task = |at: u8| FlowTask {
        member: member(at),
        start: StartTime::AtOnce,
        edges: (at > 0).then(|| edge(at)).into_iter().collect(),
        group: None,
    };
    FlowSubmission {
        flow_id: FlowId::from(uuid::Uuid::nil()),
        partition: Partition::flow(0),
        flow_kind: "test".into(),
        namespace: Namespace::new("n"),
        tasks: (0..tasks).map(task).collect(),
        tags: Vec::new(),
        content: String::new(),
        tasks_per_call: per_call,
    }
}

fn known() -> Needs {
    Needs::counts(PartitionCounts::DEFAULT, true)
}

fn sent<P: Procedure>(run: &Run<P>) -> String {
    let words = run.open[0].1[0].argv.iter().map(|word| String::from_utf8_lossy(word).into_owned());
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_small_flow_is_one_call() {
    let mut run = Run::begin(Submit::new(known(), flow(3, 256)));
    assert_eq!(run.asks(), ["submit_flow"]);
    run.reply([ok(&["sealed", "3"])]);
    assert_eq!(run.result(), Some(Ok(Submitted { before: false })));
}

#[test]
fn chunks_follow_each_other_and_the_last_seals() {
    let mut run = Run::begin(Submit::new(known(), flow(5, 2)));
    for (chunk, members) in [[0, 1], [2, 3]].into_iter().enumerate() {
        for at in members {
            assert!(sent(&run).contains(&execution(at).to_string()), "chunk {chunk}");
        }
        assert!(!sent(&run).ends_with(" 1"), "not sealed yet");
        // A repeat after silence is the same chunk.
        let before = sent(&run);
        run.silence();
        run.wake();
        assert_eq!(sent(&run), before);
        run.reply([ok(&["open", "2"])]);
    }
    assert!(sent(&run).ends_with(" 1"), "{}", sent(&run));
    run.reply([ok(&["sealing", "4"])]);
    assert!(!sent(&run).contains(&format!("\"{}\"", execution(4))), "members are stored");
    run.reply([ok(&["sealing", "2"])]);
    assert_eq!(run.result(), None);
    run.reply([ok(&["sealed", "5"])]);
    assert_eq!(run.result(), Some(Ok(Submitted { before: false })));
}

#[test]
fn edges_limit_a_chunk() {
    let mut many = flow(3, 256);
    let edge = many.tasks[1].edges[0].clone();
    many.tasks[1].edges = vec![edge.clone(); SubmitFlow::EDGES_MAX];
    let mut run = Run::begin(Submit::new(known(), many));
    let mut calls = 1;
    while {
        run.reply([ok(&[if calls == 12 { "sealed" } else { "open" }, "1"])]);
        run.result()
    }
    .is_none()
    {
        calls += 1;
    }
    assert_eq!(calls, 12, "the first task, and eleven parts of the join");
}

#[test]
fn a_refusal_ends_it_and_is_no_success() {
    let mut run = Run::begin(Submit::new(known(), flow(4, 2)));
    run.reply([refused(&["flow_already_terminal"])]);
    assert!(matches!(run.result(), Some(Err(Failure::Refused(_)))));
    assert!(run.open.is_empty());
    let mut run = Run::begin(Submit::new(known(), flow(1, 2)));
    run.reply([ok(&["open", "1"])]);
    assert!(matches!(run.result(), Some(Err(Failure::Unreadable(_)))), "it was to be sealed");
}

#[test]
fn limits_counts_and_lanes_come_first_and_tags_last() {
    let budget = uuid::Uuid::from_bytes([3; 16]);
    let limits = Limits { budgets: [budget.into()].into(), ..Limits::default() };
    let lanes = vec![LaneId::default_lane()];
    let needs = Needs { counts_known: false, lanes, limits, ..known() };
    let tagged = || FlowSubmission { tags: vec![("a.b".into(), "c".into())], ..flow(2, 256) };
    let mut run = Run::begin(Submit::new(needs.clone(), tagged()));
    assert_eq!(run.asks(), ["EXISTS"]);
    run.reply([Value::Int(0)]);
    let missing = Failure::NotFound { kind: "budget", id: budget.to_string() };
    assert_eq!(run.result(), Some(Err(missing)));
    let mut run = Run::begin(Submit::new(needs.clone(), tagged()));
    run.reply([Value::Int(1)]);
    assert_eq!(run.asks(), ["fix_partition_counts"]);
    run.reply([ok(&["different", "1", "2", "3"])]);
    assert!(matches!(run.result(), Some(Err(Failure::OtherCounts { .. }))));
    let mut run = Run::begin(Submit::new(needs, tagged()));
    run.reply([Value::Int(1)]);
    run.reply([ok(&["same"])]);
    assert_eq!(run.asks(), ["HMGET"]);
    run.reply([Value::Array(vec![Value::Nil])]);
    assert_eq!(run.asks(), ["SADD"]);
    run.reply([Value::Int(0)]);
    run.reply([ok(&["sealed", "2"])]);
    assert_eq!(run.asks(), ["set_flow_tags"]);
    run.reply([ok(&["1"])]);
    assert_eq!(run.result(), Some(Ok(Submitted { before: false })));
}

/// A join of so many edges, all from the first task.
fn join(edges: u16) -> FlowSubmission {
    let mut flow = flow(2, 200);
    let edge = |at: u16| Edge {
        edge_id: uuid::Uuid::from_u128(u128::from(at)).into(),
        upstream: execution(0),
        downstream: execution(1),
        data_passing_ref: String::new(),
    };
    flow.tasks[1].edges = (0..edges).map(edge).collect();
    flow
}

#[test]
fn the_edges_of_a_wide_join_are_spread_over_calls_after_those_of_its_upstreams() {
    let mut run = Run::begin(Submit::new(known(), join(600)));
    for (edges, announced) in [(0, 0), (198, 1), (198, 0), (198, 0), (6, 0)] {
        let sent = sent(&run);
        assert_eq!(sent.matches("edge_id").count(), edges);
        assert_eq!(sent.matches("edge_count").count(), announced);
        let sealed = sent.ends_with(" 1");
        run.reply([ok(if sealed { &["sealed", "2"] } else { &["open", "2"] })]);
    }
    assert_eq!(run.result(), Some(Ok(Submitted { before: false })));
}

#[test]
fn a_join_that_fits_in_one_call_announces_nothing() {
    let run = Run::begin(Submit::new(known(), join(190)));
    assert_eq!(sent(&run).matches("edge_count").count(), 0);
    assert_eq!(sent(&run).matches("edge_id").count(), 190);
}

fn new_start(last: u8, start: StartTime) -> NewStart {
    let member = member(last);
    let call = CreateExecution {
        execution_id: member.execution_id,
        namespace: Namespace::new("n"),
        lane_id: member.lane_id,
        execution_kind: member.execution_kind,
        priority: 0,
        creator_identity: member.creator_identity,
        policy_json: String::new(),
        input_payload: Vec::new(),
        delay_until: None,
        idempotency: None,
        tags_json: String::new(),
        execution_deadline_at: None,
    };
    NewStart { call, start }
}

fn creation(start: StartTime) -> Start {
    let NewStart { call, start } = new_start(1, start);
    Start::new(known(), call, start)
}

#[test]
fn a_delay_counts_from_the_time_of_the_server_that_owns_the_slot() {
    let mut run = Run::begin(creation(StartTime::After(Duration::from_secs(2))));
    assert_eq!(run.asks(), ["TIME"]);
    assert_eq!(run.open[0].1[0].slot, execution(1).partition().slot());
    run.reply([fields(&["1700000000", "0"])]);
    assert_eq!(run.asks(), ["create_execution"]);
    assert!(sent(&run).contains("1700000002000"), "{}", sent(&run));
    run.silence();
    run.wake();
    run.reply([ok(&[&execution(1).to_string(), "delayed"])]);
    assert_eq!(run.result(), Some(Ok(execution(1))));
}

#[test]
fn a_start_at_once_is_one_call_and_a_duplicate_gives_the_first() {
    let duplicate = |last| {
        Value::Array(vec![Value::Int(1), bulk("DUPLICATE"), bulk(&execution(last).to_string())])
    };
    let mut run = Run::begin(creation(StartTime::AtOnce));
    assert_eq!(run.asks(), ["create_execution"]);
    run.reply([duplicate(1)]);
    assert_eq!(run.result(), Some(Ok(execution(1))), "its own first try");
    let other = Failure::OtherContent { kind: "execution", id: execution(9).to_string() };
    for (kind, input, result) in [
        (bulk("work"), Value::Nil, Ok(execution(9))),
        (bulk("rest"), Value::Nil, Err(other.clone())),
        (bulk("work"), bulk("other"), Err(other)),
        (Value::Nil, Value::Nil, Ok(execution(9))),
    ] {
        let mut run = Run::begin(creation(StartTime::AtOnce));
        run.reply([duplicate(9)]);
        assert_eq!(run.asks(), ["HMGET", "GET", "GET"]);
        let lane = bulk(LaneId::default_lane().as_str());
        run.reply([Value::Array(vec![kind, lane]), input, Value::Nil]);
        assert_eq!(run.result(), Some(result));
    }
}

#[test]
fn a_flow_that_was_there_says_so_unless_it_may_be_this_one() {
    let there = || {
        let words = ["ALREADY_SATISFIED", "sealed", "1"].map(bulk);
        Value::Array([Value::Int(1)].into_iter().chain(words).collect())
    };
    let mut run = Run::begin(Submit::new(known(), flow(1, 2)));
    run.reply([there()]);
    assert_eq!(run.result(), Some(Ok(Submitted { before: true })));
    let mut run = Run::begin(Submit::new(known(), flow(1, 2)));
    run.silence();
    run.wake();
    run.reply([there()]);
    assert_eq!(run.result(), Some(Ok(Submitted { before: false })));
    let mut run = Run::begin(Submit::new(known(), flow(1, 2)));
    run.reply([refused(&["invalid_input", SubmitFlow::OTHER_CONTENT])]);
    assert!(matches!(run.result(), Some(Err(Failure::OtherContent { kind: "flow", .. }))));
}

/// Creates so many executions in each of two partitions, the first of them later.
fn creations(count: u8) -> StartMany {
    let in_partition = |partition: u16, number: u8| {
        let is_first = partition == 0 && number == 0;
        let later = StartTime::After(Duration::from_secs(2));
        let mut task = new_start(number, if is_first { later } else { StartTime::AtOnce });
        task.call.execution_id = other_partition(&task.call.execution_id, partition);
        task
    };
    let all = (0..count).flat_map(|number| [in_partition(0, number), in_partition(1, number)]);
    StartMany::new(known(), all.collect())
}

fn other_partition(id: &ExecutionId, partition: u16) -> ExecutionId {
    ExecutionId::new(partition, id.uuid())
}

#[test]
fn many_are_started_with_one_pipeline_for_each_slot_in_their_order() {
    let mut run = Run::begin(creations(3));
    assert_eq!(run.asks(), ["TIME"], "of the one slot with an execution that starts later");
    run.reply([fields(&["1700000000", "0"])]);
    assert_eq!(run.open.len(), 2);
    assert_eq!(run.asks(), ["create_execution"; 3]);
    let slots: Vec<u16> = run.open.iter().map(|(_, batch)| batch[0].slot).collect();
    let mine = |partition| other_partition(&execution(0), partition).partition().slot();
    let first = slots.iter().position(|slot| *slot == mine(0)).unwrap();
    // What is not answered is repeated; the rest is not.
    let created = |partition: u16, number: u8| {
        ok(&[&other_partition(&execution(number), partition).to_string(), "waiting"])
    };
    for at in 0..2 {
        if at == first {
            run.silence();
        } else {
            run.reply((0..3).map(|number| created(1, number)));
        }
    }
    run.wake();
    assert_eq!(run.open.len(), 1);
    assert_eq!(run.open[0].1[0].slot, mine(0));
    let first_of =
        |last| vec![Value::Int(1), bulk("DUPLICATE"), bulk(&execution(last).to_string())];
    run.reply([created(0, 0), Value::Array(first_of(99)), created(0, 2)]);
    assert_eq!(run.asks(), ["HMGET", "GET", "GET"], "is it the same?");
    let lane = LaneId::default_lane();
    run.reply([fields(&["work", lane.as_str()]), Value::Nil, Value::Nil]);
    let ids = run.result().unwrap().unwrap();
    let expected = |partition, number| other_partition(&execution(number), partition);
    assert_eq!(ids[..3], [expected(0, 0), expected(1, 0), execution(99)]);
    assert_eq!(ids.len(), 6);
}

#[test]
fn many_more_are_started_step_by_step() {
    let tasks = (0..1_200).map(|_| new_start(1, StartTime::AtOnce)).collect();
    let mut run = Run::begin(StartMany::new(known(), tasks));
    let mut sizes = Vec::new();
    while !run.open.is_empty() {
        let batch = run.open[0].1.len();
        sizes.push(batch);
        run.reply((0..batch).map(|_| ok(&[&execution(1).to_string(), "waiting"])));
    }
    assert!(sizes.iter().all(|size| *size <= 128), "{sizes:?}");
    assert_eq!(run.result().unwrap().unwrap().len(), 1_200);
}

#[test]
fn a_refusal_ends_the_start_of_many() {
    let mut run = Run::begin(creations(1));
    run.reply([fields(&["1700000000", "0"])]);
    run.reply([refused(&["invalid_input", "no"])]);
    run.reply([refused(&["invalid_input", "no"])]);
    assert!(matches!(run.result(), Some(Err(Failure::Refused(_)))));
}
