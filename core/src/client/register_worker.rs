//! Registers a worker instance, keeps its entry alive, and removes it.
//!
//! The contract's functions for this use keys of different slots, which a cluster refuses. So these
//! procedures do the same key by key: each registration also looks at a few other entries of the
//! index, and removes those that have expired, so that the index does not grow with every worker
//! that dies. If the owner of such an entry registers again at that moment, its next registration
//! restores it.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use super::{Failure, Procedure, Replies, Step};
use crate::capability::Capabilities;
use crate::command::Command;
use crate::id::{LaneId, Namespace, WorkerId, WorkerInstanceId};
use crate::key::Key;
use crate::reply::{fields, time};
use crate::time::ServerTime;
use crate::value::Value;

/// What the registry holds about a worker instance.
#[derive(Clone, Debug)]
pub struct WorkerEntry {
    /// Where it is registered: the namespace that it works in, [`WorkerEntry::everywhere`] if in
    /// all.
    pub namespace: Namespace,
    /// The instance.
    pub instance: WorkerInstanceId,
    /// The worker that it is an instance of.
    pub worker: WorkerId,
    /// Its lanes.
    pub lanes: Vec<LaneId>,
    /// Its capabilities.
    pub capabilities: Capabilities,
    /// The kinds that it handles; none if it does not say.
    pub kinds: Option<BTreeSet<String>>,
    /// How long its leases last.
    pub lease_ttl: Duration,
}

impl WorkerEntry {
    /// The field of a record that holds the kinds, one in a line. Names have no control characters.
    pub const KINDS: &str = "kinds";

    /// Where workers of all namespaces are registered: no namespace has an empty name.
    #[must_use]
    pub fn everywhere() -> Namespace {
        Namespace::new("")
    }

    /// The kinds in the field of a record.
    #[must_use]
    pub fn read_kinds(field: &str) -> BTreeSet<String> {
        field.lines().map(ToOwned::to_owned).collect()
    }

    /// How long the entry lives after a registration.
    #[must_use]
    pub fn ttl(&self) -> Duration {
        self.lease_ttl.saturating_mul(2).max(TTL_MIN)
    }

    /// How long after a registration the next one is due, whatever became of the last: two may fail
    /// before the entry expires. Each writes the whole entry, which also restores what a flush or a
    /// failover lost.
    #[must_use]
    pub fn interval(&self) -> Duration {
        self.ttl() / REGISTRATIONS_PER_TTL
    }

    fn index(&self) -> Key {
        Key::Workers(self.namespace.clone())
    }

    fn write(&self, since: ServerTime, now: ServerTime) -> Vec<Command> {
        let capabilities = Key::worker_capabilities(&self.namespace, &self.instance);
        let ttl = self.ttl().as_millis().to_string();
        let mut lanes: Vec<&str> = self.lanes.iter().map(LaneId::as_str).collect();
        lanes.sort_unstable();
        let fields = [
            ("worker_id", self.worker.to_string()),
            ("lanes_csv", lanes.join(",")),
            ("caps_csv", self.capabilities.to_string()),
            ("ttl_ms", ttl.clone()),
            ("registered_at_ms", since.to_string()),
            ("last_heartbeat_ms", now.to_string()),
        ];
        let kinds = self.kinds.as_ref().map(|kinds| (Self::KINDS, lines(kinds)));
        let fields: Vec<(&str, String)> = fields.into_iter().chain(kinds).collect();
        let flat: Vec<&[u8]> =
            fields.iter().flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]).collect();
        let alive = Key::worker_alive(&self.namespace, &self.instance);
        vec![
            Command::write("SET", &alive, &[b"1", b"PX", ttl.as_bytes()]),
            Command::write("HSET", &capabilities, &flat),
            Command::write("PEXPIRE", &capabilities, &[ttl.as_bytes()]),
            Command::write("SADD", &self.index(), &[self.instance.as_str().as_bytes()]),
        ]
    }
}

enum Stage {
    Time,
    Writing,
    /// These other instances of the index are being looked at.
    Probing(Vec<String>),
    Pruning,
}

/// Registers an instance, or refreshes its registration. Returns since when it is registered.
pub struct RegisterWorker {
    entry: WorkerEntry,
    since: Option<ServerTime>,
    stage: Stage,
}

