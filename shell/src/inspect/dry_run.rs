//! Dry runs: makes the same calls on an in-memory copy of the records they read.

use std::collections::BTreeSet;

use selvedge_core::audit::{Entry, Snapshot, Stored};
use selvedge_core::command::Command;
use selvedge_core::id::{AttemptIndex, EdgeId, ExecutionId, FlowId, WaitpointId};
use selvedge_core::key::{AttemptPart, ExecutionPart, Key, StreamPart};

use super::fsck;
use crate::client::{Client, ClientError, Signal, SignalTicket};
use crate::store::Store;

impl Client {
    /// Copies an execution to an in-memory store and returns a client for the copy. Calls on it run
    /// the same functions with the same clock, and change nothing in this store. Copied are the
    /// records of the execution and those of its flow that decide about it; not indexes and
    /// streams, which decide nothing.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn dry_run(&self, id: &ExecutionId) -> Result<Self, ClientError> {
        self.copy_with(id, &[]).await
    }

    /// [`Client::dry_run`] for a signal: also copies the waitpoint of the ticket, and what is
    /// stored about the signal's idempotency key.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn dry_run_signal(
        &self,
        ticket: &SignalTicket,
        signal: &Signal,
    ) -> Result<Self, ClientError> {
        let (partition, waitpoint) = (ticket.execution_id.partition(), ticket.waitpoint_id);
        let mut also = vec![
            Key::waitpoint(partition, waitpoint),
            Key::waitpoint_condition(partition, waitpoint),
        ];
        if let Some(key) = signal.key() {
            also.push(Key::SignalDedup(partition, waitpoint, key.to_owned()));
        }
        self.copy_with(&ticket.execution_id, &also).await
    }

    async fn copy_with(&self, id: &ExecutionId, also: &[Key]) -> Result<Self, ClientError> {
        let mut copy = Snapshot::new(self.store().server_time().await?);
        let near = also.iter().cloned().chain(decisive_keys(id)).collect();
        self.copy_keys(&mut copy, near).await?;
        let far = self.referenced_keys(&copy, id);
        self.copy_keys(&mut copy, far).await?;
        let edges = edge_keys(&copy, id);
        self.copy_keys(&mut copy, edges).await?;
        let store = Store::memory_at(copy.now())?;
        for (key, entry) in copy.iter() {
            for command in write_commands(key, entry) {
                store.command(command).await?;
            }
        }
        let client = Self::builder(store).namespace(self.namespace().as_str());
        client.partitions(*self.partitions()).build().await
    }

    async fn copy_keys(&self, copy: &mut Snapshot, keys: Vec<Key>) -> Result<(), ClientError> {
        let names: Vec<Vec<u8>> = keys.iter().map(|key| key.to_string().into_bytes()).collect();
        fsck::read_keys(self, &names.iter().collect::<Vec<_>>(), copy).await
    }

    /// The keys that the record of an execution refers to.
    fn referenced_keys(&self, copy: &Snapshot, id: &ExecutionId) -> Vec<Key> {
        let Some(execution) = copy.execution(id) else { return Vec::new() };
        let field = |name: &str| execution.core.text(name);
        let mut keys = Vec::new();
        if let Ok(index) = field("current_attempt_index").parse::<AttemptIndex>() {
            keys.push(Key::Attempt(id.clone(), index, AttemptPart::Record));
            keys.push(Key::Stream(id.clone(), index, StreamPart::Meta));
        }
        if let Ok(waitpoint) = field("current_waitpoint_id").parse::<WaitpointId>() {
            keys.push(Key::waitpoint(id.partition(), waitpoint));
            keys.push(Key::waitpoint_condition(id.partition(), waitpoint));
        }
        if let Ok(flow) = field("flow_id").parse::<FlowId>() {
            let flow = Key::flow(id.partition(), flow);
            keys.extend([flow.core(), flow.summary(), flow.edge_group(id), flow.in_to(id)]);
        }
        keys
    }
}

/// The keys of an execution that decide about calls on it, and the waitpoint secrets.
fn decisive_keys(id: &ExecutionId) -> Vec<Key> {
    let parts = [
        ExecutionPart::Core,
        ExecutionPart::Policy,
        ExecutionPart::Lease,
        ExecutionPart::Suspension,
        ExecutionPart::SatisfiedSet,
        ExecutionPart::SatisfiedSignals,
        ExecutionPart::MemberMap,
        ExecutionPart::Waitpoints,
        ExecutionPart::Signals,
        ExecutionPart::DependencyMeta,
        ExecutionPart::DependenciesUnresolved,
        ExecutionPart::DependenciesAll,
    ];
    let parts = parts.into_iter().map(|part| Key::Execution(id.clone(), part));
    parts.chain([Key::WaitpointSecrets(id.partition())]).collect()
}

/// The keys of the dependency edges of an execution.
fn edge_keys(copy: &Snapshot, id: &ExecutionId) -> Vec<Key> {
    let all = copy.set(&Key::execution(id).dependencies_all());
    let edges: BTreeSet<EdgeId> = all.iter().filter_map(|edge| edge.parse().ok()).collect();
    edges
        .into_iter()
        .map(|edge| Key::Execution(id.clone(), ExecutionPart::Dependency(edge)))
        .collect()
}

/// The commands that write a copied value.
fn write_commands(key: &Key, entry: &Entry) -> Vec<Command> {
    let (name, words): (&str, Vec<Vec<u8>>) = match &entry.stored {
        Stored::Text(text) => ("SET", vec![text.clone()]),
        Stored::Hash(fields) => {
            let pairs = fields.iter();
            ("HSET", pairs.flat_map(|(name, value)| [name.clone().into(), value.clone()]).collect())
        }
        Stored::Set(members) => {
            ("SADD", members.iter().map(|member| member.clone().into()).collect())
        }
        Stored::Zset(members) => {
            let pairs = members.iter();
            let words = pairs.flat_map(|(member, score)| {
                [score.to_string().into_bytes(), member.clone().into_bytes()]
            });
            ("ZADD", words.collect())
        }
        Stored::Stream(_) => return Vec::new(),
    };
    let write = |words: &[Vec<u8>]| {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        Command::write(name, key, &words)
    };
    let mut commands: Vec<Command> = words.chunks(WORDS_PER_COMMAND).map(write).collect();
    if let Some(at) = entry.expires_at {
        let at = at.0.to_string();
        commands.push(Command::write("PEXPIREAT", key, &[at.as_bytes()]));
    }
    commands
}

/// Most arguments of one command; even, so that pairs stay together.
const WORDS_PER_COMMAND: usize = 1_000;
