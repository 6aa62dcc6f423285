//! Lists the workers in the worker registry.

use std::collections::BTreeSet;

use selvedge_core::client::WorkerEntry;
use selvedge_core::command::Command;
use selvedge_core::id::{Namespace, WorkerInstanceId};
use selvedge_core::key::Key;
use selvedge_core::time::ServerTime;
use selvedge_core::value::Value;

use crate::client::{Client, ClientError, fields, text_hash};

/// A worker in the worker registry.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerStatus {
    /// The id of the worker instance.
    pub instance: WorkerInstanceId,
    /// The name of the worker.
    pub worker: String,
    /// The lanes it serves, joined by commas.
    pub lanes: String,
    /// The kinds that it handles; none if it does not say, as older workers do not.
    pub kinds: Option<BTreeSet<String>>,
    /// Whether it runs executions of all namespaces.
    pub all_namespaces: bool,
    /// Its capabilities, joined by commas.
    pub capabilities: String,
    /// When it sent its last heartbeat.
    pub heartbeat_at: Option<ServerTime>,
    /// Whether its registration has not expired.
    pub alive: bool,
}

impl Client {
    /// The workers of the client's namespace and those of all namespaces, each sorted by instance
    /// id.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn workers(&self) -> Result<Vec<WorkerStatus>, ClientError> {
        self.workers_of(self.namespace()).await
    }

    /// The workers of a namespace and those of all namespaces.
    pub(crate) async fn workers_of(
        &self,
        namespace: &Namespace,
    ) -> Result<Vec<WorkerStatus>, ClientError> {
        let places = [namespace.clone(), WorkerEntry::everywhere()];
        let index =
            |place: &Namespace| Command::read("SMEMBERS", &Key::Workers(place.clone()), &[]);
        let indexes = self.read(places.iter().map(index).collect()).await?;
        let mut workers = Vec::new();
        for (place, names) in places.iter().zip(indexes) {
            let mut names = fields(names);
            names.sort();
            for names in names.chunks(WORKERS_PER_PIPELINE) {
                workers.extend(self.read_workers(place, names).await?);
            }
        }
        Ok(workers)
    }

    async fn read_workers(
        &self,
        namespace: &Namespace,
        names: &[String],
    ) -> Result<Vec<WorkerStatus>, ClientError> {
        let instances: Vec<WorkerInstanceId> = names.iter().map(WorkerInstanceId::new).collect();
        let reads = instances
            .iter()
            .flat_map(|instance| {
                [
                    Command::read("EXISTS", &Key::worker_alive(namespace, instance), &[]),
                    Command::read("HGETALL", &Key::worker_capabilities(namespace, instance), &[]),
                ]
            })
            .collect();
        let replies = self.read(reads).await?;
        let mut replies = replies.into_iter();
        let mut workers = Vec::new();
        for instance in instances {
            let alive = replies.next() == Some(Value::Int(1));
            let record = text_hash(replies.next().unwrap_or(Value::Nil));
            let field = |name: &str| record.get(name).cloned().unwrap_or_default();
            workers.push(WorkerStatus {
                instance,
                worker: field("worker_id"),
                lanes: field("lanes_csv"),
                kinds: record.get(WorkerEntry::KINDS).map(|kinds| WorkerEntry::read_kinds(kinds)),
                all_namespaces: *namespace == WorkerEntry::everywhere(),
                capabilities: field("caps_csv"),
                heartbeat_at: field("last_heartbeat_ms").parse().ok(),
                alive,
            });
        }
        Ok(workers)
    }
}

/// Workers read in one pipeline.
const WORKERS_PER_PIPELINE: usize = 500;
