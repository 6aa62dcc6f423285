//! Who is there to work.

use selvedge_core::engine::Command;
use selvedge_core::id::WorkerInstanceId;
use selvedge_core::key::Key;
use selvedge_core::time::ServerTime;
use selvedge_core::value::Value;

use crate::client::{Client, ClientError, fields, text_hash};

/// A worker of the registry.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerSeen {
    /// The process.
    pub instance: WorkerInstanceId,
    /// The service that it belongs to.
    pub worker: String,
    /// The lanes that it serves, joined by commas.
    pub lanes: String,
    /// What it can do, joined by commas.
    pub capabilities: String,
    /// When it last said that it is there.
    pub heartbeat_at: Option<ServerTime>,
    /// Whether that was recent enough.
    pub alive: bool,
}

impl Client {
    /// The workers of the client's namespace, in order of their names.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn workers(&self) -> Result<Vec<WorkerSeen>, ClientError> {
        let key = Key::Workers(self.namespace().clone());
        let mut names = fields(self.read_one(Command::read("SMEMBERS", &key, &[])).await?);
        names.sort();
        let mut workers = Vec::new();
        for names in names.chunks(WORKERS_AT_ONCE) {
            workers.extend(self.look_at(names).await?);
        }
        Ok(workers)
    }

    async fn look_at(&self, names: &[String]) -> Result<Vec<WorkerSeen>, ClientError> {
        let instances: Vec<WorkerInstanceId> = names.iter().map(WorkerInstanceId::new).collect();
        let reads = instances
            .iter()
            .flat_map(|instance| {
                let namespace = self.namespace();
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
            workers.push(WorkerSeen {
                instance,
                worker: field("worker_id"),
                lanes: field("lanes_csv"),
                capabilities: field("caps_csv"),
                heartbeat_at: field("last_heartbeat_ms").parse().ok(),
                alive,
            });
        }
        Ok(workers)
    }
}

/// Workers that are looked at in one pipeline.
const WORKERS_AT_ONCE: usize = 500;
