//! A world: virtual time, servers, links, engines and everybody else, moved by one heap of things
//! that are to happen.

pub(crate) mod engines;
pub mod heap;
pub mod ledger;
pub mod servers;
mod settle;
mod spare;
pub mod stream;
pub(crate) mod transport;

use std::collections::BTreeMap;

use selvedge_core::engine::Input;

use selvedge_core::id::ExecutionId;
use selvedge_core::partition::Partition;

use crate::actor::caller::Caller;
use crate::actor::signal::KnownWaitpoint;
use crate::actor::worker::Worker;
use crate::actor::{Errand, Names};
use crate::canary::{Plant, WorldBug};
use crate::event::{Actor, Argv, CallId, Event, Phase, What};
use crate::fault::timed::Ending;
use crate::fault::{Fault, FaultCounts};
use crate::mark::Marks;
use crate::meter::{Meter, Part};
use crate::oracle::{self, Bench, Rest, View, Violation};
use crate::plan::{Plan, Rule, When};
use crate::trace::Trace;

use engines::Seat;
use heap::Heap;
use servers::Servers;
use stream::{Purpose, Stream, Streams};
use transport::{Links, Parcel};

/// What is to happen.
pub(crate) enum Happening {
    /// A call reaches its node.
    Arrive { parcel: u64, at: usize },
    /// A call reaches its node once more.
    Again { sender: Actor, call: CallId, node: usize, slot: u16, argv: Argv },
    /// The answers to a parcel reach its sender.
    Deliver { parcel: u64 },
    /// A client's patience ends.
    GiveUp { parcel: u64 },
    /// An engine's deadline comes.
    Wake { engine: u8, life: u32 },
    /// An engine hears something; whichever sits there, if no life is named.
    Hear { engine: u8, life: Option<u32>, input: Box<Input> },
    /// A dead engine comes back.
    Restart { engine: u8 },
    /// The library is loaded where it was missing.
    Reload { engine: u8 },
    /// A client is done waiting, working or resting.
    Tick { actor: Actor, life: u32, errand: Errand },
    /// A step of the plan is due.
    Step(usize),
    /// A fault of the plan is due.
    Strike(usize),
    /// A fault is over.
    End(Ending),
}

/// Counters of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Calls that servers carried out.
    pub calls: u64,
    /// Calls that wrote.
    pub commits: u64,
    /// Times that an engine died.
    pub engine_deaths: u64,
    /// Faults injected, by kind.
    pub faults: FaultCounts,
}

/// One world.
pub struct World {
    pub(crate) plan: Plan,
    pub(crate) now_ms: u64,
    pub(crate) phase: Phase,
    pub(crate) heap: Heap<Happening>,
    pub(crate) streams: Streams,
    pub(crate) servers: Servers,
    pub(crate) links: Links,
    pub(crate) parcels: BTreeMap<u64, Parcel>,
    pub(crate) seats: Vec<Seat>,
    pub(crate) workers: Vec<Worker>,
    pub(crate) callers: BTreeMap<Actor, Caller>,
    pub(crate) waitpoints: Vec<KnownWaitpoint>,
    /// How often each execution was claimed.
    pub(crate) claims: BTreeMap<ExecutionId, usize>,
    /// Splits that are not healed yet.
    pub(crate) splits: Vec<Ending>,
    /// Somebody who had not come to rest when everybody was last looked at.
    pub(crate) straggler: Option<ExecutionId>,
    /// Keys that are none of ours, until those who put them there tidy up.
    pub(crate) strangers: Vec<(Partition, String)>,
    pub(crate) names: Names,
    pub(crate) seen_calls: Vec<u32>,
    /// Which faults of the plan came about.
    struck: Vec<bool>,
    /// How often anything was injected.
    injected: u64,
    /// The longest time that any fault of the plan lasts.
    fault_lasts_ms: u64,
    /// Until when more goes wrong than links being slow and partitions being crowded.
    pub(crate) disturbed_until_ms: u64,
    pub(crate) counters: Counters,
    pub(crate) steps_left: usize,
    pub(crate) next_call: u64,
    pub(crate) next_parcel: u64,
    pub(crate) next_deed: u64,
    pub(crate) meter: Meter,
    pub(crate) trace: Trace,
    bench: Bench,
    pub(crate) plant: Option<Plant>,
    violations: Vec<Violation>,
    ordinal: u64,
}