impl RegisterWorker {
    /// Registers this instance; `since` is the result of its first registration, if there was one.
    #[must_use]
    pub const fn new(entry: WorkerEntry, since: Option<ServerTime>) -> Self {
        Self { entry, since, stage: Stage::Time }
    }

    fn done(&self) -> Step<ServerTime> {
        Step::Done(Ok(self.since.unwrap_or(ServerTime(0))))
    }

    fn on_time(&mut self, reply: &Value) -> Step<ServerTime> {
        let now = match time(reply) {
            Ok(now) => now,
            Err(broken) => return Step::Done(Err(Failure::Unreadable(broken))),
        };
        let since = *self.since.get_or_insert(now);
        let mut commands = self.entry.write(since, now);
        let sample = Command::read("SRANDMEMBER", &self.entry.index(), &[OTHERS_SEEN.as_bytes()]);
        commands.push(sample);
        self.stage = Stage::Writing;
        Step::Send(commands)
    }

    fn on_sample(&mut self, reply: Value) -> Step<ServerTime> {
        let mut others = fields(reply);
        others.retain(|id| id != self.entry.instance.as_str());
        if others.is_empty() {
            return self.done();
        }
        let namespace = &self.entry.namespace;
        let probes = others.iter().flat_map(|id| {
            let instance = WorkerInstanceId::new(id.clone());
            let keys = [
                Key::worker_alive(namespace, &instance),
                Key::worker_capabilities(namespace, &instance),
            ];
            keys.map(|key| Command::read("EXISTS", &key, &[]))
        });
        let probes = probes.collect();
        self.stage = Stage::Probing(others);
        Step::Send(probes)
    }

    fn on_probes(&mut self, others: &[String], mut replies: Replies) -> Step<ServerTime> {
        let mut expired: Vec<&[u8]> = Vec::new();
        for id in others {
            let known = [replies.value(), replies.value()];
            if known.iter().all(|reply| *reply == Value::Int(0)) {
                expired.push(id.as_bytes());
            }
        }
        if expired.is_empty() {
            return self.done();
        }
        self.stage = Stage::Pruning;
        Step::Send(vec![Command::write("SREM", &self.entry.index(), &expired)])
    }
}

impl Procedure for RegisterWorker {
    type Output = ServerTime;

    fn begin(&mut self) -> Step<ServerTime> {
        Step::Send(vec![Command::time(0)])
    }

    fn replied(&mut self, mut replies: Replies) -> Step<ServerTime> {
        match core::mem::replace(&mut self.stage, Stage::Pruning) {
            Stage::Time => self.on_time(&replies.value()),
            Stage::Writing => {
                let sample = replies.into_values().pop().unwrap_or(Value::Nil);
                self.on_sample(sample)
            }
            Stage::Probing(others) => self.on_probes(&others, replies),
            Stage::Pruning => self.done(),
        }
    }
}

/// Removes an instance from the registry. If that fails, its entry expires.
pub struct DeregisterWorker(WorkerEntry);

impl DeregisterWorker {
    /// How long it is worth waiting for.
    pub const WITHIN: Duration = Duration::from_secs(2);

    /// Removes this instance.
    #[must_use]
    pub const fn new(entry: WorkerEntry) -> Self {
        Self(entry)
    }
}

impl Procedure for DeregisterWorker {
    type Output = ();

    fn begin(&mut self) -> Step<()> {
        let WorkerEntry { namespace, instance, .. } = &self.0;
        Step::Send(vec![
            Command::write("DEL", &Key::worker_alive(namespace, instance), &[]),
            Command::write("DEL", &Key::worker_capabilities(namespace, instance), &[]),
            Command::write("SREM", &self.0.index(), &[instance.as_str().as_bytes()]),
        ])
    }

    fn replied(&mut self, _: Replies) -> Step<()> {
        Step::Done(Ok(()))
    }
}

fn lines(words: &BTreeSet<String>) -> String {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    words.join("\n")
}

const REGISTRATIONS_PER_TTL: u32 = 3;
/// An entry lives at least this long, so that registrations cause little traffic.
const TTL_MIN: Duration = Duration::from_secs(60);
/// How many other entries a registration looks at, as in `ff_register_worker`.
const OTHERS_SEEN: &str = "8";
