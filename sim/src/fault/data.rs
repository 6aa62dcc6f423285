//! Faults in the data: evicted, overwritten and foreign keys, malformed members, and very much work
//! at once.

use selvedge_core::audit::{Snapshot, Stored};
use selvedge_core::id::ExecutionId;
use selvedge_core::key::{ExecutionPart, Key, LaneIndex, PartitionIndex};
use selvedge_core::partition::{Family, Partition};
use selvedge_core::value::Value;

use uuid::Uuid;

use super::Fault;
use super::keys::is_core;
use crate::event::{Actor, EventKind};
use crate::plan::{Action, FaultRule, FlowSpec, Group, MEMBERS_MAX, Shape, TaskSpec};
use crate::world::World;
use crate::world::commit_log::Damage;
use crate::world::random_streams::Purpose;
use crate::world::servers::ServeOptions;

/// The most children of one upstream: workers have to run them all.
const FAN_OUT_MAX: usize = 260;
/// The client that damages data.
pub(super) const FOREIGN_CLIENT: Actor = Actor::Foreign(1);
/// The value of a foreign key.
const FOREIGN_TEXT: &str = "none of yours";
/// Indexes that engines read even if they do not exist.
const READ_BY_SCANS: [PartitionIndex; 7] = [
    PartitionIndex::LeaseExpiry,
    PartitionIndex::SuspensionTimeout,
    PartitionIndex::AttemptTimeout,
    PartitionIndex::ExecutionDeadline,
    PartitionIndex::PendingWaitpointExpiry,
    PartitionIndex::PendingCancelGroups,
    PartitionIndex::CancelBacklog,
];

impl World {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the other faults are injected elsewhere")]
    pub(crate) fn inject_data_fault(&mut self, rule: &FaultRule) {
        match rule.fault {
            Fault::Eviction => self.evict(rule),
            Fault::RecordLost => self.lose_record(rule),
            Fault::OperatorEdit => self.edit(rule),
            Fault::WrongType => self.wrong_type(rule),
            Fault::ForeignKey => self.foreign_key(rule),
            Fault::PoisonTuple => self.poison(rule, 1),
            Fault::PoisonHead => {
                let count = rule.amount.and_then(|n| usize::try_from(n).ok()).unwrap_or(60);
                self.poison(rule, count.min(1_000));
            }
            Fault::TimerStorm => self.storm(rule),
            Fault::OversizeGroup => self.oversize(rule),
            Fault::SignalEarlyLateTwice => self.send_odd_signals(rule),
            _ => {}
        }
    }

    fn drawn_partition(&mut self) -> Partition {
        let partitions = self.plan.config.flow_partitions.max(1);
        let drawn = self.random(Purpose::Faults, FOREIGN_CLIENT).below(partitions);
        Partition::flow((drawn % 65_536) as u16)
    }

    /// Applies a plain command at once, without a link.
    pub(crate) fn command(&mut self, partition: Partition, words: &[&str]) {
        let argv: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        self.command_by(FOREIGN_CLIENT, partition, argv);
    }

    /// Applies a command at once, without a link.
    pub(crate) fn command_by(&mut self, by: Actor, partition: Partition, argv: Vec<Vec<u8>>) {
        self.command_at(by, partition.slot(), argv);
    }

    /// Runs a command on the primary of a slot without delay, and returns the reply.
    pub(crate) fn command_at(&mut self, by: Actor, slot: u16, argv: Vec<Vec<u8>>) -> Value {
        // It knows one node only.
        self.end_key_move(slot);
        let node = self.network.servers.primary(self.network.servers.owner(slot));
        let call = self.network.next_call;
        self.network.next_call += 1;
        let argv = std::sync::Arc::new(argv);
        let number = crate::world::transport::number(node);
        self.emit(by, EventKind::Sent { call, node: number, argv: argv.clone() });
        self.apply(by, node, call, &argv, ServeOptions::default())
    }

    /// A random key that `wanted` accepts, or the key that the plan names, if it exists.
    pub(super) fn drawn_key(
        &mut self,
        rule: &FaultRule,
        wanted: impl Fn(&Key) -> bool,
    ) -> Option<Key> {
        if let Some(key) = rule.subject.as_ref().and_then(|text| text.parse().ok()) {
            return self
                .network
                .servers
                .audited
                .iter()
                .any(|shard| shard.holds(&key))
                .then_some(key);
        }
        let keys: Vec<Key> = self
            .network
            .servers
            .audited
            .iter()
            .flat_map(|shard| shard.iter().map(|(key, _)| key.clone()))
            .filter(wanted)
            .collect();
        self.random(Purpose::Faults, FOREIGN_CLIENT).pick(&keys).cloned()
    }

