//! The clients: workers, callers and signallers. They are the production machines.

mod action;
pub mod caller;
pub mod graph;
mod machine;
mod names;
mod provision;
pub mod signal;
pub mod worker;

use selvedge_core::call::Function;
use selvedge_core::call::execution::CancelExecution;
use selvedge_core::call::flow::ReplayExecution;
use selvedge_core::call::scheduling::{ClaimMany, ClaimManyReply};
use selvedge_core::id::{ExecutionId, LaneId, Namespace};
use selvedge_core::key::{IndexPart, Key, LaneIndex};
use selvedge_core::partition::Partition;
use selvedge_core::time::ServerTime;
use selvedge_core::value::Value;
use uuid::Uuid;

pub use names::Names;

use crate::event::{Actor, arguments_of, keys_of};
use crate::fault::Fault;
use crate::fault::effects::RacingCall;
use crate::world::random_streams::Purpose;
use crate::world::{Scheduled, World};

use caller::CallerWait;
use worker::WorkerWait;

/// Whose timer it is.
#[derive(Clone, Debug)]
pub(crate) enum ClientWait {
    /// A worker.
    Worker(WorkerWait),
    /// A caller or signaller.
    Caller(CallerWait),
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

/// The kind of work with this number.
pub(crate) fn kind(number: u64) -> String {
    if number == 0 { "task".to_owned() } else { format!("task-{number}") }
}

impl World {
    /// Sets a timer of a client.
    pub(crate) fn set_timer(
        &mut self,
        actor: Actor,
        incarnation: u32,
        wait_ms: u64,
        waiting: ClientWait,
    ) {
        self.schedule(self.now_ms + wait_ms, Scheduled::Timer { actor, incarnation, waiting });
    }

    pub(crate) fn timer_fired(&mut self, actor: Actor, incarnation: u32, waiting: ClientWait) {
        match (actor, waiting) {
            (Actor::Worker(number), ClientWait::Worker(waiting)) => {
                self.worker_timer(number, incarnation, waiting);
            }
            (_, ClientWait::Caller(waiting)) => self.caller_timer(actor, incarnation, waiting),
            (_, ClientWait::Worker(_)) => {}
        }
    }

    pub(crate) fn fresh_id(&mut self, actor: Actor) -> Uuid {
        let bytes = self.random(Purpose::Workload, actor).bytes();
        uuid::Builder::from_random_bytes(bytes).into_uuid()
    }

    /// The clock of the node that serves a partition, plus `ms`. A real client gets it with TIME.
    pub(crate) fn server_time(&self, partition: Partition, ms: i64) -> ServerTime {
        let node = self.network.servers.primary(self.network.servers.owner(partition.slot()));
        let clock = self.network.servers.clock_ms(node, self.now_ms).cast_signed();
        ServerTime(clock.saturating_add(ms))
    }

    /// A field of an execution's record, read without delay.
    pub(crate) fn peek(&self, id: &ExecutionId, field: &str) -> String {
        let shard = self.network.servers.owner(id.partition().slot());
        let record = self.network.servers.audited[shard].execution(id);
        record.map(|record| record.core.text(field).to_owned()).unwrap_or_default()
    }

    /// Cancels or replays the subject of a call at the time of the call.
    pub(crate) fn make_racing_call(
        &mut self,
        racing_call: Option<(RacingCall, Fault)>,
        sender: Actor,
        node: usize,
        argv: &[Vec<u8>],
        reply: Option<&Value>,
    ) {
        let Some((racing_call, fault)) = racing_call else { return };
        let early = matches!(racing_call, RacingCall::CancelBefore | RacingCall::ReplayBefore);
        if early != reply.is_none()
            || self.network.servers.nodes[node].superseded
            || sender == RACING_CALLER
        {
            return;
        }
        let claimed = || match reply {
            Some(reply) => claimed(reply),
            None => self.next_in_line(argv),
        };
        let Some(id) = subject(argv).or_else(claimed) else { return };
        self.record_fault(fault, id.to_string());
        match racing_call {
            RacingCall::CancelBefore | RacingCall::CancelAfter => {
                let call = self.cancel_call(&id, "meddled");
                self.command_by(RACING_CALLER, id.partition(), call.command());
            }
            RacingCall::ReplayBefore | RacingCall::ReplayAfter => {
                let call = self.replay_call(&id);
                self.command_by(RACING_CALLER, id.partition(), call.command());
            }
        }
    }

    /// A call that cancels an execution in its current state.
    fn cancel_call(&self, id: &ExecutionId, reason: &str) -> CancelExecution {
        let record = CancelExecution::RECORD_FIELDS.map(|name| self.peek(id, name));
        let record = record.each_ref().map(String::as_str);
        CancelExecution::of_record(id.clone(), record, reason, "operator_override")
    }

    fn replay_call(&self, id: &ExecutionId) -> ReplayExecution {
        ReplayExecution {
            execution_id: id.clone(),
            lane_id: self.lane_of(id),
            inbound_edges: Vec::new(),
        }
    }

    /// The execution that a claim would get.
    fn next_in_line(&self, argv: &[Vec<u8>]) -> Option<ExecutionId> {
        let keys = keys_of(argv).iter().filter_map(|key| std::str::from_utf8(key).ok());
        let lane = keys
            .filter_map(|key| key.parse::<Key>().ok())
            .find(|key| matches!(key, Key::Index(_, IndexPart::Lane(_, LaneIndex::Eligible))))?;
        let members =
            self.network.servers.audited[self.network.servers.owner(lane.slot())].zset(&lane);
        let first = members.iter().min_by(|one, two| one.1.total_cmp(two.1))?;
        first.0.parse().ok()
    }

    /// The lane of an execution.
    pub(crate) fn lane_of(&self, id: &ExecutionId) -> LaneId {
        self.peek(id, "lane_id").parse().unwrap_or_else(|_| lane(0))
    }
}

/// The caller that makes racing calls.
pub(crate) const RACING_CALLER: Actor = Actor::Caller(3);

/// The first execution that a claim got.
fn claimed(reply: &Value) -> Option<ExecutionId> {
    match ClaimMany::parse(reply.clone()) {
        Ok(ClaimManyReply::Claimed { works, .. }) => Some(works.into_iter().next()?.execution_id),
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
