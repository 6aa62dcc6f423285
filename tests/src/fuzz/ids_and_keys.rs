//! Ids and keys: what parses is written as text that parses to the same.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use selvedge_core::id::{
    AttemptId, AttemptIndex, BudgetId, EdgeId, ExecutionId, FlowId, LaneId, LeaseEpoch, LeaseId,
    QuotaPolicyId, SignalId, WaitpointId, WorkerInstanceId,
};
use selvedge_core::key::{Key, LaneIndex};
use selvedge_core::partition::{Partition, SLOTS, slot};
use selvedge_core::time::ServerTime;

use super::accepted_input;

/// Reads a text as everything that it may be.
///
/// # Panics
/// When something that was read is not written back as it was, or what is plain is refused.
pub fn run(data: &[u8]) {
    assert_eq!(slot(data), slot_by_bits(data), "the slot of {}", data.escape_ascii());
    let Ok(text) = str::from_utf8(data) else { return };
    takes_what_is_plain(text);
    if let Ok(key) = text.parse::<Key>() {
        assert_eq!(key.to_string(), text, "a key has one spelling");
        assert_eq!(key.slot(), slot_by_bits(data), "where {text} lies");
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
    same_number::<AttemptIndex>(text);
    same_number::<LeaseEpoch>(text);
    same_number::<ServerTime>(text);
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
    if accepted_input::is_uuid(text) {
        is_read::<FlowId>(text);
        is_read::<EdgeId>(text);
        is_read::<LeaseId>(text);
        is_read::<AttemptId>(text);
        is_read::<SignalId>(text);
        is_read::<WaitpointId>(text);
        is_read::<BudgetId>(text);
        is_read::<QuotaPolicyId>(text);
    }
    if accepted_input::is_number(text, u32::MAX.into()) {
        is_read::<AttemptIndex>(text);
    }
    if accepted_input::is_number(text, i64::MAX.unsigned_abs()) {
        is_read::<LeaseEpoch>(text);
        is_read::<ServerTime>(text);
    }
    if ["fp", "b", "q"].into_iter().any(|family| accepted_input::is_tag(text, family)) {
        is_read::<Partition>(text);
    }
    if accepted_input::is_execution_id(text) {
        is_read::<ExecutionId>(text);
        let (tag, uuid) = text.split_at(text.len() - 37);
        for form in KEYS {
            let key = form.replace("EID", text).replace("TAG", tag).replace("UUID", &uuid[1..]);
            is_read::<Key>(&key);
        }
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

/// What has one spelling is taken in it, and means that.
fn is_read<T>(text: &str)
where
    T: FromStr + Display,
    T::Err: Debug,
{
    match text.parse::<T>() {
        Ok(value) => assert_eq!(value.to_string(), text, "read as another one"),
        Err(error) => panic!("`{text}` is refused: {error:?}"),
    }
}

/// However a number is spelled, it stays the same one.
fn same_number<T>(text: &str)
where
    T: FromStr + Display + Debug + PartialEq,
    T::Err: Debug + Display,
{
    one_form::<T>(text);
    if let Ok(value) = text.parse::<T>() {
        let number = |text: &str| text.parse::<i128>().ok();
        assert_eq!(number(&value.to_string()), number(text), "`{text}` is read as {value}");
    }
}

/// The slot of a key by the letter of the cluster's specification: the CRC, bit by bit, of what
/// stands between the first `{` and the next `}`, if anything does, or else of the whole key.
fn slot_by_bits(key: &[u8]) -> u16 {
    let inner = key.splitn(2, |byte| *byte == b'{').nth(1).and_then(|rest| {
        let end = rest.iter().position(|byte| *byte == b'}')?;
        (end > 0).then(|| &rest[..end])
    });
    let crc = inner.unwrap_or(key).iter().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            (crc << 1) ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 }
        })
    });
    crc % SLOTS
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

/// Keys of the contract, one of each kind that holds an id, and some that hold none.
const KEYS: [&str; 26] = [
    "ff:exec:TAG:EID:core",
    "ff:exec:TAG:EID:suspension:current",
    "ff:exec:TAG:EID:dep:UUID",
    "ff:attempt:TAG:EID:12:policy",
    "ff:stream:TAG:EID:3:meta",
    "ff:wp:TAG:UUID",
    "ff:wp:TAG:UUID:condition",
    "ff:signal:TAG:UUID:payload",
    "ff:sigdedup:TAG:UUID:key:with:colons",
    "ff:dedup:suspend:TAG:EID:once",
    "ff:idem:TAG:tenant:order-1",
    "ff:claim:TAG:UUID",
    "ff:sec:TAG:waitpoint_hmac",
    "ff:part:TAG:signal_delivery",
    "ff:flow:TAG:UUID:pending_cancels",
    "ff:flow:TAG:UUID:edge:UUID",
    "ff:flow:TAG:UUID:edgegroup:EID",
    "ff:idx:TAG:lane:default:blocked:dependencies",
    "ff:idx:TAG:pending_cancel_groups",
    "ff:budget:{b:1}:UUID:by_exec:EID",
    "ff:usagededup:{b:1}:report-9",
    "ff:quota:{q:1}:UUID:admitted:EID",
    "ff:worker:tenant:w-1:alive",
    "ff:idx:tenant:workers",
    "ff:aside:TAG",
    "ff:noop:TAG",
];