    pub(super) fn partition_of(key: &Key) -> Partition {
        let text = key.to_string();
        let tag = text.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
        let index = |text: &str| text.split_once(':').and_then(|(_, number)| number.parse().ok());
        match tag {
            Some((tag, _)) => {
                let family = match tag.split_once(':').map(|(family, _)| family) {
                    Some("b") => Family::Budget,
                    Some("q") => Family::Quota,
                    _ => Family::Flow,
                };
                Partition { family, index: index(tag).unwrap_or(0) }
            }
            None => Partition::flow(0),
        }
    }

    fn evict(&mut self, rule: &FaultRule) {
        let Some(key) = self.drawn_key(rule, |key| rule.fault.applies_to_key(key)) else { return };
        let text = key.to_string();
        self.record_fault(rule.fault, text.clone());
        self.network.servers.commit_log.damage(text.as_bytes(), Damage::Lasting);
        self.command(Self::partition_of(&key), &["DEL", &text]);
    }

    /// Deletes the record of an execution: the one that the plan names, or one that others wait
    /// for, or any.
    fn lose_record(&mut self, rule: &FaultRule) {
        let named = rule.subject.as_ref().map(|name| self.clients.names.execution(name));
        let core = |id: &ExecutionId| Key::execution(id).core();
        let awaited: Vec<ExecutionId> =
            self.network.servers.audited.iter().flat_map(awaited).collect();
        let stream = self.random(Purpose::Faults, FOREIGN_CLIENT);
        let key = match named.or_else(|| stream.pick(&awaited).cloned()) {
            Some(id) => Some(core(&id)),
            None => self.drawn_key(rule, is_core),
        };
        let Some(key) = key else { return };
        let text = key.to_string();
        self.record_fault(rule.fault, text.clone());
        self.network.servers.commit_log.damage(text.as_bytes(), Damage::Lasting);
        self.command(Self::partition_of(&key), &["DEL", &text]);
    }

    /// Puts a foreign string where an index may be created, or under a similar name. Calls that use
    /// the index fail until the string is removed.
    fn foreign_key(&mut self, rule: &FaultRule) {
        let partition = self.drawn_partition();
        let shard = &self.network.servers.audited[self.network.servers.owner(partition.slot())];
        let index = Key::index(partition);
        let free = READ_BY_SCANS.iter().map(|part| index.whole(*part));
        let mut names: Vec<String> =
            free.filter(|key| !shard.holds(key)).map(|key| key.to_string()).collect();
        names.push(format!("ff:custom:{partition}:stranger"));
        let Some(key) = self.random(Purpose::Faults, FOREIGN_CLIENT).pick(&names).cloned() else {
            return;
        };
        self.record_fault(rule.fault, key.clone());
        self.network.servers.commit_log.damage(key.as_bytes(), Damage::Passing);
        self.injections.foreign_keys.push((partition, key.clone()));
        self.command(partition, &["SET", &key, FOREIGN_TEXT]);
    }

    /// Removes foreign keys, unless they have been overwritten.
    pub(crate) fn remove_foreign_keys(&mut self) {
        for (partition, key) in std::mem::take(&mut self.injections.foreign_keys) {
            let shard = &self.network.servers.audited[self.network.servers.owner(partition.slot())];
            let ours = key.parse::<Key>().is_ok_and(|key| {
                shard.holds(&key) && shard.text(&key) != Some(FOREIGN_TEXT.as_bytes())
            });
            if !ours {
                self.command(partition, &["DEL", &key]);
            }
        }
    }

    fn wrong_type(&mut self, rule: &FaultRule) {
        let Some(key) = self.drawn_key(rule, |key| rule.fault.applies_to_key(key)) else { return };
        let text = key.to_string();
        let partition = Self::partition_of(&key);
        let shard = self.network.servers.owner(partition.slot());
        let is_text = self.network.servers.audited[shard]
            .iter()
            .find(|(known, _)| **known == key)
            .is_some_and(|(_, entry)| matches!(entry.stored, Stored::Text(_)));
        self.record_fault(rule.fault, text.clone());
        self.network.servers.commit_log.damage(text.as_bytes(), Damage::Lasting);
        self.command(partition, &["DEL", &text]);
        if is_text {
            self.command(partition, &["SADD", &text, "not what you expect"]);
        } else {
            self.command(partition, &["SET", &text, "not what you expect"]);
        }
    }

