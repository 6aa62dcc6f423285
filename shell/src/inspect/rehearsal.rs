//! What a change would come to: the very same calls, on a copy of what they look at.

use std::collections::BTreeSet;

use selvedge_core::audit::{Entry, Snapshot, Stored};
use selvedge_core::engine::Command;
use selvedge_core::id::{AttemptIndex, EdgeId, ExecutionId, FlowId, WaitpointId};
use selvedge_core::key::{AttemptPart, ExecutionPart, Key, StreamPart};

use super::fsck;
use crate::client::{Client, ClientError};
use crate::store::Store;

impl Client {
    /// A client of a copy, inside this process, of everything that decides what may be done to an
    /// execution: its records and what its flow says, and what stands under the keys of `also`. The
    /// same library judges there, by the same clock, and whatever is done there changes nothing
    /// here. Indexes and streams are not copied; nothing is decided by them.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn rehearsal(&self, id: &ExecutionId, also: &[Key]) -> Result<Self, ClientError> {
        let mut copy = Snapshot::new(self.store().server_time().await?);
        let near = also.iter().cloned().chain(own(id)).collect();
        self.read_into(&mut copy, near).await?;
        let far = self.named_by(&copy, id);
        self.read_into(&mut copy, far).await?;
        let edges = edges_of(&copy, id);
        self.read_into(&mut copy, edges).await?;
        let stage = Store::stage(copy.now())?;
        for (key, entry) in copy.iter() {
            for command in written(key, entry) {
                stage.command(command).await?;
            }
        }
        let client = Self::builder(stage).namespace(self.namespace().as_str());
        client.partitions(*self.partitions()).build().await
    }

    async fn read_into(&self, copy: &mut Snapshot, keys: Vec<Key>) -> Result<(), ClientError> {
        let names: Vec<Vec<u8>> = keys.iter().map(|key| key.to_string().into_bytes()).collect();
        fsck::read_keys(self, &names.iter().collect::<Vec<_>>(), copy).await
    }

    /// The records that an execution's own record names.
    fn named_by(&self, copy: &Snapshot, id: &ExecutionId) -> Vec<Key> {
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

/// The records of an execution that decide, and the keys that signed its tokens.
fn own(id: &ExecutionId) -> Vec<Key> {
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

/// The dependencies of an execution.
fn edges_of(copy: &Snapshot, id: &ExecutionId) -> Vec<Key> {
    let all = copy.set(&Key::execution(id).dependencies_all());
    let edges: BTreeSet<EdgeId> = all.iter().filter_map(|edge| edge.parse().ok()).collect();
    edges
        .into_iter()
        .map(|edge| Key::Execution(id.clone(), ExecutionPart::Dependency(edge)))
        .collect()
}

/// The commands that write a value again.
fn written(key: &Key, entry: &Entry) -> Vec<Command> {
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
        Command { reads: false, ..Command::read(name, key, &words) }
    };
    let mut commands: Vec<Command> = words.chunks(WORDS_AT_ONCE).map(write).collect();
    if let Some(at) = entry.expires_at {
        let at = at.0.to_string();
        let ends = Command::read("PEXPIREAT", key, &[at.as_bytes()]);
        commands.push(Command { reads: false, ..ends });
    }
    commands
}

/// Words of one command; pairs stay together.
const WORDS_AT_ONCE: usize = 1_000;
