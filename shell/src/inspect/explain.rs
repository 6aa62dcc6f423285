//! Explains why executions are in their states, from what the store holds and who runs.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::try_join;
use selvedge_core::audit::Snapshot;
use selvedge_core::command::Command;
use selvedge_core::engine::EngineConfig;
use selvedge_core::explain::{self, Engines, Explanation, Present, Read, WorkerOffer};
use selvedge_core::id::{ExecutionId, LaneId, Namespace};
use selvedge_core::key::{Key, LaneIndex};
use selvedge_core::reply;
use selvedge_core::state::StateVector;
use selvedge_core::time::ServerTime;
use selvedge_core::value::Value;

use crate::client::{Client, ClientError, fields as texts};
use crate::engine::registration;

impl Client {
    /// Explains the state of an execution: what it waits for, what can change that, and by when.
    /// The engine's configuration gives the intervals of its scanners. At most six round trips,
    /// whatever the execution: records, what they name, twice what that names, and its place in
    /// the index; workers are read meanwhile, 500 in a round trip.
    ///
    /// # Errors
    /// [`ClientError::NotFound`] when it does not exist; otherwise when the store does not answer.
    pub async fn explain(
        &self,
        id: &ExecutionId,
        config: &EngineConfig,
    ) -> Result<Explanation, ClientError> {
        let mut explained = self.explain_many(std::slice::from_ref(id), config).await?;
        let not_found = || ClientError::NotFound { kind: "execution", id: id.to_string() };
        explained.pop().ok_or_else(not_found)
    }

