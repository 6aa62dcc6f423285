//! `AllSettle`, and which executions have not settled.

use std::collections::BTreeSet;

use selvedge_core::audit::{Execution, Snapshot};
use selvedge_core::id::ExecutionId;
use selvedge_core::key::{ExecutionPart, Key, PartitionIndex};
use selvedge_core::state::{LifecyclePhase, PublicState};

use super::changes::ExecutionState;
use super::{Changes, Checker, Class, Findings, Oracle, RunEnd, View};
use crate::event::Event;
use crate::world::commit_log::{CommitLog, Damage};

pub(super) const ORACLE: Oracle = Oracle {
    name: "AllSettle",
    statement: "every execution with a capable worker ends, or waits for a signal that is never sent",
    class: Class::Liveness,
    checker: || Box::new(AllSettle::default()),
};

#[derive(Default)]
struct AllSettle {
    /// When the last execution ended.
    last_end_ms: Option<u64>,
}

impl Checker for AllSettle {
    fn on_event(&mut self, event: &Event, changes: &Changes, _: &View<'_>, _: &mut Findings) {
        let ended =
            |one: &Option<ExecutionState>| one.as_ref().is_some_and(ExecutionState::is_terminal);
        if changes.executions.iter().any(|one| ended(&one.is) && !ended(&one.was)) {
            self.last_end_ms = Some(event.at_ms);
        }
    }

    fn on_end(&mut self, _: RunEnd, view: &View<'_>, findings: &mut Findings) {
        // A large or slow world may need more time.
        let lately = view.now_ms.saturating_sub(view.config.bound.0 / LATELY);
        let how = match self.last_end_ms.filter(|at| *at >= lately) {
            Some(_) => "but other executions ended recently: raise `bound`?",
            None => "and does not change",
        };
        for shard in view.shards {
            // The run is over: later timers do not matter.
            let waits = Waits { has_workers: view.config.workers > 0, left_ms: 0 };
            for Unsettled { id, state, excuse } in unsettled(shard, view.commit_log, waits) {
                findings.add_unless(view, id, format!("is {state} {how}"), excuse);
            }
        }
    }
}

/// An end within this fraction of the bound is recent.
const LATELY: u64 = 2;

/// An execution that has not ended and does not wait forever.
pub(crate) struct Unsettled {
    pub(crate) id: ExecutionId,
    /// Its state.
    pub(crate) state: String,
    /// The excuse, if one of its records or of an upstream's was damaged.
    pub(crate) excuse: Option<String>,
}

/// What executions can wait for.
#[derive(Clone, Copy)]
pub(crate) struct Waits {
    /// Whether there are workers; otherwise all work may wait.
    pub(crate) has_workers: bool,
    /// How much time the run has left: later timers do not matter.
    pub(crate) left_ms: u64,
}