    /// Adds members to an index that cannot be processed.
    fn poison(&mut self, rule: &FaultRule, count: usize) {
        let partition = self.drawn_partition();
        let index = Key::index(partition);
        let due = [
            PartitionIndex::LeaseExpiry,
            PartitionIndex::SuspensionTimeout,
            PartitionIndex::AttemptTimeout,
            PartitionIndex::ExecutionDeadline,
            PartitionIndex::PendingWaitpointExpiry,
        ];
        let listed = [PartitionIndex::PendingCancelGroups, PartitionIndex::CancelBacklog];
        let draw = self.random(Purpose::Faults, FOREIGN_CLIENT).bits();
        let odd = |at: usize| match (draw >> 8) as usize % 5 + at {
            n if n % 5 == 0 => format!("no-id-at-all-{at}"),
            n if n % 5 == 1 => format!("{{fp:{}}}:not-a-uuid-{at}", partition.index),
            // Well-formed, but of no execution.
            n if n % 5 == 2 => format!("{partition}:{}", Uuid::from_u128(at as u128 + 1)),
            n if n % 5 == 3 => format!("{}|{at}", "x".repeat(300)),
            _ => format!("\u{fffd}{at}"),
        };
        let lanes = [LaneIndex::Eligible, LaneIndex::Delayed, LaneIndex::BlockedDependencies];
        let (key, sorted) = match draw % 3 {
            0 => (index.whole(due[(draw >> 3) as usize % due.len()]), true),
            1 => (index.whole(listed[(draw >> 3) as usize % listed.len()]), false),
            _ => {
                let lane = crate::actor::lane(0);
                (index.lane(&lane, lanes[(draw >> 3) as usize % lanes.len()]), true)
            }
        };
        let text = key.to_string();
        self.record_fault(rule.fault, format!("{count} into {text}"));
        let sorted = sorted || text.ends_with("cancel_backlog");
        for at in 0..count {
            let member = odd(at);
            self.network.servers.commit_log.damage(member.as_bytes(), Damage::Passing);
            if sorted {
                self.command(partition, &["ZADD", &text, &at.to_string(), &member]);
            } else {
                self.command(partition, &["SADD", &text, &member]);
            }
        }
    }

    /// Many delayed executions that are due at the same time.
    fn storm(&mut self, rule: &FaultRule) {
        let count = rule.amount.and_then(|n| u64::try_from(n).ok()).unwrap_or(60).min(5_000);
        self.record_fault(rule.fault, format!("{count} at once"));
        for at in 0..count {
            let task = TaskSpec {
                delay_ms: Some(3_000),
                partition: Some(0),
                ..TaskSpec::named(format!("storm-{}-{at}", self.now_ms))
            };
            self.later(Actor::Caller(1), 0, Action::Create(task));
        }
    }

    /// A flow with more siblings than a batch holds: with one child, or one upstream.
    fn oversize(&mut self, rule: &FaultRule) {
        let count = rule.amount.and_then(|n| usize::try_from(n).ok()).unwrap_or(130);
        let count = count.clamp(1, MEMBERS_MAX);
        self.record_fault(rule.fault, format!("{count} siblings"));
        let group = Group::AnyOf { cancel_remaining: true };
        let shape = match self.random(Purpose::Faults, FOREIGN_CLIENT).below(2) {
            0 => Shape::FanIn(count, group),
            _ => Shape::FanOut(count.min(FAN_OUT_MAX)),
        };
        let name = format!("big-{}", self.now_ms);
        let flow = FlowSpec { chunk: Some(200), ..FlowSpec::new(name, shape) };
        self.later(Actor::Caller(1), 0, Action::Submit(flow));
    }
}

/// The upstreams of all open edges that have a record.
fn awaited(shard: &Snapshot) -> Vec<ExecutionId> {
    shard
        .iter()
        .filter_map(|(key, entry)| {
            let Key::Execution(_, ExecutionPart::Dependency(_)) = key else { return None };
            let edge = entry.fields().filter(|edge| edge.text("state") == "unsatisfied")?;
            edge.text("upstream_execution_id").parse().ok()
        })
        .filter(|upstream| shard.execution(upstream).is_some())
        .collect()
}
