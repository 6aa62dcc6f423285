//! Everybody but engines and servers: workers, callers, signal senders, strangers.

mod admission;
pub mod caller;
pub mod graph;
mod names;
pub mod signal;
pub mod worker;

use selvedge_core::call::Function;
use selvedge_core::call::scheduling::{ClaimNext, ClaimNextReply};
use selvedge_core::error::{Class, ServerError};
use selvedge_core::id::{ExecutionId, LaneId, Namespace};
use selvedge_core::key::{IndexPart, Key, LaneIndex};
use selvedge_core::partition::Partition;
use selvedge_core::time::ServerTime;
use selvedge_core::value::Value;
use uuid::Uuid;

pub use names::Names;

use crate::event::{Actor, CallId, Learned, What, arguments_of, keys_of};
use crate::fault::Fault;
use crate::world::stream::Purpose;
use crate::world::transport::{Meddle, Return};
use crate::world::{Happening, World};

use caller::Job;
use worker::Chore;

/// Why a client asked, or what it waits for.
#[derive(Clone, Debug)]
pub(crate) enum Errand {
    /// A worker's.
    Worker(Chore),
    /// A caller's or a signal sender's.
    Caller(Box<Job>),
}

/// What an answer comes to for whoever asked.
pub(crate) enum Heard {
    /// An answer.
    Reply(Value),
    /// None; the call is worth repeating.
    Again,
}

impl Heard {
    /// Silence and trouble pass, and a call may be repeated; anything else is an answer.
    pub(crate) fn of(learned: Learned) -> Self {
        match learned {
            Learned::Reply(Value::Error(text)) => {
                match ServerError::from_reply(text.clone()).class {
                    Class::NotNow
                    | Class::Library
                    | Class::Denied
                    | Class::Silence
                    | Class::Redirect => Self::Again,
                    Class::Broken => Self::Reply(Value::Error(text)),
                }
            }
            Learned::Reply(reply) => Self::Reply(reply),
            Learned::NotApplied(_) | Learned::Perhaps(_) => Self::Again,
        }
    }
}

/// The lane with this number.
pub(crate) fn lane(number: u64) -> LaneId {
    let name = if number == 0 { "default".to_owned() } else { format!("lane-{number}") };
    name.parse().expect("printable ASCII")
}

/// The tenant with this number.
pub(crate) fn tenant(number: u64) -> Namespace {
    Namespace::new(format!("tenant-{number}"))
}

impl World {
    /// Asks as a client, in the sight of the reference model.
    pub(crate) fn ask<F: Function>(&mut self, by: Actor, life: u32, call: &F, errand: Errand) {
        let slot = call.keys().first().map_or(0, Key::slot);
        self.ask_words(by, life, slot, F::NAME, call.command(), errand);
    }

    pub(crate) fn ask_words(
        &mut self,
        by: Actor,
        life: u32,
        slot: u16,
        function: &'static str,
        argv: Vec<Vec<u8>>,
        errand: Errand,
    ) {
        let batch = vec![argv];
        let Some(spells) = self.spells(by, &batch) else { return };
        let (call, shared) = (self.next_call, std::sync::Arc::new(batch[0].clone()));
        self.emit(by, What::Invoked { call, function, argv: shared });
        self.send(by, slot, batch, spells, Return::Client { life, errand });
    }

    /// Wakes a client after a while.
    pub(crate) fn tick(&mut self, actor: Actor, life: u32, wait_ms: u64, errand: Errand) {
        self.schedule(self.now_ms + wait_ms, Happening::Tick { actor, life, errand });
    }

    pub(crate) fn tick_came(&mut self, actor: Actor, life: u32, errand: Errand) {
        match (actor, errand) {
            (Actor::Worker(number), Errand::Worker(chore)) => {
                self.worker_ticks(number, life, chore);
            }
            (_, Errand::Caller(job)) => self.job_goes_on(actor, life, *job),
            (_, Errand::Worker(_)) => {}
        }
    }

    pub(crate) fn client_hears(
        &mut self,
        actor: Actor,
        life: u32,
        call: CallId,
        errand: Errand,
        learned: Learned,
    ) {
        self.emit(actor, What::Returned { call, learned: learned.clone() });
        match (actor, errand) {
            (Actor::Worker(number), Errand::Worker(chore)) => {
                self.worker_hears(number, life, chore, Heard::of(learned));
            }
            (_, Errand::Caller(job)) => self.job_answered(actor, life, *job, Heard::of(learned)),
            (_, Errand::Worker(_)) => {}
        }
    }

