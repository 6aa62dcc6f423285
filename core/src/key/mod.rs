//! Every key of the keyspace: built from typed ids, written as text, and read back.
//!
//! ```
//! use selvedge_core::key::Key;
//!
//! let id = "{fp:7}:550e8400-e29b-41d4-a716-446655440000".parse()?;
//! let core = Key::execution(&id).core();
//! assert_eq!(core.to_string(), "ff:exec:{fp:7}:{fp:7}:550e8400-e29b-41d4-a716-446655440000:core");
//! assert_eq!(core.to_string().parse::<Key>()?, core);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod build;
mod part;
mod read;

use alloc::string::{String, ToString};
use core::fmt;

pub use build::{BudgetKeys, ExecutionKeys, FlowKeys, IndexKeys, QuotaKeys};
pub use part::{
    AttemptPart, BudgetPart, ExecutionPart, FlowPart, IndexPart, LaneIndex, PartitionIndex,
    QuotaPart, SignalPart, StreamPart, WaitpointPart,
};
pub use read::InvalidKey;

use crate::id::{
    AttemptIndex, BudgetId, ExecutionId, FlowId, LeaseId, Namespace, QuotaPolicyId, SignalId,
    WaitpointId, WorkerInstanceId,
};
use crate::partition::Partition;

/// One key. Its text is what stands on the wire.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// `ff:exec:<tag>:<eid>:…`: an execution's own records.
    Execution(ExecutionId, ExecutionPart),
    /// `ff:attempt:<tag>:<eid>:<n>…`: one attempt.
    Attempt(ExecutionId, AttemptIndex, AttemptPart),
    /// `ff:stream:<tag>:<eid>:<n>…`: the output of one attempt.
    Stream(ExecutionId, AttemptIndex, StreamPart),
    /// `ff:wp:<tag>:<wp>…`: a waitpoint.
    Waitpoint(Partition, WaitpointId, WaitpointPart),
    /// `ff:signal:<tag>:<sig>…`: a signal.
    Signal(Partition, SignalId, SignalPart),
    /// `ff:sigdedup:<tag>:<wp>:<idempotency key>`: a signal that was accepted once.
    SignalDedup(Partition, WaitpointId, String),
    /// `ff:dedup:suspend:<tag>:<eid>:<idempotency key>`: the outcome of a suspend.
    SuspendDedup(ExecutionId, String),
    /// `ff:idem:<tag>:<namespace>:<idempotency key>`; the two texts cannot be told apart again.
    Idempotency(Partition, String),
    /// `ff:claim:<tag>:<lease>`: which execution a claim with this lease id got.
    ClaimNote(Partition, LeaseId),
    /// `ff:sec:<tag>:waitpoint_hmac`: the signing secrets.
    WaitpointSecrets(Partition),
    /// `ff:part:<tag>:signal_delivery`: a partition's stream of delivered signals.
    SignalDelivery(Partition),
    /// `ff:part:<tag>:lease_history`: read by clients, written by no function.
    LeaseHistory(Partition),
    /// `ff:flow:<tag>:<fid>:…`: a flow's own records.
    Flow(Partition, FlowId, FlowPart),
    /// `ff:idx:<tag>:…`: an index of a partition.
    Index(Partition, IndexPart),
    /// `ff:budget:<tag>:<bid>…`: a budget.
    Budget(Partition, BudgetId, BudgetPart),
    /// `ff:usagededup:<tag>:<dedup id>`: a usage report that was counted once.
    UsageDedup(Partition, String),
    /// `ff:quota:<tag>:<qid>…`: a quota policy.
    Quota(Partition, QuotaPolicyId, QuotaPart),
    /// `ff:config:partitions`: the partition counts of the deployment.
    PartitionCounts,
    /// `ff:idx:lanes`: the registry of lanes.
    Lanes,
    /// `ff:idx:lane_states`: the lanes that an operator paused or drains. Ours, not the contract's.
    LaneStates,
    /// `ff:idx:engines`: the engines that run, with what they say about themselves. Ours, not the
    /// contract's.
    Engines,
    /// `ff:worker:<namespace>:<instance>:alive`; the two texts cannot be told apart again.
    WorkerAlive(String),
    /// `ff:worker:<namespace>:<instance>:caps`.
    WorkerCapabilities(String),
    /// `ff:idx:<namespace>:workers`: the worker instances of a namespace.
    Workers(Namespace),
    /// `ff:aside:<tag>`: index entries set aside for an operator. Ours, not the contract's.
    Aside(Partition),
    /// `ff:noop:<tag>`: stands in for a KEYS position that is not used.
    Noop(Partition),
    /// A name that the contract reserves and nobody reads or writes.
    Reserved(String),
}

