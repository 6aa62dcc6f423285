//! Keys read back from text: what an audit of a live keyspace starts from.

use alloc::string::String;
use core::str::FromStr;

use thiserror::Error;

use super::{
    AttemptPart, BudgetPart, ExecutionPart, FlowPart, IndexPart, Key, QuotaPart, SignalPart,
    StreamPart, WaitpointPart,
};
use crate::id::{AttemptIndex, ExecutionId, Namespace};
use crate::partition::Partition;

/// A text that is no key of ours.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{text}` is not a key of this keyspace")]
#[non_exhaustive]
pub struct InvalidKey {
    /// What was given.
    pub text: String,
}

/// Names that the contract reserves and nobody uses.
const RESERVED: [&str; 7] = [
    "ff:wpkey:",
    "ff:lane:",
    "ff:ns:",
    "ff:tag:",
    "ff:idx:workers:cap:",
    "ff:budget_attach:",
    "ff:quota_attach:",
];

impl FromStr for Key {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // Ids may be spelled in several ways, keys in one: only that one is ours.
        read(text)
            .filter(|key| alloc::string::ToString::to_string(key) == text)
            .ok_or_else(|| InvalidKey { text: text.into() })
    }
}

fn read(text: &str) -> Option<Key> {
    match text {
        "ff:config:partitions" => return Some(Key::PartitionCounts),
        "ff:idx:lanes" => return Some(Key::Lanes),
        "ff:idx:lane_states" => return Some(Key::LaneStates),
        "ff:idx:engines" => return Some(Key::Engines),
        _ => {}
    }
    if RESERVED.iter().any(|prefix| text.starts_with(prefix)) {
        return Some(Key::Reserved(text.into()));
    }
    let (kind, rest) = text.strip_prefix("ff:")?.split_once(':')?;
    match kind {
        "exec" => {
            let (id, part) = execution(rest)?;
            Some(Key::Execution(id, ExecutionPart::read(part.strip_prefix(':')?)?))
        }
        "attempt" => {
            let (id, index, part) = attempt(rest)?;
            Some(Key::Attempt(id, index, AttemptPart::read(part)?))
        }
        "stream" => {
            let (id, index, part) = attempt(rest)?;
            Some(Key::Stream(id, index, StreamPart::read(part)?))
        }
        "dedup" => {
            let (id, part) = execution(rest.strip_prefix("suspend:")?)?;
            Some(Key::SuspendDedup(id, part.strip_prefix(':')?.into()))
        }
        "worker" => worker(rest),
        "idx" => index(rest),
        "aside" => rest.parse().ok().map(Key::Aside),
        "noop" => rest.parse().ok().map(Key::Noop),
        "wp" | "signal" | "sigdedup" | "idem" | "claim" | "sec" | "part" | "flow" | "budget"
        | "usagededup" | "quota" => in_partition(kind, rest),
        _ => None,
    }
}

/// `<tag>:<eid><rest>`: the id and what follows it.
fn execution(text: &str) -> Option<(ExecutionId, &str)> {
    let (_, rest) = tagged(text)?;
    // The id is a hash tag, a colon and 36 characters of UUID.
    let end = rest.find("}:")? + 2 + 36;
    Some((rest.get(..end)?.parse().ok()?, rest.get(end..)?))
}

/// `<tag>:<eid>:<n><rest>`: the id, the attempt and what follows it.
fn attempt(text: &str) -> Option<(ExecutionId, AttemptIndex, &str)> {
    let (id, rest) = execution(text)?;
    let rest = rest.strip_prefix(':')?;
    let end = rest.find(':').unwrap_or(rest.len());
    Some((id, rest[..end].parse().ok()?, &rest[end..]))
}

/// `<tag>:<rest>`
fn tagged(text: &str) -> Option<(Partition, &str)> {
    let end = text.find('}')? + 1;
    Some((text[..end].parse().ok()?, text[end..].strip_prefix(':')?))
}

/// A UUID and what follows it.
fn uuid_id<T: FromStr>(text: &str) -> Option<(T, &str)> {
    Some((text.get(..36)?.parse().ok()?, text.get(36..)?))
}

