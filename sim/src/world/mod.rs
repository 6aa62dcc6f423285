//! The simulated world: virtual time, servers, links, engines and clients.

pub mod commit_log;
pub(crate) mod delivery;
pub(crate) mod engines;
mod host_pool;
mod parts;
pub mod random_streams;
pub mod servers;
mod settle;
pub(crate) mod transport;
pub mod virtual_time;

use selvedge_core::id::ExecutionId;

use crate::actor::worker::{Worker, WorkerWait};
use crate::canary::{PlantedBug, WorldBug};
use crate::event::{Actor, EventKind, Phase};
use crate::fault::{Fault, FaultCounts};
use crate::mark::Marks;
use crate::oracle::{self, OracleSet, RunEnd, View, Violation};
use crate::plan::{FaultRule, Plan, Trigger};
use crate::profile::{Part, Profiler};
use crate::search::Draws;

use engines::EngineProcess;
use parts::{Clients, Injections, Judges, Network};
use random_streams::{Purpose, RandomStreams};
use servers::Servers;
use virtual_time::EventQueue;
pub(crate) use virtual_time::Scheduled;

/// Counters of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Calls that servers applied or refused.
    pub calls: u64,
    /// Calls that wrote something.
    pub commits: u64,
    /// How often an engine died.
    pub engine_deaths: u64,
    /// Faults injected, by kind.
    pub faults: FaultCounts,
}

/// The state of a run.
pub struct World {
    pub(crate) plan: Plan,
    pub(crate) now_ms: u64,
    pub(crate) phase: Phase,
    pub(crate) queue: EventQueue<Scheduled>,
    pub(crate) streams: RandomStreams,
    pub(crate) network: Network,
    pub(crate) engine_processes: Vec<EngineProcess>,
    pub(crate) clients: Clients,
    pub(crate) injections: Injections,
    pub(crate) judges: Judges,
    /// An execution that had not settled at the last check.
    pub(crate) straggler: Option<ExecutionId>,
    pub(crate) counters: Counters,
    pub(crate) steps_left: usize,
    pub(crate) profiler: Profiler,
    pub(crate) bug: Option<PlantedBug>,
}

impl World {
    /// The world of a plan, at time 0.
    ///
    /// # Errors
    /// When the library does not load.
    pub fn new(
        plan: &Plan,
        library: &str,
        oracles: OracleSet,
        bug: Option<PlantedBug>,
    ) -> Result<Self, String> {
        let mut streams = RandomStreams::new(plan.config.seed);
        let host_seed = streams.of(Purpose::Server, Actor::World).bits();
        let keeps_replicas = plan.faults.iter().any(|rule| needs_replica(rule.fault));
        let servers = Servers::new(&plan.config, library, host_seed, keeps_replicas)?;
        let mut world = Self {
            plan: plan.clone(),
            now_ms: 0,
            phase: Phase::Safety,
            queue: EventQueue::default(),
            streams,
            network: Network::new(servers),
            engine_processes: Vec::new(),
            clients: Clients::new(engines::partition_counts(&plan.config)),
            injections: Injections::new(plan),
            judges: Judges::new(oracles, TAIL),
            straggler: None,
            counters: Counters::default(),
            steps_left: plan.steps.len(),
            profiler: Profiler::start(None),
            bug,
        };
        world.start_actors();
        Ok(world)
    }

    /// Keeps this many of the last events from now on.
    pub fn keep_events(&mut self, count: usize) {
        self.judges.trace = self.judges.trace.keeping(count);
    }

    /// Starts engines and workers, and schedules the steps and the timed faults of the plan.
    fn start_actors(&mut self) {
        self.emit(Actor::World, EventKind::Phase(Phase::Safety));
        self.provision();
        for engine in 1..=self.plan.config.engines.clamp(1, 7) {
            let mut engine_process = EngineProcess::new(&self.plan.config);
            if self.bug == Some(PlantedBug::World(WorldBug::OneBatchAtATime)) {
                engine_process.config.window = 1;
            }
            self.engine_processes.push(engine_process);
            self.start_engine(u8::try_from(engine).unwrap_or(1));
        }
        for number in 1..=self.plan.config.workers.min(9) {
            let number = u8::try_from(number).unwrap_or(1);
            self.clients.workers.push(Worker::new(number));
            let wait = self.plan.config.idle.0;
            let wait = self.random(Purpose::Workload, Actor::Worker(number)).within(wait);
            self.worker_timer_in(number, wait, WorkerWait::Start);
        }
        for at in 0..self.plan.steps.len() {
            self.schedule(self.plan.steps[at].at_ms, Scheduled::Step(at));
        }
        for at in 0..self.plan.faults.len() {
            if let Trigger::At(ms) = self.plan.faults[at].trigger {
                self.schedule(ms, Scheduled::Fault(at));
            }
        }
    }

