//! What a reader would otherwise have to count: positions, and the words of the replies.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::call::Function;
use crate::call::lease::{LeaseMark, MarkLeaseExpiredIfDue, Requeue, RequeueLostLease};
use crate::call::library::{Repair, RepairIndex, ScanPartition};
use crate::id::{AttemptIndex, Fence, LaneId, LeaseEpoch, Namespace, WorkerId, WorkerInstanceId};
use crate::state::{LifecyclePhase, TerminalOutcome};
use crate::time::ServerTime;
use crate::value::Value;

const UUID: &str = "550e8400-e29b-41d4-a716-446655440000";

fn running() -> Running {
    Running {
        execution_id: alloc::format!("{{fp:7}}:{UUID}").parse().unwrap(),
        attempt_index: AttemptIndex(2),
        lane: lane(),
        worker_instance_id: WorkerInstanceId::new("wi"),
    }
}

fn lane() -> LaneId {
    "default".parse().unwrap()
}

fn reply(elements: &[&str]) -> Value {
    let texts = elements.iter().map(|text| Value::Bulk((*text).into()));
    Value::Array([Value::Int(1)].into_iter().chain(texts).collect())
}

fn in_step<F: Function>(call: &F) {
    assert_eq!(call.keys().len(), F::KEYS.len(), "keys of {}", F::NAME);
    assert_eq!(call.args().len(), F::ARGS.len(), "arguments of {}", F::NAME);
}

#[test]
fn every_call_fills_its_positions() {
    let (running, id) = (running(), running().execution_id);
    let fence = Fence {
        lease_id: UUID.parse().unwrap(),
        lease_epoch: LeaseEpoch(1),
        attempt_id: UUID.parse().unwrap(),
    };
    let authority = Authority::Holder(fence);
    in_step(&CreateExecution {
        execution_id: id.clone(),
        namespace: Namespace::new("ns"),
        lane_id: lane(),
        execution_kind: String::from("kind"),
        priority: 0,
        creator_identity: String::new(),
        policy_json: String::new(),
        input_payload: Vec::new(),
        delay_until: None,
        idempotency: None,
        tags_json: String::new(),
        execution_deadline_at: None,
    });
    in_step(&ClaimExecution {
        execution_id: id.clone(),
        worker_id: WorkerId::new("w"),
        worker_instance_id: WorkerInstanceId::new("wi"),
        lane: lane(),
        lease_id: fence.lease_id,
        lease_ttl_ms: 1,
        renew_before_ms: 1,
        attempt_id: fence.attempt_id,
        attempt_policy_json: String::new(),
        attempt_timeout_ms: None,
        execution_deadline_at: None,
    });
    in_step(&ReclaimExecution {
        execution_id: id,
        worker_id: WorkerId::new("w"),
        worker_instance_id: WorkerInstanceId::new("wi"),
        lane: lane(),
        lost_attempt_index: AttemptIndex(0),
        lease_id: fence.lease_id,
        lease_ttl_ms: 1,
        attempt_id: fence.attempt_id,
        attempt_policy_json: String::new(),
        default_max_reclaim_count: None,
    });
    in_step(&CompleteExecution { running: running.clone(), authority, result_payload: vec![] });
    in_step(&FailExecution {
        running: running.clone(),
        authority: Authority::Operator,
        failure_reason: String::new(),
        failure_category: String::new(),
        retry_policy_json: String::new(),
    });
    in_step(&DelayExecution { running: running.clone(), authority, delay_until: ServerTime(5) });
    in_step(&MoveToWaitingChildren { running: running.clone(), authority });
    in_step(&CancelExecution {
        running: running.clone(),
        waitpoint_id: None,
        reason: String::new(),
        source: String::new(),
        lease: None,
    });
    in_step(&ExpireExecution { running, reason: ExpireReason::AttemptTimeout });
}

#[test]
fn replies_are_read_by_their_words() {
    assert_eq!(
        CreateExecution::parse(reply(&["DUPLICATE", &alloc::format!("{{fp:7}}:{UUID}")])).unwrap(),
        Creation::Duplicate(running().execution_id),
    );
    assert_eq!(
        FailExecution::parse(reply(&["OK", "retry_scheduled", "17"])).unwrap(),
        Failure::RetryAt(ServerTime(17)),
    );
    assert_eq!(
        ExpireExecution::parse(reply(&["OK", "expired", "runnable"])).unwrap(),
        Expiry::Expired(LifecyclePhase::Runnable),
    );
    assert_eq!(
        ExpireExecution::parse(reply(&["ALREADY_SATISFIED", "not_due"])).unwrap(),
        Expiry::NotDue,
    );
    assert_eq!(ExpireIfDue::parse(reply(&["OK", "not_due"])).unwrap(), DueExpiry::NotDue(None),);
    assert_eq!(PurgeExecution::parse(reply(&["OK", "partial", "3"])).unwrap(), Purge::Partial(3));
    assert_eq!(
        MarkLeaseExpiredIfDue::parse(reply(&["ALREADY_SATISFIED", "unowned"])).unwrap(),
        LeaseMark::Unowned,
    );
    assert_eq!(
        RequeueLostLease::parse(reply(&["OK", "ended", "failed"])).unwrap(),
        Requeue::Ended(TerminalOutcome::Failed),
    );
    assert_eq!(
        RepairIndex::parse(reply(&["OK", "repaired", "+a", "-b"])).unwrap(),
        Repair::Repaired(vec![String::from("+a"), String::from("-b")]),
    );
}

#[test]
fn what_is_due_comes_index_by_index() {
    let bulk = |text: &str| Value::Bulk(text.into());
    let told = ScanPartition::parse(Value::Array(vec![
        Value::Int(1),
        bulk("OK"),
        bulk("100"),
        Value::Array(vec![bulk("2"), bulk("200"), bulk("member"), bulk("50")]),
        Value::Array(vec![bulk("WRONGTYPE not a sorted set")]),
    ]))
    .unwrap();
    assert_eq!(told.now, ServerTime(100));
    let page = told.pages[0].as_ref().unwrap();
    assert_eq!((page.size, page.next), (2, Some(200)));
    assert_eq!(page.members, vec![(b"member".to_vec(), Some(50))]);
    assert!(told.pages[1].is_err());
}

#[test]
fn an_unknown_word_is_broken() {
    assert!(PurgeExecution::parse(reply(&["OK", "vanished"])).is_err());
    assert!(FailExecution::parse(reply(&["OK", "retry_scheduled", "soon"])).is_err());
}
