//! Workers: the production machine, driven by inputs and effects. What handlers do, and what goes
//! wrong with a worker's process, is scripted; the protocol is not.

mod faults;
mod handlers;
mod offers;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use selvedge_core::capability::Capabilities;
use selvedge_core::command::Answer;
use selvedge_core::id::{LeaseId, WorkerId, WorkerInstanceId};
use selvedge_core::partition::PartitionCounts;
use selvedge_core::time::LocalTime;
use selvedge_core::worker::{Effect, HandlerOutcome, Input, Worker as Machine, WorkerConfig};
use selvedge_lua::host::Message;

use super::{ClientWait, lane};
use crate::canary::{PlantedBug, WorkerShim, WorldBug};
use crate::event::{Actor, EventKind};
use crate::plan::Span;
use crate::profile::Part;
use crate::world::World;
use crate::world::engines::partition_counts;
use crate::world::random_streams::Purpose;
use crate::world::transport::{ReplyTo, argv_of};

use faults::Snapshot;
use handlers::Handler;
pub(crate) use offers::{offered, taken};

/// How long a crashed worker stays down.
const DEAD: Span = Span { from: 100, to: 6_000 };
/// A lease that is longer than any delay of a link.
const SANE_LEASE_MS: u64 = 10_000;
/// The clock of a worker at the start of a run: larger than any skew.
const CLOCK_START_MS: u64 = 10_000_000_000;
/// How long handlers may go on after a drain has begun.
const DRAIN_WITHIN: Duration = Duration::from_secs(3);

/// What a worker waits for.
#[derive(Clone, Debug)]
pub(crate) enum WorkerWait {
    /// Time to start.
    Start,
    /// The deadline of the machine.
    Wake,
    /// An input for the machine.
    Input(Box<Input>),
    /// A handler has done its work.
    Handler(LeaseId),
    /// Time to report a second time.
    ReportAgain,
    /// The end of a pause.
    Thaw,
}

/// A place for a worker. It stays when the worker dies.
pub(crate) struct Worker {
    number: u8,
    machine: Option<Machine>,
    /// How many workers were started here.
    pub(crate) incarnation: u32,
    /// Whether it is never started again.
    pub(crate) gone: bool,
    /// Until when it is frozen.
    pub(crate) frozen_until: u64,
    /// Until when it gets no pushes.
    pub(crate) unpushed_until: u64,
    /// Whether its handlers go on while it is frozen: only the loop of the worker stands still.
    pub(crate) handlers_run_on: bool,
    /// It dies before it carries out the last of this many effects.
    pub(crate) dies_after: Option<u64>,
    /// The incarnation whose name it has; its own, if none is given.
    pub(crate) named_as: Option<u32>,
    /// The offset of its clock.
    pub(crate) skew_ms: i64,
    /// How far its clock was set back.
    pub(crate) behind_ms: i64,
    wake_ms: Option<u64>,
    lease_ms: u64,
    handlers: BTreeMap<LeaseId, Handler>,
    /// The leases of the requests that are not answered yet.
    open_requests: BTreeMap<u64, LeaseId>,
    next_request: u64,
    /// The process stops with its next handler, until this long after the lease has expired.
    pub(crate) zombie_ms: Option<u64>,
    /// Leases whose claims are never answered.
    pub(crate) unheard: BTreeSet<Vec<u8>>,
    /// The machine before its last report, if the plan lets a worker report twice.
    before_report: Option<Snapshot>,
    /// Inputs that wait in the buffers of a frozen process.
    backlog: Vec<Input>,
    /// Plants a bug between the machine and this driver.
    shim: WorkerShim,
}

impl Worker {
    pub(crate) fn new(number: u8) -> Self {
        Self {
            number,
            machine: None,
            incarnation: 0,
            gone: false,
            frozen_until: 0,
            unpushed_until: 0,
            handlers_run_on: false,
            dies_after: None,
            named_as: None,
            skew_ms: 0,
            behind_ms: 0,
            wake_ms: None,
            lease_ms: 0,
            handlers: BTreeMap::new(),
            open_requests: BTreeMap::new(),
            next_request: 0,
            zombie_ms: None,
            unheard: BTreeSet::new(),
            before_report: None,
            backlog: Vec::new(),
            shim: WorkerShim::default(),
        }
    }