    pub(crate) fn random(&mut self, purpose: Purpose, actor: Actor) -> &mut Draws {
        self.streams.of(purpose, actor)
    }

    /// Emits an event to the oracles, the marks and the trace.
    pub(crate) fn emit(&mut self, actor: Actor, what: EventKind) {
        self.emit_touching(actor, what, &[]);
    }

    pub(crate) fn emit_touching(&mut self, actor: Actor, what: EventKind, touched: &[Vec<u8>]) {
        let event = self.judges.event(self.now_ms, actor, what);
        let before = self.profiler.enter(Part::StateOracles);
        let Network { servers, links, .. } = &mut self.network;
        if !touched.is_empty() {
            self.judges.audit_touched(servers, self.phase);
        }
        self.profiler.enter(Part::HistoryOracles);
        let view = View {
            now_ms: self.now_ms,
            phase: self.phase,
            config: &self.plan.config,
            shards: &servers.audited,
            touched,
            commit_log: &servers.commit_log,
            owners: &|slot| servers.owner(slot),
            slow_until: &|shard| links.slow_until(servers.primary(shard)),
            disturbed_until_ms: self.injections.disturbed_until_ms,
            leases_risked_until_ms: self.injections.leases_risked_until_ms,
            bug: self.bug,
        };
        self.judges.on_event(&event, &view);
        self.profiler.enter(Part::Trace);
        self.judges.trace.add(event);
        self.profiler.enter(before);
    }

    /// Counts an injected fault and emits the event.
    pub(crate) fn record_fault(&mut self, fault: Fault, detail: impl Into<String>) {
        self.injections.record(fault, self.now_ms, &mut self.counters.faults);
        let detail = detail.into();
        self.emit(Actor::World, EventKind::Fault { fault, detail });
    }

    /// The faults of the plan that were not injected, by their position in the plan.
    #[must_use]
    pub fn unused_faults(&self) -> Vec<usize> {
        self.injections.unused()
    }

    /// Enters a phase.
    pub(crate) fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.emit(Actor::World, EventKind::Phase(phase));
    }

    /// Runs the oracles on the end of the run.
    pub(crate) fn judge_end(&mut self, end: RunEnd) {
        let before = self.profiler.enter(Part::StateOracles);
        self.network.servers.advance(self.now_ms);
        let Network { servers, links, .. } = &self.network;
        let view = View {
            now_ms: self.now_ms,
            phase: self.phase,
            config: &self.plan.config,
            shards: &servers.audited,
            touched: &[],
            commit_log: &servers.commit_log,
            owners: &|slot| servers.owner(slot),
            slow_until: &|shard| links.slow_until(servers.primary(shard)),
            disturbed_until_ms: self.injections.disturbed_until_ms,
            leases_risked_until_ms: self.injections.leases_risked_until_ms,
            bug: self.bug,
        };
        let mut found = self.judges.oracles.on_end(end, &view);
        for shard in &servers.audited {
            let audited = oracle::audit(shard, &servers.commit_log);
            found.extend(self.judges.oracles.selected(audited));
        }
        self.judges.note(found, self.phase);
        self.profiler.enter(before);
    }

    /// The findings so far.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        self.judges.violations()
    }

    /// How often each mark was hit.
    #[must_use]
    pub const fn marks(&self) -> &Marks {
        self.judges.oracles.marks()
    }

    pub(crate) fn rule(&self, at: usize) -> &FaultRule {
        &self.plan.faults[at]
    }
}

/// Whether a fault needs the older data of a replica.
const fn needs_replica(fault: Fault) -> bool {
    matches!(
        fault,
        Fault::FailoverLosesSuffix
            | Fault::EpochRepeats
            | Fault::AmnesiaRestart
            | Fault::StaleReplicaRead
    )
}

/// How many events are kept by default.
const TAIL: usize = 400;
