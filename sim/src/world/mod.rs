//! The simulated world: virtual time, servers, links, engines and clients.

pub mod commit_log;
pub(crate) mod delivery;
pub(crate) mod engines;
mod host_pool;
pub mod random_streams;
pub mod servers;
mod settle;
pub(crate) mod transport;
pub mod virtual_time;

use std::collections::BTreeMap;

use selvedge_core::id::ExecutionId;
use selvedge_core::partition::Partition;

use crate::actor::Names;
use crate::actor::caller::Caller;
use crate::actor::signal::KnownWaitpoint;
use crate::actor::worker::{Worker, WorkerWait};
use crate::canary::{PlantedBug, WorldBug};
use crate::event::{Actor, Event, EventKind, Phase};
use crate::fault::timed::FaultEnd;
use crate::fault::{Fault, FaultCounts};
use crate::mark::Marks;
use crate::oracle::{self, OracleSet, RunEnd, View, Violation};
use crate::plan::{FaultRule, Plan, Trigger};
use crate::profile::{Part, Profiler};
use crate::search::Draws;
use crate::trace::Trace;

use engines::EngineSlot;
use random_streams::{Purpose, RandomStreams};
use servers::Servers;
use transport::{Batch, Links};
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
    pub(crate) servers: Servers,
    pub(crate) links: Links,
    pub(crate) batches: BTreeMap<u64, Batch>,
    pub(crate) engine_slots: Vec<EngineSlot>,
    pub(crate) workers: Vec<Worker>,
    pub(crate) callers: BTreeMap<Actor, Caller>,
    pub(crate) waitpoints: Vec<KnownWaitpoint>,
    /// How often each execution was claimed.
    pub(crate) claims: BTreeMap<ExecutionId, usize>,
    /// Split brains that have not ended.
    pub(crate) splits: Vec<FaultEnd>,
    /// An execution that had not settled at the last check.
    pub(crate) straggler: Option<ExecutionId>,
    /// Keys of a foreign client, until it removes them.
    pub(crate) foreign_keys: Vec<(Partition, String)>,
    pub(crate) names: Names,
    pub(crate) seen_calls: Vec<u32>,
    /// Which faults of the plan were injected.
    fired: Vec<bool>,
    /// How many faults were injected.
    injected: u64,
    /// The longest duration of any fault of the plan.
    fault_lasts_ms: u64,
    /// Until when faults other than slow links and high load have an effect.
    pub(crate) disturbed_until_ms: u64,
    /// Until when faults have an effect that can cost a worker its lease.
    pub(crate) leases_risked_until_ms: u64,
    pub(crate) counters: Counters,
    pub(crate) steps_left: usize,
    pub(crate) next_call: u64,
    pub(crate) next_batch: u64,
    pub(crate) next_action: u64,
    pub(crate) profiler: Profiler,
    pub(crate) trace: Trace,
    oracles: OracleSet,
    pub(crate) bug: Option<PlantedBug>,
    violations: Vec<Violation>,
    ordinal: u64,
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
            servers,
            links: Links::default(),
            batches: BTreeMap::new(),
            engine_slots: Vec::new(),
            workers: Vec::new(),
            callers: BTreeMap::new(),
            waitpoints: Vec::new(),
            claims: BTreeMap::new(),
            splits: Vec::new(),
            straggler: None,
            foreign_keys: Vec::new(),
            names: Names::new(engines::partition_counts(&plan.config)),
            seen_calls: vec![0; plan.faults.len()],
            fired: vec![false; plan.faults.len()],
            injected: 0,
            fault_lasts_ms: plan.faults.iter().map(FaultRule::lasts_ms).max().unwrap_or(0),
            disturbed_until_ms: 0,
            leases_risked_until_ms: 0,
            counters: Counters::default(),
            steps_left: plan.steps.len(),
            next_call: 0,
            next_batch: 0,
            next_action: 0,
            profiler: Profiler::start(None),
            trace: Trace::new(TAIL),
            oracles,
            bug,
            violations: Vec::new(),
            ordinal: 0,
        };
        world.start_actors();
        Ok(world)
    }

    /// Keeps this many of the last events from now on.
    pub fn keep_events(&mut self, count: usize) {
        self.trace = self.trace.keeping(count);
    }

    /// Starts engines and workers, and schedules the steps and the timed faults of the plan.
    fn start_actors(&mut self) {
        self.emit(Actor::World, EventKind::Phase(Phase::Safety));
        self.provision();
        for engine in 1..=self.plan.config.engines.clamp(1, 7) {
            let mut engine_slot = EngineSlot::new(&self.plan.config);
            if self.bug == Some(PlantedBug::World(WorldBug::OneBatchAtATime)) {
                engine_slot.config.window = 1;
            }
            self.engine_slots.push(engine_slot);
            self.start_engine(u8::try_from(engine).unwrap_or(1));
        }
        for number in 1..=self.plan.config.workers.min(9) {
            let number = u8::try_from(number).unwrap_or(1);
            self.workers.push(Worker::new(number));
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
        let event = Event { at_ms: self.now_ms, ordinal: self.ordinal, actor, kind: what };
        self.ordinal += 1;
        let before = self.profiler.enter(Part::StateOracles);
        if !touched.is_empty() {
            self.audit_touched();
        }
        self.profiler.enter(Part::HistoryOracles);
        let (servers, links) = (&self.servers, &self.links);
        let view = View {
            now_ms: self.now_ms,
            phase: self.phase,
            config: &self.plan.config,
            shards: &servers.audited,
            touched,
            commit_log: &servers.commit_log,
            owners: &|slot| servers.owner(slot),
            slow_until: &|shard| links.slow_until(servers.primary(shard)),
            disturbed_until_ms: self.disturbed_until_ms,
            leases_risked_until_ms: self.leases_risked_until_ms,
        };
        let found = self.oracles.on_event(&event, &view);
        self.note(found);
        self.profiler.enter(Part::Trace);
        self.trace.add(event);
        self.profiler.enter(before);
    }

    /// Runs the state oracles on the records that the last call changed.
    fn audit_touched(&mut self) {
        let Servers { audited, commit_log, .. } = &mut self.servers;
        let found: Vec<Violation> =
            audited.iter_mut().flat_map(|shard| oracle::audit_touched(shard, commit_log)).collect();
        let found = self.oracles.selected(found);
        self.note(found);
    }

    /// Records findings, each once. Before the end of the run, findings with an excuse are left
    /// out: the damage may still be repaired.
    fn note(&mut self, found: Vec<Violation>) {
        for found in found {
            let early = found.excuse.is_some() && self.phase < Phase::Rest;
            if !early && !self.violations.contains(&found) {
                self.violations.push(found);
            }
        }
    }

    /// Counts an injected fault and emits the event.
    pub(crate) fn record_fault(&mut self, fault: Fault, detail: impl Into<String>) {
        *self.counters.faults.entry(fault).or_default() += 1;
        self.injected += 1;
        let end = self.now_ms + self.fault_lasts_ms;
        if !fault.only_adds_load() {
            self.disturbed_until_ms = self.disturbed_until_ms.max(end);
        }
        if !fault.spares_leases() {
            self.leases_risked_until_ms = self.leases_risked_until_ms.max(end);
        }
        let detail = detail.into();
        self.emit(Actor::World, EventKind::Fault { fault, detail });
    }

    /// How many faults were injected so far.
    pub(crate) const fn injected(&self) -> u64 {
        self.injected
    }

    /// Marks these faults of the plan as injected, if any fault was injected since.
    pub(crate) fn note_fired(&mut self, rules: &[usize], injected_before: u64) {
        if self.injected > injected_before {
            rules.iter().for_each(|at| self.fired[*at] = true);
        }
    }

    /// The faults of the plan that were not injected, by their position in the plan.
    #[must_use]
    pub fn unused_faults(&self) -> Vec<usize> {
        (0..self.fired.len()).filter(|at| !self.fired[*at]).collect()
    }

    /// Enters a phase.
    pub(crate) fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.emit(Actor::World, EventKind::Phase(phase));
    }

    /// Runs the oracles on the end of the run.
    pub(crate) fn judge_end(&mut self, end: RunEnd) {
        let before = self.profiler.enter(Part::StateOracles);
        self.servers.advance(self.now_ms);
        let (servers, links) = (&self.servers, &self.links);
        let view = View {
            now_ms: self.now_ms,
            phase: self.phase,
            config: &self.plan.config,
            shards: &servers.audited,
            touched: &[],
            commit_log: &servers.commit_log,
            owners: &|slot| servers.owner(slot),
            slow_until: &|shard| links.slow_until(servers.primary(shard)),
            disturbed_until_ms: self.disturbed_until_ms,
            leases_risked_until_ms: self.leases_risked_until_ms,
        };
        let mut found = self.oracles.on_end(end, &view);
        for shard in &servers.audited {
            found.extend(self.oracles.selected(oracle::audit(shard, &servers.commit_log)));
        }
        self.note(found);
        self.profiler.enter(before);
    }

    /// The findings so far.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// How often each mark was hit.
    #[must_use]
    pub const fn marks(&self) -> &Marks {
        self.oracles.marks()
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