    fn ids(&self) -> (WorkerId, WorkerInstanceId) {
        let instance = self.named_as.unwrap_or(self.incarnation);
        let instance = format!("w{}-{instance}", self.number);
        (WorkerId::new(format!("w{}", self.number)), WorkerInstanceId::new(instance))
    }

    fn capabilities(&self) -> Capabilities {
        offered(self.number)
    }

    /// The time of its clock.
    fn clock(&self, now_ms: u64) -> LocalTime {
        LocalTime((CLOCK_START_MS + now_ms).saturating_add_signed(self.skew_ms))
    }
}

impl World {
    pub(crate) fn worker(&mut self, number: u8) -> &mut Worker {
        &mut self.clients.workers[usize::from(number) - 1]
    }

    pub(crate) fn worker_timer_in(&mut self, number: u8, wait_ms: u64, waiting: WorkerWait) {
        let incarnation = self.worker(number).incarnation;
        self.set_timer(Actor::Worker(number), incarnation, wait_ms, ClientWait::Worker(waiting));
    }

    pub(crate) fn worker_timer(&mut self, number: u8, incarnation: u32, waiting: WorkerWait) {
        let now_ms = self.now_ms;
        let worker = self.worker(number);
        if worker.incarnation != incarnation || worker.gone {
            return;
        }
        match waiting {
            WorkerWait::Start => self.start_worker(number),
            WorkerWait::Wake => {
                if worker.wake_ms.is_none_or(|wake_ms| wake_ms <= now_ms) {
                    worker.wake_ms = None;
                    self.feed_worker(number, Input::Wake);
                }
            }
            WorkerWait::Input(input) => self.feed_worker(number, *input),
            WorkerWait::Handler(lease) => self.handler_goes_on(number, lease),
            WorkerWait::ReportAgain => self.report_again(number),
            WorkerWait::Thaw => self.thaw(number),
        }
    }

    pub(crate) fn start_worker(&mut self, number: u8) {
        let actor = Actor::Worker(number);
        let mut seed = [0; 32];
        for chunk in seed.chunks_exact_mut(8) {
            chunk.copy_from_slice(&self.random(Purpose::Topology, actor).bits().to_be_bytes());
        }
        let (now_ms, lease_ms) = (self.now_ms, self.lease_ms());
        if self.worker(number).machine.is_some() || self.worker(number).gone {
            return;
        }
        self.worker(number).incarnation += 1;
        let config = self.worker_config(number, lease_ms);
        let worker = self.worker(number);
        let now = worker.clock(now_ms);
        worker.machine = Some(Machine::new(config, seed, now));
        (worker.lease_ms, worker.wake_ms, worker.frozen_until) = (lease_ms, None, 0);
        let capacity = self.plan.config.capacity;
        self.emit(actor, EventKind::Started);
        self.emit(actor, EventKind::Capacity(capacity));
        self.worker_timer_in(number, 0, WorkerWait::Wake);
        if self.plan.config.push {
            let link = self.plan.config.link.0;
            let wait = self.random(Purpose::Network, actor).within(link);
            self.worker_timer_in(number, wait, WorkerWait::Input(Box::new(Input::PushGap)));
        }
    }