    /// The same for many executions, in their order; those without a record are left out. At most
    /// six round trips for every hundred executions.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn explain_many(
        &self,
        ids: &[ExecutionId],
        config: &EngineConfig,
    ) -> Result<Vec<Explanation>, ClientError> {
        let mut config = config.clone();
        config.partitions = *self.partitions();
        let lanes = self.lane_states().await?;
        let mut workers = BTreeMap::new();
        let mut explained = Vec::new();
        for ids in ids.chunks(EXECUTIONS_PER_PIPELINE) {
            let (mut records, engines) = self.read_records(ids).await?;
            let unknown = records.namespaces(ids, &workers);
            let (more, ()) =
                try_join(self.offers(unknown), self.read_rest(&mut records, ids)).await?;
            workers.extend(more);
            let missing = self.missing_from(&records.snapshot, ids).await?;
            let present = Present { config: &config, engines, lanes: &lanes, workers: &workers };
            explained.extend(ids.iter().filter_map(|id| match missing.get(id) {
                None => explain::explain(&records.snapshot, id, present),
                Some((lane, index)) => {
                    explain::explain_missing(&records.snapshot, id, present, (lane, *index))
                }
            }));
        }
        Ok(explained)
    }

    /// The time, the engines, and what is named by the ids alone, in one round trip.
    async fn read_records(&self, ids: &[ExecutionId]) -> Result<(Records, Engines), ClientError> {
        let slot = ids.first().map_or(0, |id| id.partition().slot());
        let mut records = Records::default();
        let reads = records.wanted(ids, self);
        let mut batch = vec![Command::time(slot), Command::read("HGETALL", &Key::Engines, &[])];
        batch.extend(reads.iter().map(Read::command));
        let mut replies = self.read(batch).await?.into_iter();
        let now = reply::time(&replies.next().unwrap_or(Value::Nil)).unwrap_or(ServerTime(0));
        let engines = texts(replies.next().unwrap_or(Value::Nil));
        records.snapshot = Snapshot::new(now);
        records.note(&reads, replies);
        Ok((records, registration::presence(now, engines)))
    }

    /// Everything else, round by round.
    async fn read_rest(
        &self,
        records: &mut Records,
        ids: &[ExecutionId],
    ) -> Result<(), ClientError> {
        loop {
            let reads = records.wanted(ids, self);
            if reads.is_empty() {
                return Ok(());
            }
            let replies = self.read(reads.iter().map(Read::command).collect()).await?;
            records.note(&reads, replies.into_iter());
        }
    }

    /// What the workers of these namespaces offer that are alive.
    async fn offers(
        &self,
        namespaces: BTreeSet<Namespace>,
    ) -> Result<BTreeMap<Namespace, Vec<WorkerOffer>>, ClientError> {
        let mut offers = BTreeMap::new();
        for namespace in namespaces {
            let workers = self.workers_of(&namespace).await?;
            let alive = workers.into_iter().filter(|worker| worker.alive);
            let offer = alive.map(|worker| WorkerOffer {
                lanes: worker.lanes.split(',').map(str::to_owned).collect(),
                capabilities: worker.capabilities,
                kinds: worker.kinds,
            });
            offers.insert(namespace, offer.collect());
        }
        Ok(offers)
    }

    /// The lane indexes that executions should be in and are not. Each record is read before and
    /// after the index, so that a concurrent move is not taken for a loss.
    async fn missing_from(
        &self,
        snapshot: &Snapshot,
        ids: &[ExecutionId],
    ) -> Result<BTreeMap<ExecutionId, (LaneId, LaneIndex)>, ClientError> {
        let mut homes = Vec::new();
        let mut batch = Vec::new();
        for id in ids {
            let Some(execution) = snapshot.execution(id) else { continue };
            let lane = execution.core.text("lane_id").parse::<LaneId>();
            let home = execution.vector().ok().and_then(|vector| vector.home());
            let (Ok(lane), Some(index)) = (lane, home) else { continue };
            let fields = StateVector::FIELDS.map(str::as_bytes);
            let record = Command::read("HMGET", &Key::execution(id).core(), &fields);
            let place = Key::index(id.partition()).lane(&lane, index);
            let entry = Command::read("ZSCORE", &place, &[id.as_str().as_bytes()]);
            batch.extend([record.clone(), entry, record]);
            homes.push((execution, (lane, index)));
        }
        let replies = self.read(batch).await?;
        let mut missing = BTreeMap::new();
        for ((execution, home), replies) in homes.into_iter().zip(replies.chunks_exact(3)) {
            let [before, Value::Nil, after] = replies else { continue };
            let known = StateVector::FIELDS.map(|field| execution.core.text(field).to_owned());
            if before == after && texts(after.clone()) == known {
                missing.insert(execution.id.clone(), home);
            }
        }
        Ok(missing)
    }
}

/// What was read for some explanations.
struct Records {
    snapshot: Snapshot,
    seen: BTreeSet<Read>,
}

impl Default for Records {
    fn default() -> Self {
        Self { snapshot: Snapshot::new(ServerTime(0)), seen: BTreeSet::new() }
    }
}

impl Records {
    /// What is still to be read.
    fn wanted(&mut self, ids: &[ExecutionId], client: &Client) -> Vec<Read> {
        let reads = ids
            .iter()
            .flat_map(|id| explain::reads(&self.snapshot, id, *client.partitions()))
            .collect::<Vec<_>>();
        reads.into_iter().filter(|read| self.seen.insert(read.clone())).collect()
    }

    fn note(&mut self, reads: &[Read], replies: impl Iterator<Item = Value>) {
        for (read, reply) in reads.iter().zip(replies) {
            read.note(&mut self.snapshot, reply);
        }
    }

    /// The namespaces of these executions whose workers are not known yet.
    fn namespaces<T>(
        &self,
        ids: &[ExecutionId],
        known: &BTreeMap<Namespace, T>,
    ) -> BTreeSet<Namespace> {
        let named = ids.iter().filter_map(|id| self.snapshot.execution(id));
        let named = named.map(|execution| Namespace::new(execution.core.text("namespace")));
        named.filter(|namespace| !known.contains_key(namespace)).collect()
    }
}

/// Executions read in one pipeline.
const EXECUTIONS_PER_PIPELINE: usize = 100;