fn in_partition(kind: &str, text: &str) -> Option<Key> {
    let (tag, rest) = tagged(text)?;
    match kind {
        "wp" => uuid_id(rest)
            .and_then(|(id, part)| Some(Key::Waitpoint(tag, id, WaitpointPart::read(part)?))),
        "signal" => {
            uuid_id(rest).and_then(|(id, part)| Some(Key::Signal(tag, id, SignalPart::read(part)?)))
        }
        "sigdedup" => uuid_id(rest)
            .and_then(|(id, key)| Some(Key::SignalDedup(tag, id, key.strip_prefix(':')?.into()))),
        "idem" => Some(Key::Idempotency(tag, rest.into())),
        "claim" => rest.parse().ok().map(|lease| Key::ClaimNote(tag, lease)),
        "sec" => (rest == "waitpoint_hmac").then_some(Key::WaitpointSecrets(tag)),
        "part" => match rest {
            "signal_delivery" => Some(Key::SignalDelivery(tag)),
            "lease_history" => Some(Key::LeaseHistory(tag)),
            _ => None,
        },
        "flow" => uuid_id(rest).and_then(|(id, part)| {
            Some(Key::Flow(tag, id, FlowPart::read(part.strip_prefix(':')?)?))
        }),
        "budget" => {
            uuid_id(rest).and_then(|(id, part)| Some(Key::Budget(tag, id, BudgetPart::read(part)?)))
        }
        "usagededup" => Some(Key::UsageDedup(tag, rest.into())),
        "quota" => {
            uuid_id(rest).and_then(|(id, part)| Some(Key::Quota(tag, id, QuotaPart::read(part)?)))
        }
        _ => None,
    }
}

fn index(text: &str) -> Option<Key> {
    let of_partition =
        tagged(text).and_then(|(tag, rest)| Some(Key::Index(tag, IndexPart::read(rest)?)));
    of_partition.or_else(|| Some(Key::Workers(Namespace::new(text.strip_suffix(":workers")?))))
}