impl World {
    /// The world of a plan, before anything has happened.
    ///
    /// # Errors
    /// When the servers refuse the library.
    pub fn new(
        plan: &Plan,
        library: &str,
        bench: Bench,
        plant: Option<Plant>,
    ) -> Result<Self, String> {
        let mut streams = Streams::new(plan.config.seed);
        let host_seed = streams.of(Purpose::Server, Actor::World).any();
        let follow = plan.faults.iter().any(|rule| needs_follower(rule.fault));
        let servers = Servers::new(&plan.config, library, host_seed, follow)?;
        let mut world = Self {
            plan: plan.clone(),
            now_ms: 0,
            phase: Phase::Safety,
            heap: Heap::default(),
            streams,
            servers,
            links: Links::default(),
            parcels: BTreeMap::new(),
            seats: Vec::new(),
            workers: Vec::new(),
            callers: BTreeMap::new(),
            waitpoints: Vec::new(),
            claims: BTreeMap::new(),
            splits: Vec::new(),
            straggler: None,
            strangers: Vec::new(),
            names: Names::new(engines::partition_counts(&plan.config)),
            seen_calls: vec![0; plan.faults.len()],
            struck: vec![false; plan.faults.len()],
            injected: 0,
            fault_lasts_ms: plan.faults.iter().map(Rule::lasts_ms).max().unwrap_or(0),
            disturbed_until_ms: 0,
            counters: Counters::default(),
            steps_left: plan.steps.len(),
            next_call: 0,
            next_parcel: 0,
            next_deed: 0,
            meter: Meter::start(None),
            trace: Trace::new(TAIL),
            bench,
            plant,
            violations: Vec::new(),
            ordinal: 0,
        };
        world.people();
        Ok(world)
    }

    /// Keeps so many of the last events from now on.
    pub fn keep_events(&mut self, count: usize) {
        self.trace = self.trace.keeping(count);
    }

    /// Brings up everybody, and puts steps and timed faults on the heap.
    fn people(&mut self) {
        self.emit(Actor::World, What::Phase(Phase::Safety));
        self.provision();
        for engine in 1..=self.plan.config.engines.clamp(1, 7) {
            let mut seat = Seat::new(&self.plan.config);
            if self.plant == Some(Plant::World(WorldBug::OneBatchAtATime)) {
                seat.config.window = 1;
            }
            self.seats.push(seat);
            self.start_engine(u8::try_from(engine).unwrap_or(1));
        }
        for number in 1..=self.plan.config.workers.min(9) {
            let number = u8::try_from(number).unwrap_or(1);
            self.workers.push(Worker::new(number));
            let wait = self.plan.config.idle.0;
            let wait = self.chance(Purpose::Workload, Actor::Worker(number)).within(wait);
            self.rise(number, wait);
        }
        for at in 0..self.plan.steps.len() {
            self.schedule(self.plan.steps[at].at_ms, Happening::Step(at));
        }
        for at in 0..self.plan.faults.len() {
            if let When::At(ms) = self.plan.faults[at].when {
                self.schedule(ms, Happening::Strike(at));
            }
        }
    }

    /// Lets the next thing happen, if it is due by `until_ms`; says whether it did.
    pub fn step(&mut self, until_ms: u64) -> bool {
        if self.heap.next_ms().is_none_or(|next| next > until_ms) {
            self.now_ms = until_ms.max(self.now_ms);
            return false;
        }
        let Some((due_ms, happening)) = self.heap.pop() else { return false };
        self.now_ms = due_ms.max(self.now_ms);
        match happening {
            Happening::Arrive { parcel, at } => self.arrive(parcel, at),
            Happening::Again { sender, call, node, slot, argv } => {
                self.arrive_again(sender, call, node, slot, &argv);
            }
            Happening::Deliver { parcel } => self.deliver(parcel),
            Happening::GiveUp { parcel } => self.give_up(parcel),
            Happening::Wake { engine, life } => self.wake(engine, life),
            Happening::Hear { engine, life, input } => self.hear(engine, life, *input),
            Happening::Restart { engine } => self.start_engine(engine),
            Happening::Reload { engine } => self.reload(engine),
            Happening::Tick { actor, life, errand } => self.tick_came(actor, life, errand),
            Happening::Step(at) => self.take_step(at),
            Happening::Strike(at) => self.strike(at),
            Happening::End(ending) => self.end(ending),
        }
        true
    }

    /// Puts something on the heap.
    pub(crate) fn schedule(&mut self, at_ms: u64, happening: Happening) {
        let permute = self.plan.config.permute;
        let tie = if permute { self.chance(Purpose::Network, Actor::World).any() } else { 0 };
        self.heap.push(at_ms.max(self.now_ms), tie, happening);
    }

    pub(crate) fn chance(&mut self, purpose: Purpose, actor: Actor) -> &mut Stream {
        self.streams.of(purpose, actor)
    }