    pub(crate) fn fresh_id(&mut self, actor: Actor) -> Uuid {
        let bytes = self.chance(Purpose::Workload, actor).bytes();
        uuid::Builder::from_random_bytes(bytes).into_uuid()
    }

    /// The clock of the node that serves a partition, `ms` from now. Clients ask it with TIME.
    pub(crate) fn server_time(&self, partition: Partition, ms: i64) -> ServerTime {
        let node = self.servers.primary(self.servers.owner(partition.slot()));
        let clock = self.servers.clock_ms(node, self.now_ms).cast_signed();
        ServerTime(clock.saturating_add(ms))
    }

    /// A field of an execution's record, as somebody with a perfect link reads it.
    pub(crate) fn peek(&self, id: &ExecutionId, field: &str) -> String {
        let shard = self.servers.owner(id.partition().slot());
        let record = self.servers.audited[shard].execution(id);
        record.map(|record| record.core.text(field).to_owned()).unwrap_or_default()
    }

    /// Somebody acts on the subject of a call at the very moment.
    pub(crate) fn meddle(
        &mut self,
        meddle: Option<(Meddle, Fault)>,
        sender: Actor,
        node: usize,
        argv: &[Vec<u8>],
        reply: Option<&Value>,
    ) {
        let Some((meddle, fault)) = meddle else { return };
        let early = matches!(meddle, Meddle::CancelBefore | Meddle::ReplayBefore);
        if early != reply.is_none() || self.servers.nodes[node].stray || sender == MEDDLER {
            return;
        }
        let claimed = || match reply {
            Some(reply) => claimed(reply),
            None => self.next_in_line(argv),
        };
        let Some(id) = subject(argv).or_else(claimed) else { return };
        self.inflict(fault, id.to_string());
        match meddle {
            Meddle::CancelBefore | Meddle::CancelAfter => {
                let call = self.cancel_call(&id, "meddled");
                self.command_by(MEDDLER, id.partition(), call.command());
            }
            Meddle::ReplayBefore | Meddle::ReplayAfter => {
                let call = self.replay_call(&id);
                self.command_by(MEDDLER, id.partition(), call.command());
            }
        }
    }

    /// Whom a claim would get.
    fn next_in_line(&self, argv: &[Vec<u8>]) -> Option<ExecutionId> {
        let keys = keys_of(argv).iter().filter_map(|key| std::str::from_utf8(key).ok());
        let lane = keys
            .filter_map(|key| key.parse::<Key>().ok())
            .find(|key| matches!(key, Key::Index(_, IndexPart::Lane(_, LaneIndex::Eligible))))?;
        let members = self.servers.audited[self.servers.owner(lane.slot())].zset(&lane);
        let first = members.iter().min_by(|one, two| one.1.total_cmp(two.1))?;
        first.0.parse().ok()
    }

    /// Puts what every deployment has on all nodes: signing secrets, a budget, a quota.
    pub(crate) fn provision(&mut self) {
        let partitions = u16::try_from(self.plan.config.flow_partitions.max(1)).unwrap_or(1);
        for index in 0..partitions {
            let partition = Partition::flow(index);
            let key = Key::WaitpointSecrets(partition).to_string();
            let secret = "00".repeat(32);
            let words = ["HSET", &key, "current_kid", "k1", "secret:k1", &secret];
            let argv = words.iter().map(|word| word.as_bytes().to_vec()).collect();
            self.command_by(Actor::World, partition, argv);
        }
        if self.wants_accounts() {
            self.open_accounts();
        }
    }

    /// The lane of an execution.
    pub(crate) fn lane_of(&self, id: &ExecutionId) -> LaneId {
        self.peek(id, "lane_id").parse().unwrap_or_else(|_| lane(0))
    }
}

/// Who acts at the very moment of a race.
pub(crate) const MEDDLER: Actor = Actor::Caller(3);

/// Whom a claim got.
fn claimed(reply: &Value) -> Option<ExecutionId> {
    match ClaimNext::parse(reply.clone()) {
        Ok(ClaimNextReply::Claimed(work)) => Some(work.execution_id),
        Ok(_) | Err(_) => None,
    }
}

/// The execution that a call is about.
pub(crate) fn subject(argv: &[Vec<u8>]) -> Option<ExecutionId> {
    let text = |word: &Vec<u8>| String::from_utf8(word.clone()).ok();
    let named = arguments_of(argv).iter().filter_map(text).find_map(|word| word.parse().ok());
    named.or_else(|| {
        argv.iter().skip(1).filter_map(text).find_map(|word| match word.parse::<Key>() {
            Ok(Key::Execution(id, _)) => Some(id),
            _ => None,
        })
    })
}
