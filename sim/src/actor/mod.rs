//! Everybody but engines and servers: workers, callers, signal senders, strangers.

pub mod caller;
pub mod worker;

use std::collections::BTreeMap;

use selvedge_core::call::Function;
use selvedge_core::id::{ExecutionId, FlowId, LaneId};
use selvedge_core::key::Key;
use selvedge_core::partition::Partition;
use uuid::Uuid;

use crate::event::{Actor, CallId, Learned};
use crate::plan::{Config, Deed};
use crate::trace::Digest;
use crate::world::Happening;
use crate::world::World;
use crate::world::stream::Purpose;
use crate::world::transport::Return;

/// Why a client asked, or what it waits for.
#[derive(Clone, Debug)]
pub(crate) enum Errand {
    /// A worker gets up and looks for work.
    Rise,
    /// A worker has asked for work.
    Claim,
    /// A worker is done with what it holds.
    Done,
    /// A worker has reported.
    Report,
    /// A caller has sent something and is content with any answer.
    Deed(CallerCall),
}

/// A call of a caller, to be repeated until it is answered.
#[derive(Clone, Debug)]
pub(crate) struct CallerCall {
    pub(crate) argv: Vec<Vec<u8>>,
    pub(crate) slot: u16,
    pub(crate) tries: u32,
}

/// Who is meant by a name of the plan.
pub struct Names {
    flow_partitions: u16,
    homes: BTreeMap<String, u16>,
}

impl Names {
    pub(crate) fn new(config: &Config) -> Self {
        let flow_partitions = u16::try_from(config.flow_partitions.max(1)).unwrap_or(u16::MAX);
        Self { flow_partitions, homes: BTreeMap::new() }
    }

    /// Remembers where a flow or an execution of its own lives.
    pub(crate) fn settle(&mut self, name: &str, partition: Option<u16>) -> Partition {
        let home = match partition {
            Some(partition) => partition % self.flow_partitions,
            None => self.home(name),
        };
        self.homes.insert(name.to_owned(), home);
        Partition::flow(home)
    }

    fn home(&self, name: &str) -> u16 {
        let known = self.homes.get(name).copied();
        let drawn = || (hash(name, 0) % u64::from(self.flow_partitions)) as u16;
        known.unwrap_or_else(drawn)
    }

    /// The flow of this name.
    #[must_use]
    pub fn flow(&self, name: &str) -> FlowId {
        uuid(name).into()
    }

    /// Where a flow lives.
    #[must_use]
    pub fn flow_partition(&self, name: &str) -> Partition {
        Partition::flow(self.home(name))
    }

    /// The execution of this name: `F1.a` lives with its flow.
    #[must_use]
    pub fn execution(&self, name: &str) -> ExecutionId {
        let home = name.split_once('.').map_or(name, |(flow, _)| flow);
        ExecutionId::new(self.home(home), uuid(name))
    }
}

fn hash(name: &str, salt: u64) -> u64 {
    let mut digest = Digest::default();
    digest.number(salt);
    digest.bytes(name.as_bytes());
    let hash = digest.finish();
    hash ^ (hash >> 31)
}

/// The id of a name, the same in every world.
pub(crate) fn uuid(name: &str) -> Uuid {
    let bits = u128::from(hash(name, 1)) << 64 | u128::from(hash(name, 2));
    uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid()
}

/// The lane with this number.
pub(crate) fn lane(number: u64) -> LaneId {
    let name = if number == 0 { "default".to_owned() } else { format!("lane-{number}") };
    name.parse().expect("printable ASCII")
}

impl World {
    /// Asks as a client.
    pub(crate) fn ask<F: Function>(&mut self, by: Actor, call: &F, errand: Errand) {
        let slot = call.keys().first().map_or(0, Key::slot);
        self.ask_words(by, slot, call.command(), errand);
    }

    pub(crate) fn ask_words(&mut self, by: Actor, slot: u16, argv: Vec<Vec<u8>>, errand: Errand) {
        let batch = vec![argv];
        let Some(spells) = self.spells(by, &batch) else { return };
        self.send(by, slot, batch, spells, Return::Client(errand));
    }

    /// Wakes a client after a while.
    pub(crate) fn tick(&mut self, actor: Actor, wait_ms: u64, errand: Errand) {
        self.schedule(self.now_ms + wait_ms, Happening::Tick { actor, errand });
    }

    pub(crate) fn tick_came(&mut self, actor: Actor, errand: Errand) {
        match actor {
            Actor::Worker(number) => self.worker_ticks(number, errand),
            Actor::Caller(_) | Actor::Signaller(_) | Actor::Foreign(_) => {
                self.caller_ticks(actor, errand);
            }
            Actor::World | Actor::Engine(_) | Actor::Node(_) => {}
        }
    }

    pub(crate) fn client_hears(
        &mut self,
        actor: Actor,
        call: CallId,
        errand: Errand,
        learned: Learned,
    ) {
        match actor {
            Actor::Worker(number) => self.worker_hears(number, errand, learned),
            Actor::Caller(_) | Actor::Signaller(_) | Actor::Foreign(_) => {
                self.caller_hears(actor, call, errand, learned);
            }
            Actor::World | Actor::Engine(_) | Actor::Node(_) => {}
        }
    }

    /// A step of the plan is due.
    pub(crate) fn take_step(&mut self, at: usize) {
        self.steps_left -= 1;
        let step = self.plan.steps[at].clone();
        match step.deed {
            Deed::Submit(flow) => self.submit(step.by, &flow),
            Deed::Create(task) => self.create(step.by, &task),
            Deed::Cancel(_) | Deed::CancelFlow(_) | Deed::Replay(_) | Deed::Signal(..) => {}
        }
    }

    pub(crate) fn fresh_id(&mut self, actor: Actor) -> Uuid {
        let bytes = self.chance(Purpose::Workload, actor).bytes();
        uuid::Builder::from_random_bytes(bytes).into_uuid()
    }
}