impl Key {
    /// Keys of an execution.
    #[must_use]
    pub const fn execution(id: &ExecutionId) -> ExecutionKeys<'_> {
        ExecutionKeys::new(id)
    }

    /// Keys of a flow; its partition follows from the deployment's counts.
    #[must_use]
    pub const fn flow(partition: Partition, id: FlowId) -> FlowKeys {
        FlowKeys::new(partition, id)
    }

    /// Indexes of a partition.
    #[must_use]
    pub const fn index(partition: Partition) -> IndexKeys {
        IndexKeys::new(partition)
    }

    /// Keys of a budget.
    #[must_use]
    pub const fn budget(partition: Partition, id: BudgetId) -> BudgetKeys {
        BudgetKeys::new(partition, id)
    }

    /// Keys of a quota policy.
    #[must_use]
    pub const fn quota(partition: Partition, id: QuotaPolicyId) -> QuotaKeys {
        QuotaKeys::new(partition, id)
    }

    /// The record of a waitpoint.
    #[must_use]
    pub const fn waitpoint(partition: Partition, id: WaitpointId) -> Self {
        Self::Waitpoint(partition, id, WaitpointPart::Record)
    }

    /// The resume condition of a waitpoint.
    #[must_use]
    pub const fn waitpoint_condition(partition: Partition, id: WaitpointId) -> Self {
        Self::Waitpoint(partition, id, WaitpointPart::Condition)
    }

    /// The stream of signals that a waitpoint received.
    #[must_use]
    pub const fn waitpoint_signals(partition: Partition, id: WaitpointId) -> Self {
        Self::Waitpoint(partition, id, WaitpointPart::Signals)
    }

    /// The record of a signal.
    #[must_use]
    pub const fn signal(partition: Partition, id: SignalId) -> Self {
        Self::Signal(partition, id, SignalPart::Record)
    }

    /// The payload of a signal.
    #[must_use]
    pub const fn signal_payload(partition: Partition, id: SignalId) -> Self {
        Self::Signal(partition, id, SignalPart::Payload)
    }

    /// Remembers which execution a caller's idempotency key made.
    #[must_use]
    pub fn idempotency(partition: Partition, namespace: &Namespace, key: &str) -> Self {
        Self::Idempotency(partition, alloc::format!("{namespace}:{key}"))
    }

    /// Says that a worker instance is alive.
    #[must_use]
    pub fn worker_alive(namespace: &Namespace, instance: &WorkerInstanceId) -> Self {
        Self::WorkerAlive(alloc::format!("{namespace}:{instance}"))
    }

    /// What a worker instance can do.
    #[must_use]
    pub fn worker_capabilities(namespace: &Namespace, instance: &WorkerInstanceId) -> Self {
        Self::WorkerCapabilities(alloc::format!("{namespace}:{instance}"))
    }

    /// The cluster slot of the key.
    #[must_use]
    pub fn slot(&self) -> u16 {
        crate::partition::slot(self.to_string().as_bytes())
    }
}

/// Writes `start`, a partition, and texts behind it.
fn spell(f: &mut fmt::Formatter<'_>, start: &str, tag: Partition, texts: &[&str]) -> fmt::Result {
    f.write_str(start)?;
    fmt::Display::fmt(&tag, f)?;
    texts.iter().try_for_each(|text| f.write_str(text))
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The keys of most calls are made of whole texts: that costs a third of formatting.
            Self::Execution(id, part) => {
                spell(f, "ff:exec:", id.partition(), &[":", id.as_str(), ":"])?;
                part.fmt(f)
            }
            Self::Attempt(id, n, part) => {
                spell(f, "ff:attempt:", id.partition(), &[":", id.as_str(), ":"])?;
                write!(f, "{n}{part}")
            }
            Self::Stream(id, n, part) => {
                spell(f, "ff:stream:", id.partition(), &[":", id.as_str(), ":"])?;
                write!(f, "{n}{part}")
            }
            Self::Index(tag, IndexPart::Lane(lane, index)) => {
                spell(f, "ff:idx:", *tag, &[":lane:", lane.as_str(), ":", index.as_str()])
            }
            Self::Index(tag, IndexPart::Whole(index)) => {
                spell(f, "ff:idx:", *tag, &[":", index.as_str()])
            }
            Self::Waitpoint(tag, id, part) => write!(f, "ff:wp:{tag}:{id}{part}"),
            Self::Signal(tag, id, part) => write!(f, "ff:signal:{tag}:{id}{part}"),
            Self::SignalDedup(tag, waitpoint, key) => {
                write!(f, "ff:sigdedup:{tag}:{waitpoint}:{key}")
            }
            Self::SuspendDedup(id, key) => {
                write!(f, "ff:dedup:suspend:{}:{id}:{key}", id.partition())
            }
            Self::Idempotency(tag, scope) => write!(f, "ff:idem:{tag}:{scope}"),
            Self::ClaimNote(tag, lease) => write!(f, "ff:claim:{tag}:{lease}"),
            Self::WaitpointSecrets(tag) => write!(f, "ff:sec:{tag}:waitpoint_hmac"),
            Self::SignalDelivery(tag) => write!(f, "ff:part:{tag}:signal_delivery"),
            Self::LeaseHistory(tag) => write!(f, "ff:part:{tag}:lease_history"),
            Self::Flow(tag, id, part) => write!(f, "ff:flow:{tag}:{id}:{part}"),
            Self::Index(tag, part) => write!(f, "ff:idx:{tag}:{part}"),
            Self::Budget(tag, id, part) => write!(f, "ff:budget:{tag}:{id}{part}"),
            Self::UsageDedup(tag, dedup) => write!(f, "ff:usagededup:{tag}:{dedup}"),
            Self::Quota(tag, id, part) => write!(f, "ff:quota:{tag}:{id}{part}"),
            Self::PartitionCounts => f.write_str("ff:config:partitions"),
            Self::Lanes => f.write_str("ff:idx:lanes"),
            Self::LaneStates => f.write_str("ff:idx:lane_states"),
            Self::Engines => f.write_str("ff:idx:engines"),
            Self::WorkerAlive(scope) => write!(f, "ff:worker:{scope}:alive"),
            Self::WorkerCapabilities(scope) => write!(f, "ff:worker:{scope}:caps"),
            Self::Workers(namespace) => write!(f, "ff:idx:{namespace}:workers"),
            Self::Aside(tag) => write!(f, "ff:aside:{tag}"),
            Self::Noop(tag) => write!(f, "ff:noop:{tag}"),
            Self::Reserved(text) => f.write_str(text),
        }
    }
}
