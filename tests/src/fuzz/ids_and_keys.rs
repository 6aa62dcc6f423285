//! Ids and keys: whatever parses is written back as something that parses to the same.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use selvedge_core::id::{
    AttemptId, AttemptIndex, BudgetId, EdgeId, ExecutionId, FlowId, LaneId, LeaseEpoch, LeaseId,
    QuotaPolicyId, SignalId, WaitpointId, WorkerInstanceId,
};
use selvedge_core::key::{Key, LaneIndex};
use selvedge_core::partition::{Partition, SLOTS, slot};
use selvedge_core::time::ServerTime;

use super::plain;

/// Reads a text as everything that it may be.
///
/// # Panics
/// When something that was read is not written back as it was, or what is plain is refused.
pub fn run(data: &[u8]) {
    assert!(slot(data) < SLOTS);
    let Ok(text) = str::from_utf8(data) else { return };
    takes_what_is_plain(text);
    if let Ok(key) = text.parse::<Key>() {
        assert_eq!(key.to_string(), text, "a key has one spelling");
        assert_eq!(key.slot(), slot(data));
        comes_back(&key);
    }
    one_form::<FlowId>(text);
    one_form::<EdgeId>(text);
    one_form::<LeaseId>(text);
    one_form::<AttemptId>(text);
    one_form::<SignalId>(text);
    one_form::<WaitpointId>(text);
    one_form::<BudgetId>(text);
    one_form::<QuotaPolicyId>(text);
    one_form::<AttemptIndex>(text);
    one_form::<LeaseEpoch>(text);
    one_form::<ServerTime>(text);
    one_form::<Partition>(text);
    one_form::<LaneId>(text);
    if let Ok(id) = text.parse::<ExecutionId>() {
        assert_eq!(id.as_str(), text, "an execution id is kept as it was given");
        comes_back(&id);
        keys_of_an_execution(&id);
    }
    if let Ok(lane) = text.parse::<LaneId>() {
        let index = Key::index(Partition::flow(7));
        for key in [index.lane(&lane, LaneIndex::Eligible), index.lane(&lane, LaneIndex::Delayed)] {
            comes_back(&key);
        }
    }
    if let Ok(flow) = text.parse::<FlowId>() {
        let keys = Key::flow(Partition::flow(9), flow);
        for key in [keys.core(), keys.members(), keys.summary(), keys.pending_cancels()] {
            comes_back(&key);
        }
    }
}

/// Ids in the one spelling that everybody writes are read, and so are keys that hold them.
fn takes_what_is_plain(text: &str) {
    if plain::is_uuid(text) {
        is_read::<FlowId>(text);
        is_read::<BudgetId>(text);
        is_read::<Key>(&format!("ff:budget:{{b:1}}:{text}:usage"));
        is_read::<Key>(&format!("ff:quota:{{q:1}}:{text}:window:requests"));
        is_read::<Key>(&format!("ff:flow:{{fp:1}}:{text}:core"));
    }
    if plain::is_number(text, u32::MAX.into()) {
        is_read::<AttemptIndex>(text);
    }
    if plain::is_number(text, i64::MAX.unsigned_abs()) {
        is_read::<LeaseEpoch>(text);
        is_read::<ServerTime>(text);
    }
    if ["fp", "b", "q"].into_iter().any(|family| plain::is_tag(text, family)) {
        is_read::<Partition>(text);
    }
    if plain::is_execution_id(text) {
        is_read::<ExecutionId>(text);
        let tag = text.split_inclusive('}').next().unwrap_or_default();
        is_read::<Key>(&format!("ff:exec:{tag}:{text}:core"));
    }
    let printable = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
    if (1..=64).contains(&text.len()) && text.bytes().all(printable) {
        is_read::<LaneId>(text);
    }
}

/// All keys of an execution lie in its partition's slot, and can be told apart again.
fn keys_of_an_execution(id: &ExecutionId) {
    let keys = Key::execution(id);
    let attempt = AttemptIndex(u32::MAX);
    // An id may spell its partition in its own way; where its keys lie is for the id to say.
    for key in [keys.core(), keys.lease(), keys.attempt(attempt), keys.stream_meta(attempt)] {
        assert_eq!(key.slot(), id.partition().slot(), "{key} lies elsewhere");
    }
    // A UUID in one of its other spellings makes keys that only its owner can read.
    if id.as_str().ends_with(&format!("}}:{}", id.uuid())) {
        let lane: LaneId = "default".parse().expect("printable");
        let index = Key::index(id.partition());
        let worker = WorkerInstanceId::new("w1");
        for key in [
            keys.core(),
            keys.lease_history(),
            keys.attempt(attempt),
            keys.attempt_summary(attempt),
            keys.stream_meta(attempt),
            keys.suspend_dedup("again:1"),
            index.lane(&lane, LaneIndex::Active),
            index.worker_leases(&worker),
        ] {
            comes_back(&key);
        }
    }
}

fn is_read<T>(text: &str)
where
    T: FromStr,
    T::Err: Debug,
{
    if let Err(error) = text.parse::<T>() {
        panic!("`{text}` is refused: {error:?}");
    }
}

fn comes_back<T>(value: &T)
where
    T: FromStr + Display + Debug + PartialEq,
    T::Err: Debug,
{
    let text = value.to_string();
    match text.parse::<T>() {
        Ok(again) => assert_eq!(&again, value, "`{text}` is read as another one"),
        Err(error) => panic!("{value:?} writes `{text}`, which is not read: {error:?}"),
    }
}

fn one_form<T>(text: &str)
where
    T: FromStr + Display + Debug + PartialEq,
    T::Err: Debug + Display,
{
    match text.parse::<T>() {
        Ok(value) => comes_back(&value),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
