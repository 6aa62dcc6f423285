use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::call::Function;
use crate::id::{ExecutionId, FlowId, Namespace};
use crate::partition::Partition;
use crate::value::Value;

const FLOW: &str = "550e8400-e29b-41d4-a716-446655440000";
const FIRST: &str = "{fp:24}:123e4567-e89b-12d3-a456-426614174001";
const SECOND: &str = "{fp:24}:123e4567-e89b-12d3-a456-426614174002";

fn flow() -> FlowId {
    FLOW.parse().unwrap()
}

fn first() -> ExecutionId {
    FIRST.parse().unwrap()
}

fn second() -> ExecutionId {
    SECOND.parse().unwrap()
}

fn reply(texts: &[&str]) -> Value {
    let mut elements = vec![Value::Int(1)];
    elements.extend(texts.iter().map(|text| Value::Bulk(text.as_bytes().to_vec())));
    Value::Array(elements)
}

fn member(id: ExecutionId, payload: &[u8]) -> NewMember {
    NewMember {
        execution_id: id,
        lane_id: "default".parse().unwrap(),
        execution_kind: String::from("job"),
        priority: 1,
        creator_identity: String::new(),
        policy_json: String::new(),
        input_payload: payload.to_vec(),
        delay_until: None,
        tags_json: String::new(),
        execution_deadline_at: None,
    }
}

#[test]
fn payloads_travel_beside_the_document_and_are_numbered_as_they_come() {
    let call = SubmitFlow {
        partition: Partition::flow(24),
        flow_id: flow(),
        flow_kind: String::from("kind"),
        namespace: Namespace::new("ns"),
        members: vec![member(first(), b""), member(second(), b"\x00\xff")],
        edges: Vec::new(),
        joins: vec![(first(), 500)],
        groups: vec![(second(), GroupPolicy::Quorum { k: 2, on_satisfied: OnSatisfied::LetRun })],
        content: String::new(),
        seal: true,
    };
    let args = call.args();
    assert_eq!(args[4..], [b"1".to_vec(), b"\x00\xff".to_vec()]);
    let document: serde_json::Value = serde_json::from_slice(&args[3]).unwrap();
    assert!(document["members"][0].get("payload").is_none());
    assert_eq!(document["members"][1]["payload"], 1);
    assert_eq!(document["members"][1]["partition_id"], 24);
    assert_eq!(document["groups"][0]["k"], 2);
    assert_eq!(document["members"][0]["edge_count"], 500);
    assert!(document["members"][1].get("edge_count").is_none());
}

#[test]
fn a_submission_says_how_far_it_has_come() {
    let read = |texts: &[&str]| SubmitFlow::parse(reply(texts));
    assert_eq!(read(&["OK", "open", "2"]).unwrap(), Submission::Open { waiting: 2 });
    assert_eq!(read(&["OK", "sealing", "9"]).unwrap(), Submission::Sealing { waiting: 9 });
    let sealed = |before| Submission::Sealed { node_count: 4, before };
    assert_eq!(read(&["OK", "sealed", "4"]).unwrap(), sealed(false));
    assert_eq!(read(&["ALREADY_SATISFIED", "sealed", "4"]).unwrap(), sealed(true));
    assert!(read(&["OK", "closed", "4"]).is_err());
    assert!(read(&["DUPLICATE", "sealed", "4"]).is_err());
}

#[test]
fn a_resolution_is_a_word_and_its_own_mark() {
    let read = |texts: &[&str]| ResolveDependency::parse(reply(texts));
    let satisfied = Resolution::Satisfied { data_injected: true };
    assert_eq!(read(&["OK", "satisfied", "data_injected"]).unwrap(), satisfied);
    let skipped = Resolution::Impossible { child_skipped: true };
    assert_eq!(read(&["OK", "impossible", "child_skipped"]).unwrap(), skipped);
    assert_eq!(read(&["OK", "already_resolved"]).unwrap(), Resolution::AlreadyResolved);
    assert_eq!(read(&["OK", "pending", ""]).unwrap(), Resolution::Pending);
    assert!(read(&["OK", "satisfied", "child_skipped"]).is_err());
    assert!(read(&["OK", "nonsense", ""]).is_err());
}

#[test]
fn a_batch_carries_two_lists_with_their_lengths() {
    let read = |texts: &[&str]| ResolveOutgoing::parse(reply(texts));
    let batch = read(&["OK", "more", "17", "3", "1", "1", FIRST, "1", SECOND]).unwrap();
    assert_eq!(
        batch,
        OutgoingBatch {
            cursor: Some("17".to_string()),
            resolved: 3,
            left: 1,
            skipped: vec![first()],
            released: vec![second()],
        }
    );
    assert_eq!(read(&["OK", "done", "0", "0", "0", "0", "0"]).unwrap().cursor, None);
    assert!(read(&["OK", "more", "17", "3", "1", "18446744073709551615", FIRST]).is_err());
}

#[test]
fn an_unpaid_job_names_who_still_runs() {
    let read = |texts: &[&str]| DrainSiblingCancelGroupChecked::parse(reply(texts));
    assert_eq!(read(&["OK", "drained"]).unwrap(), CheckedDrain::Drained(Drain::Drained));
    assert_eq!(
        read(&["OK", "siblings_running", FIRST]).unwrap(),
        CheckedDrain::SiblingsRunning(vec![first()])
    );
    assert!(read(&["OK", "siblings_running", "nobody"]).is_err());
}

#[test]
fn applying_answers_a_count_or_that_it_was_done() {
    let read = |texts: &[&str]| ApplyDependencyToChild::parse(reply(texts));
    assert_eq!(read(&["OK", "2"]).unwrap(), Application::Applied { unsatisfied: 2 });
    assert_eq!(read(&["OK", "already_applied"]).unwrap(), Application::AlreadyApplied);
    assert!(read(&["OK", "-1"]).is_err());
}

#[test]
fn a_cancelled_flow_answers_its_members_and_passes_over_what_is_none() {
    let read = |texts: &[&str]| CancelFlow::parse(reply(texts));
    let members = read(&["OK", "cancel_all", FIRST, "nonsense", SECOND]).unwrap();
    assert_eq!(members, [first(), second()]);
    assert_eq!(read(&["OK", "flow_only"]).unwrap(), []);
}
