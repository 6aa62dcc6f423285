use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::envelope::broken;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::{AttemptIndex, EdgeId, ExecutionId, FlowId, LaneId};
use crate::key::{Key, LaneIndex};
use crate::state::TerminalOutcome;
use crate::time::ServerTime;
use crate::value::Value;

/// Resolves one edge of a child by the outcome that the caller names.
///
/// The store does not check this; [`ResolveOutgoing`](super::ResolveOutgoing) reads
/// the upstream's own record instead.
#[derive(Clone, Debug)]
pub struct ResolveDependency {
    /// The flow.
    pub flow_id: FlowId,
    /// The edge.
    pub edge_id: EdgeId,
    /// The upstream execution.
    pub upstream: ExecutionId,
    /// The downstream execution.
    pub downstream: ExecutionId,
    /// The child's lane.
    pub lane_id: LaneId,
    /// The attempt that the child is at, as its record says.
    pub attempt_index: Option<AttemptIndex>,
    /// How the upstream ended.
    pub outcome: TerminalOutcome,
    /// When.
    pub now: ServerTime,
}

/// The effect of an upstream's end on a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// The edge, or with it the group, is met.
    Satisfied {
        /// Whether the upstream's result became the child's payload.
        data_injected: bool,
    },
    /// The child's dependencies cannot be met any more.
    Impossible {
        /// Whether this call ended the child; its own children follow.
        child_skipped: bool,
    },
    /// The group is not decided yet.
    Pending,
    /// The group had been decided before.
    AlreadyFired,
    /// The edge had been resolved before.
    AlreadyResolved,
}

impl Function for ResolveDependency {
    const NAME: &'static str = "ff_resolve_dependency";
    const KEYS: &'static [&'static str] = &[
        "exec_core",
        "deps_meta",
        "unresolved",
        "dep",
        "eligible",
        "terminal",
        "blocked",
        "attempt",
        "stream_meta",
        "payload",
        "upstream_result",
        "edgegroup",
        "incoming",
        "pending_cancel_groups",
    ];
    const ARGS: &'static [&'static str] =
        &["edge_id", "upstream_outcome", "now_ms", "flow_id", "downstream_eid"];

    type Reply = Resolution;

    fn keys(&self) -> Vec<Key> {
        let partition = self.downstream.partition();
        let child = Key::execution(&self.downstream);
        let index = Key::index(partition);
        let flow = Key::flow(partition, self.flow_id);
        let attempt = self.attempt_index.unwrap_or(AttemptIndex(0));
        alloc::vec![
            child.core(),
            child.dependency_meta(),
            child.dependencies_unresolved(),
            child.dependency(self.edge_id),
            index.lane(&self.lane_id, LaneIndex::Eligible),
            index.lane(&self.lane_id, LaneIndex::Terminal),
            index.lane(&self.lane_id, LaneIndex::BlockedDependencies),
            child.attempt(attempt),
            child.stream_meta(attempt),
            child.payload(),
            Key::execution(&self.upstream).result(),
            flow.edge_group(&self.downstream),
            flow.in_to(&self.downstream),
            index.pending_cancel_groups(),
        ]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![self.edge_id, self.outcome.as_str(), self.now, self.flow_id, self.downstream]
    }

    fn read(envelope: Envelope) -> Result<Resolution, CallError> {
        let mut fields = envelope.ok()?;
        let (word, mark) = (fields.text()?, fields.text()?);
        match (word.as_str(), mark.as_str()) {
            ("satisfied", "" | "data_injected") => {
                Ok(Resolution::Satisfied { data_injected: !mark.is_empty() })
            }
            ("impossible", "" | "child_skipped") => {
                Ok(Resolution::Impossible { child_skipped: !mark.is_empty() })
            }
            ("pending", "") => Ok(Resolution::Pending),
            ("already_fired", "") => Ok(Resolution::AlreadyFired),
            ("already_resolved", "") => Ok(Resolution::AlreadyResolved),
            _ => Err(broken("a resolution", Value::Bulk(word.into_bytes()))),
        }
    }
}