    fn worker_config(&mut self, number: u8, lease_ms: u64) -> WorkerConfig {
        let config = &self.plan.config;
        let (lanes, poll) = (config.lanes.max(1), (config.idle.0.from + config.idle.0.to) / 2);
        let (capacity, patience) = (config.capacity, config.patience.0);
        let retry_for = config.retry_for.0;
        let forgotten = self.bug == Some(PlantedBug::World(WorldBug::PartitionNotClaimed));
        let mut partitions: PartitionCounts = partition_counts(config);
        if forgotten {
            let fewer = std::num::NonZeroU16::new(partitions.flow.get() - 1);
            partitions.flow = fewer.unwrap_or(partitions.flow);
        }
        let filter = taken(number, &self.plan.config);
        let worker = self.worker(number);
        let (name, instance) = worker.ids();
        WorkerConfig {
            partitions,
            lanes: (0..lanes).map(lane).collect(),
            capabilities: worker.capabilities(),
            filter,
            capacity: usize::try_from(capacity).unwrap_or(1),
            lease_ttl: Duration::from_millis(lease_ms),
            poll_every: Duration::from_millis(poll.max(1)),
            drain_within: DRAIN_WITHIN,
            batch_timeout: Duration::from_millis(patience),
            retry_for: Duration::from_millis(retry_for),
            ..WorkerConfig::new(name, instance)
        }
    }

    /// A worker crashes and loses its work; after a while a new instance starts.
    pub(crate) fn kill_worker(&mut self, number: u8) {
        let actor = Actor::Worker(number);
        let wait = self.random(Purpose::Faults, actor).within(DEAD);
        if self.worker(number).machine.is_none() {
            return;
        }
        self.emit(actor, EventKind::Died);
        let worker = self.worker(number);
        let Worker { incarnation, gone, skew_ms, unpushed_until, .. } = *worker;
        // The timers of the dead instance must not reach the next one.
        let fresh = Worker::new(number);
        *worker = Worker { incarnation: incarnation + 1, gone, skew_ms, unpushed_until, ..fresh };
        self.worker_timer_in(number, wait, WorkerWait::Start);
    }

    /// The duration of leases. After the faults it is long enough for the links, or the run might
    /// never come to rest.
    pub(super) fn lease_ms(&self) -> u64 {
        let lease_ms = self.plan.config.lease.0;
        if self.faults_are_on() || self.lease_is_sane() {
            lease_ms
        } else {
            lease_ms.max(SANE_LEASE_MS)
        }
    }

    /// Whether leases can be renewed several times before they end.
    pub(super) fn lease_is_sane(&self) -> bool {
        self.plan.config.lease.0 >= 500 + 12 * self.plan.config.link.0.to
    }

    /// Pushes messages to the workers that subscribe to their channels.
    pub(crate) fn push_to_workers(&mut self, messages: &[Message]) {
        for message in messages {
            let channel = String::from_utf8_lossy(&message.channel).into_owned();
            let Ok(Some(input)) = Input::pushed(&channel, &message.payload) else { continue };
            for number in 1..=u8::try_from(self.clients.workers.len()).unwrap_or(u8::MAX) {
                let now_ms = self.now_ms;
                let lanes = (0..self.plan.config.lanes.max(1)).map(lane).collect::<Vec<_>>();
                let worker = self.worker(number);
                let subscribed = Input::channels(&lanes, &worker.ids().1).contains(&channel);
                if worker.machine.is_none() || worker.unpushed_until > now_ms || !subscribed {
                    continue;
                }
                let actor = Actor::Worker(number);
                let link = self.plan.config.link.0;
                let wait = self.random(Purpose::Network, actor).within(link);
                let input = WorkerWait::Input(Box::new(input.clone()));
                self.worker_timer_in(number, wait, input);
            }
        }
    }

    /// Delivers the results of a batch to the worker that sent it.
    pub(crate) fn deliver_to_worker(
        &mut self,
        actor: Actor,
        incarnation: u32,
        ticket: selvedge_core::command::Ticket,
        answers: Vec<Answer>,
    ) {
        let Actor::Worker(number) = actor else { return };
        if self.worker(number).incarnation == incarnation && !self.worker(number).gone {
            self.feed_worker(number, Input::Settled { ticket, answers });
        }
    }

