//! Asks why: with the reads of the command, and with who runs.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_core::audit::{Entry, Snapshot, Stored};
use selvedge_core::engine::EngineConfig;
use selvedge_core::explain::{
    EDGES_MAX, Engines, Explanation, Present, Read, WorkerOffer, explain, reads,
};
use selvedge_core::id::{ExecutionId, FlowId, Namespace};
use selvedge_core::key::{Key, PartitionIndex};
use selvedge_core::lane_state::LaneStates;
use selvedge_core::time::ServerTime;

use super::WhyIsTrue;
use crate::actor::worker::{offered, taken};
use crate::canary;
use crate::event::Actor;
use crate::oracle::View;

impl WhyIsTrue {
    /// What the command would say about an execution at this time of the server's clock.
    pub(super) fn explain(
        &self,
        id: &ExecutionId,
        now_ms: i64,
        config: &EngineConfig,
        view: &View<'_>,
    ) -> Option<Explanation> {
        let mut known = Snapshot::new(ServerTime(now_ms));
        let mut seen = BTreeSet::new();
        loop {
            let wanted = reads(&known, id, config.partitions);
            let wanted: Vec<Read> =
                wanted.into_iter().filter(|read| seen.insert(read.clone())).collect();
            if wanted.is_empty() {
                break;
            }
            for read in &wanted {
                answer(read, &mut known, view);
            }
        }
        let namespace = known.execution(id)?.core.text("namespace").to_owned();
        let namespace = Namespace::new(namespace);
        let offers = self.offers(&namespace, view);
        let workers = [(namespace, offers)].into();
        let engines = self.engines(now_ms, view);
        let why = explain(
            &known,
            id,
            Present { config, engines, lanes: &LaneStates::default(), workers: &workers },
        )?;
        Some(canary::change_answer_of_why(view.bug, why))
    }

    fn engines(&self, now_ms: i64, view: &View<'_>) -> Engines {
        let alive = self.up_since.keys().filter(|one| matches!(one, Actor::Engine(_))).count();
        let ago_ms = (view.now_ms - self.engine_died_ms).cast_signed();
        if alive > 0 {
            Engines::Alive(alive)
        } else {
            Engines::GoneSince(ServerTime(now_ms - ago_ms))
        }
    }

    fn offers(&self, namespace: &Namespace, view: &View<'_>) -> Vec<WorkerOffer> {
        let lanes: BTreeSet<String> =
            (0..view.config.lanes.max(1)).map(|at| crate::actor::lane(at).to_string()).collect();
        let workers = self.up_since.keys().filter_map(|one| match one {
            Actor::Worker(number) => Some(*number),
            Actor::World
            | Actor::Engine(_)
            | Actor::Caller(_)
            | Actor::Signaller(_)
            | Actor::Foreign(_)
            | Actor::Node(_) => None,
        });
        let offer = |number| {
            let taken = taken(number, view.config);
            taken.namespace().is_none_or(|own| own == namespace).then(|| WorkerOffer {
                lanes: lanes.clone(),
                capabilities: offered(number).to_string(),
                kinds: taken.kinds().cloned(),
            })
        };
        workers.filter_map(offer).collect()
    }
}

/// Adds to `known` what the server would answer.
fn answer(read: &Read, known: &mut Snapshot, view: &View<'_>) {
    let stored = |key: &Key| stored(key, view);
    let (key, found) = match read {
        Read::Hash(key) | Read::Text(key) => (key, stored(key).cloned()),
        Read::Score(key, member) => {
            let mut scores = known.zset(key).clone();
            if let Some(Stored::Zset(all)) = stored(key) {
                scores
                    .extend(all.get_key_value(member).map(|(name, score)| (name.clone(), *score)));
            }
            (key, Some(Stored::Zset(scores)))
        }
        Read::FromEnd(key, rank) => {
            let mut all: Vec<(String, f64)> = Vec::new();
            if let Some(Stored::Zset(members)) = stored(key) {
                all.extend(members.iter().map(|(id, at)| (id.clone(), *at)));
            }
            all.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| b.0.cmp(&a.0)));
            let at = usize::try_from(rank.saturating_sub(1)).unwrap_or(usize::MAX);
            (
                key,
                Some(Stored::Zset(all.into_iter().nth(at).into_iter().collect::<BTreeMap<_, _>>())),
            )
        }
        Read::Members(key) => {
            let mut members = BTreeSet::new();
            if let Some(Stored::Set(all)) = stored(key) {
                members.extend(all.iter().take(EDGES_MAX).cloned());
            }
            (key, Some(Stored::Set(members)))
        }
        Read::Member(key, member) => {
            let mut members = known.set(key).clone();
            if let Some(Stored::Set(all)) = stored(key) {
                members.extend(all.get(member).cloned());
            }
            (key, Some(Stored::Set(members)))
        }
    };
    let has_any = |stored: &Stored| match stored {
        Stored::Set(all) => !all.is_empty(),
        Stored::Zset(all) => !all.is_empty(),
        Stored::Hash(_) | Stored::Text(_) | Stored::Stream(_) => true,
    };
    if let Some(stored) = found.filter(has_any) {
        known.put(key.to_string().as_bytes(), Some(Entry { stored, expires_at: None }));
    }
}

fn stored<'a>(key: &Key, view: &View<'a>) -> Option<&'a Stored> {
    let shard = (view.owners)(key.slot()).min(view.shards.len() - 1);
    view.shards[shard].entry(key).map(|entry| &entry.stored)
}

/// Whether an engine is about to cancel it with its flow.
pub(super) fn is_cancelled(id: &ExecutionId, view: &View<'_>) -> bool {
    let snapshot = view.of(id.partition());
    let flow =
        snapshot.execution(id).and_then(|one| one.core.text("flow_id").parse::<FlowId>().ok());
    flow.is_some_and(|flow| {
        let pending = Key::flow(id.partition(), flow).pending_cancels();
        let due = snapshot.index(id.partition(), PartitionIndex::CancelBacklog);
        due.contains_key(&flow.to_string()) && snapshot.set(&pending).contains(id.as_str())
    })
}