/// All executions that have not ended and do not wait forever.
pub(crate) fn unsettled(shard: &Snapshot, commit_log: &CommitLog, waits: Waits) -> Vec<Unsettled> {
    // This runs every second of virtual time, so it filters by one field first.
    let ended = LifecyclePhase::Terminal.as_str();
    let open = shard.executions().filter(|one| one.core.text("lifecycle_phase") != ended);
    let open: Vec<(Execution<'_>, PublicState)> =
        open.filter_map(|one| one.vector().ok().map(|vector| (one, vector.public))).collect();
    let waiting = waiting_forever(shard, &open, waits);
    let open = open.iter().map(|(one, _)| one).filter(|one| !waiting.contains(one.id));
    open.map(|open| Unsettled {
        id: open.id.clone(),
        state: open.core.text("public_state").to_owned(),
        excuse: excuse(shard, commit_log, open.id),
    })
    .collect()
}

/// Executions that wait for a signal that is never sent.
pub(crate) fn unsignalled(shard: &Snapshot) -> Vec<ExecutionId> {
    which(shard, |id, public| waits_for_a_signal(shard, id, public, 0))
}

/// Executions that a worker could run.
pub(crate) fn runnable(shard: &Snapshot) -> Vec<ExecutionId> {
    which(shard, |_, public| public == PublicState::Waiting)
}

fn which(shard: &Snapshot, wanted: impl Fn(&ExecutionId, PublicState) -> bool) -> Vec<ExecutionId> {
    let public = |one: &Execution<'_>| one.vector().ok().map(|vector| vector.public);
    let found = shard.executions().filter(|one| public(one).is_some_and(|is| wanted(one.id, is)));
    found.map(|one| one.id.clone()).collect()
}

/// Whether it waits for a signal only: no timeout or deadline ends before the run does.
fn waits_for_a_signal(
    shard: &Snapshot,
    id: &ExecutionId,
    public: PublicState,
    left_ms: u64,
) -> bool {
    let timed = || {
        let suspension = shard.hash(&Key::execution(id).suspension());
        suspension.is_some_and(|record| {
            !record.text("timeout_at").is_empty()
                && comes(shard, left_ms, record.number("timeout_at"))
        })
    };
    public == PublicState::Suspended && !timed() && !has_alarm(shard, id, left_ms)
}

/// Whether a time is before the end of the run.
fn comes(shard: &Snapshot, left_ms: u64, at: i64) -> bool {
    at <= shard.now().0.saturating_add_unsigned(left_ms)
}

/// Executions that wait forever: for a worker in a plan without workers, for a signal without a
/// timeout or deadline, for the seal of their flow, for a replay of an upstream, or for another
/// such execution.
fn waiting_forever(
    shard: &Snapshot,
    open: &[(Execution<'_>, PublicState)],
    Waits { has_workers, left_ms }: Waits,
) -> BTreeSet<ExecutionId> {
    let mut waiting: BTreeSet<ExecutionId> = open
        .iter()
        .filter(|(one, public)| {
            // The submitter of a flow may have crashed before the seal.
            let unsealed = !one.core.text("unsealed").is_empty();
            let unserved = !has_workers && *public == PublicState::Waiting;
            unsealed
                || waits_for_a_signal(shard, one.id, *public, left_ms)
                || (unserved && !has_alarm(shard, one.id, left_ms))
        })
        .map(|(one, _)| one.id.clone())
        .collect();
    let blocked: Vec<(&ExecutionId, Vec<OpenEdge>)> = open
        .iter()
        .filter(|(_, public)| *public == PublicState::WaitingChildren)
        .map(|(child, _)| (child.id, open_edges(shard, child.id)))
        .collect();
    loop {
        let before = waiting.len();
        for (child, edges) in &blocked {
            if edges.iter().any(|edge| edge.outlived || waiting.contains(&edge.upstream)) {
                waiting.insert((*child).clone());
            }
        }
        if waiting.len() == before {
            return waiting;
        }
    }
}

/// Whether a timer ends the execution before the end of the run.
fn has_alarm(shard: &Snapshot, id: &ExecutionId, left_ms: u64) -> bool {
    let alarms = [PartitionIndex::ExecutionDeadline, PartitionIndex::AttemptTimeout];
    alarms.into_iter().any(|alarm| {
        let at = shard.index(id.partition(), alarm).get(id.as_str());
        #[expect(clippy::cast_possible_truncation, reason = "times are whole and far below 2^53")]
        at.is_some_and(|at| comes(shard, left_ms, *at as i64))
    })
}

/// The excuse for an execution that waits: damage of its records, or of an upstream's, or the loss
/// of an edge of either. An upstream whose record is gone is none: an engine resolves its edges.
fn excuse(shard: &Snapshot, commit_log: &CommitLog, id: &ExecutionId) -> Option<String> {
    let mut seen = BTreeSet::new();
    let mut next = vec![id.clone()];
    while let Some(id) = next.pop() {
        let damaged = commit_log.damage_excuse(id.as_str(), Damage::Lasting);
        if let Some(excuse) = damaged.or_else(|| lost_edge(shard, commit_log, &id)) {
            return Some(excuse);
        }
        if seen.insert(id.clone()) {
            let upstreams = open_edges(shard, &id).into_iter().map(|edge| edge.upstream);
            next.extend(upstreams.filter(|upstream| shard.execution(upstream).is_some()));
        }
    }
    None
}

/// The excuse for a child whose quorum is larger than the number of its edges, which are all
/// resolved: a commit that had added an edge was lost. Engines cannot know of that edge; a caller
/// that adds edges one by one may still add it.
fn lost_edge(shard: &Snapshot, commit_log: &CommitLog, child: &ExecutionId) -> Option<String> {
    let (_, group) = shard.group_of(&shard.execution(child)?)?;
    let group = group.filter(|group| group.text("policy_variant") == "quorum")?;
    if group.number("n") >= group.number("k") || !open_edges(shard, child).is_empty() {
        return None;
    }
    let edges = Key::execution(child).dependencies_all().to_string();
    commit_log.loss_excuse(edges.as_bytes(), u64::MAX)
}

struct OpenEdge {
    upstream: ExecutionId,
    /// Whether it waits for another run of an upstream that has ended.
    outlived: bool,
}

/// The edges that an execution waits for.
fn open_edges(shard: &Snapshot, child: &ExecutionId) -> Vec<OpenEdge> {
    shard
        .of_execution(child)
        .filter_map(|(part, entry)| {
            let (ExecutionPart::Dependency(_), Some(edge)) = (part, entry.fields()) else {
                return None;
            };
            if matches!(edge.text("state"), "satisfied" | "impossible") {
                return None;
            }
            let upstream: ExecutionId = edge.text("upstream_execution_id").parse().ok()?;
            let run = edge.text("outlived_run");
            let outlived = shard.execution(&upstream).is_some_and(|upstream| {
                let ended = upstream.vector().is_ok_and(|vector| vector.is_terminal());
                let replays = upstream.core.number("replay_count");
                ended && !run.is_empty() && run.parse() == Ok(replays)
            });
            Some(OpenEdge { upstream, outlived })
        })
        .collect()
}
