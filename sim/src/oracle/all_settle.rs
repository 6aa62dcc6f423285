//! `AllSettle`

use std::collections::BTreeSet;

use selvedge_core::audit::{Execution, Snapshot};
use selvedge_core::id::ExecutionId;
use selvedge_core::key::{ExecutionPart, Key, PartitionIndex};
use selvedge_core::state::{LifecyclePhase, PublicState};

use super::scene::Seen;
use super::{Class, Findings, Judge, Oracle, Rest, Scene, View};
use crate::event::Event;
use crate::world::ledger::{Damage, Ledger};

pub(super) const ORACLE: Oracle = Oracle {
    name: "AllSettle",
    statement: "every execution with a capable worker ends, or waits for a signal that nobody sends",
    class: Class::Liveness,
    judge: || Box::new(AllSettle::default()),
};

#[derive(Default)]
struct AllSettle {
    /// When somebody ended last.
    last_end_ms: Option<u64>,
}

impl Judge for AllSettle {
    fn see(&mut self, event: &Event, scene: &Scene, _: &View<'_>, _: &mut Findings) {
        let ended = |one: &Option<Seen>| one.as_ref().is_some_and(Seen::is_terminal);
        if scene.executions.iter().any(|one| ended(&one.is) && !ended(&one.was)) {
            self.last_end_ms = Some(event.at_ms);
        }
    }

    fn rest(&mut self, _: Rest, view: &View<'_>, findings: &mut Findings) {
        // A large or slow world may need more time than it was given.
        let lately = view.now_ms.saturating_sub(view.config.bound.0 / LATELY);
        let how = match self.last_end_ms.filter(|at| *at >= lately) {
            Some(_) => "still, but others ended to the last: raise `bound`?",
            None => "and stays so",
        };
        for shard in view.shards {
            // What rings later is not waited for: the run is over.
            let waits = Waits { somebody_works: view.config.workers > 0, left_ms: 0 };
            for Unsettled { id, state, excuse } in unsettled(shard, view.ledger, waits) {
                findings.add_unless(view, id, format!("is {state} {how}"), excuse);
            }
        }
    }
}

/// Who ended within this part of the bound ended lately.
const LATELY: u64 = 2;

/// Somebody who has not ended, and does not wait for nobody.
pub(crate) struct Unsettled {
    pub(crate) id: ExecutionId,
    /// What it is instead.
    pub(crate) state: String,
    /// Why that cannot be helped: a record of it, or of somebody it waits for, was damaged.
    pub(crate) excuse: Option<String>,
}

/// What somebody can wait for in a run.
#[derive(Clone, Copy)]
pub(crate) struct Waits {
    /// Whether there are workers; where nobody works, all work waits.
    pub(crate) somebody_works: bool,
    /// How much time the run has left: what is due later does not come.
    pub(crate) left_ms: u64,
}

/// Who has not ended and does not wait for nobody.
pub(crate) fn unsettled(shard: &Snapshot, ledger: &Ledger, waits: Waits) -> Vec<Unsettled> {
    // This is asked every second of a run, in which most have ended: a word tells who has not.
    let ended = LifecyclePhase::Terminal.as_str();
    let open = shard.executions().filter(|one| one.core.text("lifecycle_phase") != ended);
    let open: Vec<(Execution<'_>, PublicState)> =
        open.filter_map(|one| one.vector().ok().map(|vector| (one, vector.public))).collect();
    let waiting = waiting_for_nobody(shard, &open, waits);
    let open = open.iter().map(|(one, _)| one).filter(|one| !waiting.contains(one.id));
    open.map(|open| Unsettled {
        id: open.id.clone(),
        state: open.core.text("public_state").to_owned(),
        excuse: excuse(shard, ledger, open.id),
    })
    .collect()
}

/// Executions that wait for a signal that nobody sends.
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

/// Whether a signal is all that it waits for: neither a timeout nor a deadline comes within the time
/// that is left.
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

/// Whether a time comes while the run goes on.
fn comes(shard: &Snapshot, left_ms: u64, at: i64) -> bool {
    at <= shard.now().0.saturating_add_unsigned(left_ms)
}

/// Executions that wait for a worker where there is none, for a signal without a timeout or
/// deadline, for the seal of their flow or for a replay of an upstream, and all that wait for one of
/// them.
fn waiting_for_nobody(
    shard: &Snapshot,
    open: &[(Execution<'_>, PublicState)],
    Waits { somebody_works, left_ms }: Waits,
) -> BTreeSet<ExecutionId> {
    let mut waiting: BTreeSet<ExecutionId> = open
        .iter()
        .filter(|(one, public)| {
            // Whoever began to submit a flow may be gone before its seal.
            let unsealed = !one.core.text("unsealed").is_empty();
            let unserved = !somebody_works && *public == PublicState::Waiting;
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

/// Whether an execution ends by itself within the time that is left.
fn has_alarm(shard: &Snapshot, id: &ExecutionId, left_ms: u64) -> bool {
    let alarms = [PartitionIndex::ExecutionDeadline, PartitionIndex::AttemptTimeout];
    alarms.into_iter().any(|alarm| {
        let at = shard.index(id.partition(), alarm).get(id.as_str());
        #[expect(clippy::cast_possible_truncation, reason = "times are whole and far below 2^53")]
        at.is_some_and(|at| comes(shard, left_ms, *at as i64))
    })
}

/// What damage done on purpose explains that somebody waits: to it, or to whom it waits for.
fn excuse(shard: &Snapshot, ledger: &Ledger, id: &ExecutionId) -> Option<String> {
    let mut seen = BTreeSet::new();
    let mut next = vec![id.clone()];
    while let Some(id) = next.pop() {
        if let Some(excuse) = ledger.damage_excuse(id.as_str(), Damage::Lasting) {
            return Some(excuse);
        }
        if seen.insert(id.clone()) {
            next.extend(open_edges(shard, &id).into_iter().map(|edge| edge.upstream));
        }
    }
    None
}

struct OpenEdge {
    upstream: ExecutionId,
    /// Whether it waits for another run of an upstream that has ended.
    outlived: bool,
}

/// The edges that somebody waits for.
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