    /// Tells everybody who listens what happened.
    pub(crate) fn emit(&mut self, actor: Actor, what: What) {
        self.emit_touching(actor, what, &[]);
    }

    pub(crate) fn emit_touching(&mut self, actor: Actor, what: What, touched: &[Vec<u8>]) {
        let event = Event { at_ms: self.now_ms, ordinal: self.ordinal, actor, what };
        self.ordinal += 1;
        let before = self.meter.turn_to(Part::StateOracles);
        if !touched.is_empty() {
            self.audit_touched();
        }
        self.meter.turn_to(Part::HistoryOracles);
        let (servers, links) = (&self.servers, &self.links);
        let view = View {
            now_ms: self.now_ms,
            phase: self.phase,
            config: &self.plan.config,
            shards: &servers.audited,
            touched,
            ledger: &servers.ledger,
            owners: &|slot| servers.owner(slot),
            slow_until: &|shard| links.slow_until(servers.primary(shard)),
            disturbed_until_ms: self.disturbed_until_ms,
        };
        let found = self.bench.see(&event, &view);
        self.note(found);
        self.meter.turn_to(Part::Trace);
        self.trace.add(event);
        self.meter.turn_to(before);
    }

    /// Lets the state oracles look at whom the last changes concern.
    fn audit_touched(&mut self) {
        let Servers { audited, ledger, .. } = &mut self.servers;
        let found: Vec<Violation> =
            audited.iter_mut().flat_map(|shard| oracle::audit_touched(shard, ledger)).collect();
        let found = self.bench.heed(found);
        self.note(found);
    }

    /// Keeps what was found, once. While the world runs, what was damaged on purpose may still be
    /// put right; in the end it counts, and needs its excuse.
    fn note(&mut self, found: Vec<Violation>) {
        for found in found {
            let early = found.excuse.is_some() && self.phase < Phase::Rest;
            if !early && !self.violations.contains(&found) {
                self.violations.push(found);
            }
        }
    }

    /// Notes that a fault was injected.
    pub(crate) fn inflict(&mut self, fault: Fault, detail: impl Into<String>) {
        *self.counters.faults.entry(fault).or_default() += 1;
        self.injected += 1;
        if !fault.burdens() {
            let end = self.now_ms + self.fault_lasts_ms;
            self.disturbed_until_ms = self.disturbed_until_ms.max(end);
        }
        let detail = detail.into();
        self.emit(Actor::World, What::Fault { fault, detail });
    }

    /// How often anything was injected so far.
    pub(crate) const fn injected(&self) -> u64 {
        self.injected
    }

    /// Notes that these faults of the plan came about, if anything was injected since.
    pub(crate) fn note_struck(&mut self, rules: &[usize], injected_before: u64) {
        if self.injected > injected_before {
            rules.iter().for_each(|at| self.struck[*at] = true);
        }
    }

    /// The faults of the plan that never came about, by their places in it.
    #[must_use]
    pub fn unstruck(&self) -> Vec<usize> {
        (0..self.struck.len()).filter(|at| !self.struck[*at]).collect()
    }

    /// Enters a phase.
    pub(crate) fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.emit(Actor::World, What::Phase(phase));
    }

    /// Lets the oracles look at the end.
    pub(crate) fn rest(&mut self, end: Rest) {
        let before = self.meter.turn_to(Part::StateOracles);
        self.servers.advance(self.now_ms);
        let (servers, links) = (&self.servers, &self.links);
        let view = View {
            now_ms: self.now_ms,
            phase: self.phase,
            config: &self.plan.config,
            shards: &servers.audited,
            touched: &[],
            ledger: &servers.ledger,
            owners: &|slot| servers.owner(slot),
            slow_until: &|shard| links.slow_until(servers.primary(shard)),
            disturbed_until_ms: self.disturbed_until_ms,
        };
        let mut found = self.bench.rest(end, &view);
        for shard in &servers.audited {
            found.extend(self.bench.heed(oracle::audit(shard, &servers.ledger)));
        }
        self.note(found);
        self.meter.turn_to(before);
    }

    /// What was found so far.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// How often each mark was hit.
    #[must_use]
    pub const fn marks(&self) -> &Marks {
        self.bench.marks()
    }

    pub(crate) fn rule(&self, at: usize) -> &Rule {
        &self.plan.faults[at]
    }
}

/// Whether a fault takes a shard back to what a replica has seen.
const fn needs_follower(fault: Fault) -> bool {
    matches!(
        fault,
        Fault::FailoverLosesSuffix
            | Fault::EpochRepeats
            | Fault::AmnesiaRestart
            | Fault::StaleReplicaRead
    )
}

/// How many events are kept for the report.
const TAIL: usize = 400;