fn worker(text: &str) -> Option<Key> {
    if let Some(scope) = text.strip_suffix(":alive") {
        return Some(Key::WorkerAlive(scope.into()));
    }
    text.strip_suffix(":caps").map(|scope| Key::WorkerCapabilities(scope.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::LaneIndex;
    use alloc::string::ToString;
    use alloc::vec;
    use alloc::vec::Vec;
    use proptest::prelude::*;
    use uuid::Uuid;

    const EXAMPLES: &[&str] = &[
        "ff:exec:{fp:7}:{fp:7}:550e8400-e29b-41d4-a716-446655440000:core",
        "ff:exec:{fp:7}:{fp:7}:550e8400-e29b-41d4-a716-446655440000:lease:current",
        "ff:exec:{fp:7}:{fp:7}:550e8400-e29b-41d4-a716-446655440000:suspension:current:satisfied_set:signals",
        "ff:exec:{fp:7}:{fp:7}:550e8400-e29b-41d4-a716-446655440000:dep:123e4567-e89b-12d3-a456-426614174000",
        "ff:attempt:{fp:7}:{fp:7}:550e8400-e29b-41d4-a716-446655440000:0",
        "ff:attempt:{fp:7}:{fp:7}:550e8400-e29b-41d4-a716-446655440000:12:policy",
        "ff:stream:{fp:7}:{fp:7}:550e8400-e29b-41d4-a716-446655440000:3:meta",
        "ff:wp:{fp:7}:550e8400-e29b-41d4-a716-446655440000",
        "ff:wp:{fp:7}:550e8400-e29b-41d4-a716-446655440000:condition",
        "ff:signal:{fp:7}:550e8400-e29b-41d4-a716-446655440000:payload",
        "ff:sigdedup:{fp:7}:550e8400-e29b-41d4-a716-446655440000:key:with:colons",
        "ff:dedup:suspend:{fp:7}:{fp:7}:550e8400-e29b-41d4-a716-446655440000:once",
        "ff:idem:{fp:7}:tenant:order-1",
        "ff:claim:{fp:7}:550e8400-e29b-41d4-a716-446655440000",
        "ff:sec:{fp:7}:waitpoint_hmac",
        "ff:part:{fp:7}:signal_delivery",
        "ff:flow:{fp:7}:550e8400-e29b-41d4-a716-446655440000:pending_cancels",
        "ff:flow:{fp:7}:550e8400-e29b-41d4-a716-446655440000:edgegroup:{fp:7}:123e4567-e89b-12d3-a456-426614174000",
        "ff:idx:{fp:7}:lane:default:blocked:dependencies",
        "ff:idx:{fp:7}:lane:a:blocked:eligible",
        "ff:idx:{fp:7}:worker::leases",
        "ff:idx:{fp:7}:pending_cancel_groups",
        "ff:budget:{b:1}:550e8400-e29b-41d4-a716-446655440000:by_exec:index",
        "ff:budget:{b:1}:550e8400-e29b-41d4-a716-446655440000:by_exec:{fp:7}:123e4567-e89b-12d3-a456-426614174000",
        "ff:budget:{b:1}:550e8400-e29b-41d4-a716-446655440000:by_exec_period:{fp:7}:123e4567-e89b-12d3-a456-426614174000",
        "ff:usagededup:{b:1}:report-9",
        "ff:quota:{q:1}:550e8400-e29b-41d4-a716-446655440000:window:requests_per_window",
        "ff:quota:{q:1}:550e8400-e29b-41d4-a716-446655440000:admitted_set",
        "ff:config:partitions",
        "ff:idx:lanes",
        "ff:idx:lane_states",
        "ff:worker:tenant:w-1:alive",
        "ff:idx:tenant:workers",
        "ff:aside:{b:7}",
        "ff:noop:{fp:7}",
        "ff:lane:default:config",
    ];

    #[test]
    fn keys_of_the_contract_read_and_write_alike() {
        for text in EXAMPLES {
            assert_eq!(text.parse::<Key>().map(|key| key.to_string()), Ok(text.to_string()));
        }
    }

    #[test]
    fn strangers_are_no_keys() {
        for text in ["", "ff", "ff:", "ff:exec:{fp:7}:x:core", "ff:idx:{fp:7}:nothing", "user:1"] {
            assert!(text.parse::<Key>().is_err(), "{text}");
        }
    }

    fn built(partition: u16, bytes: [u8; 16], index: u32, lane: &str, words: &str) -> Vec<Key> {
        let uuid = Uuid::from_bytes(bytes);
        let id = ExecutionId::new(partition, uuid);
        let keys = Key::execution(&id);
        let tag = id.partition();
        let flow = Key::flow(tag, uuid.into());
        let (budget, quota) = (Partition::budget(partition), Partition::quota(partition));
        let n = AttemptIndex(index);
        let lane = lane.parse().unwrap();
        let mut all = vec![
            keys.core(),
            keys.member_map(),
            keys.dependency(uuid.into()),
            keys.attempt(n),
            keys.attempt_summary(n),
            keys.stream(n),
            keys.stream_meta(n),
            keys.suspend_dedup(words),
            Key::waitpoint(tag, uuid.into()),
            Key::waitpoint_signals(tag, uuid.into()),
            Key::signal(tag, uuid.into()),
            Key::SignalDedup(tag, uuid.into(), words.into()),
            Key::idempotency(tag, &Namespace::new(words), words),
            flow.core(),
            flow.edge(uuid.into()),
            flow.out_of(&id),
            flow.in_to(&id),
            flow.edge_group(&id),
            Key::index(tag).lease_expiry(),
            Key::index(tag).worker_leases(&crate::id::WorkerInstanceId::new(words)),
            Key::budget(budget, uuid.into()).ledger(&id),
            Key::budget(budget, uuid.into()).ledger_index(),
            Key::budget(budget, uuid.into()).ledger_period(&id),
            Key::ClaimNote(tag, uuid.into()),
            Key::quota(quota, uuid.into()).window(words),
            Key::quota(quota, uuid.into()).admitted(&id),
        ];
        all.extend(LaneIndex::ALL.iter().map(|&index| Key::index(tag).lane(&lane, index)));
        all
    }

    proptest! {
        #[test]
        fn built_keys_round_trip(
            partition: u16,
            bytes: [u8; 16],
            index: u32,
            lane in "[ -~]{1,64}",
            words in "\\PC{0,20}",
        ) {
            for key in built(partition, bytes, index, &lane, &words) {
                prop_assert_eq!(key.to_string().parse::<Key>(), Ok(key));
            }
        }

        #[test]
        fn no_text_breaks_the_reader(text in "(ff:)?[a-z]{0,8}:?(\\{fp:[0-9]{0,6}\\}:?){0,2}\\PC{0,60}") {
            let _ = text.parse::<Key>();
        }
    }
}