    /// Gives a worker an input, carries out its effects, and schedules its next deadline.
    pub(crate) fn feed_worker(&mut self, number: u8, input: Input) {
        let now_ms = self.now_ms;
        let worker = self.worker(number);
        if worker.frozen_until > now_ms {
            worker.backlog.push(input);
            let wait = worker.frozen_until - now_ms;
            return self.worker_timer_in(number, wait, WorkerWait::Thaw);
        }
        let now = worker.clock(now_ms);
        let Some(input) = self.changed_input(number, input) else { return };
        let before = self.profiler.enter(Part::Engines);
        self.snapshot_before(number, now, &input);
        if let Some(machine) = &mut self.worker(number).machine {
            machine.handle(now, input);
        }
        self.profiler.enter(before);
        let incarnation = self.worker(number).incarnation;
        while let Some(effect) = self.next_effect(number, incarnation) {
            if self.dies_before(number, &effect) {
                return self.kill_worker(number);
            }
            self.carry_out(number, effect);
        }
        if self.worker(number).machine.as_ref().is_some_and(Machine::is_drained) {
            // Its process ends, and another one takes its place.
            return self.kill_worker(number);
        }
        self.set_worker_alarm(number);
    }

    /// What the machine gets instead of an input, if a bug is planted.
    fn changed_input(&mut self, number: u8, input: Input) -> Option<Input> {
        let Some(PlantedBug::Worker(bug)) = self.bug else { return Some(input) };
        let capacity = usize::try_from(self.plan.config.capacity).unwrap_or(usize::MAX);
        let (input, more) = self.worker(number).shim.input(bug, capacity, input);
        if let Some(more) = more {
            self.worker_timer_in(number, 0, WorkerWait::Input(Box::new(more)));
        }
        input
    }

    /// The next effect, unless the worker died from the last one.
    fn next_effect(&mut self, number: u8, incarnation: u32) -> Option<Effect> {
        let worker = self.worker(number);
        if worker.incarnation != incarnation {
            return None;
        }
        worker.machine.as_mut()?.next_effect()
    }

    fn carry_out(&mut self, number: u8, mut effect: Effect) {
        let actor = Actor::Worker(number);
        if let Some(PlantedBug::Worker(bug)) = self.bug {
            let (now_ms, partitions) = (self.now_ms, self.plan.config.flow_partitions);
            let shim = &mut self.worker(number).shim;
            let Some(changed) = shim.effect(bug, now_ms, partitions, effect) else { return };
            effect = changed;
        }
        match effect {
            Effect::Send { ticket, slot, batch } => {
                let commands = argv_of(batch);
                let incarnation = self.worker(number).incarnation;
                let Some(effects) = self.fault_effects(actor, &commands) else { return };
                let effects = self.worker_effects(number, &commands, effects);
                let reply_to = ReplyTo::Worker { incarnation, ticket };
                self.send(actor, slot, commands, effects, reply_to);
            }
            Effect::Start { lane: _, work } => self.start_handler(number, work),
            Effect::Cancel { lease, .. } => self.cancel_handler(number, lease),
            Effect::Abort { lease } => self.remove_handler(number, lease),
            Effect::Answer { id, answer } => self.answer_handler(number, id, answer),
            Effect::Observe(fact) => self.emit(actor, EventKind::WorkerObserved(fact)),
        }
    }

    pub(crate) fn set_worker_alarm(&mut self, number: u8) {
        let now_ms = self.now_ms;
        let worker = self.worker(number);
        let Some(deadline) = worker.machine.as_ref().and_then(Machine::deadline) else { return };
        let wait_ms = deadline.0.saturating_sub(worker.clock(now_ms).0).max(1);
        let wake_ms = now_ms.saturating_add(wait_ms);
        if worker.wake_ms.is_none_or(|known| wake_ms < known || known <= now_ms) {
            worker.wake_ms = Some(wake_ms);
            self.worker_timer_in(number, wait_ms, WorkerWait::Wake);
        }
    }

    fn handler_ended(&mut self, number: u8, lease: LeaseId, outcome: HandlerOutcome) {
        self.remove_handler(number, lease);
        self.feed_worker(number, Input::Ended { lease, outcome });
    }
}
