//! The engines: runs the production crate, feeds it inputs and carries out its effects.

use core::num::NonZeroU16;
use core::time::Duration;

use selvedge_core::engine::{Effect, Engine, EngineConfig, Input, Observation, ScannerName};
use selvedge_core::partition::PartitionCounts;
use selvedge_core::time::LocalTime;
use selvedge_lua::host::Message;

use super::random_streams::Purpose;
use super::transport::{ReplyTo, argv_of};
use super::{Scheduled, World};
use crate::actor::lane;
use crate::canary;
use crate::event::{Actor, EventKind, Phase};
use crate::plan::{Config, Span};
use crate::profile::Part;

/// How long it takes to load the library after an engine reports it as missing.
const RELOAD: Span = Span { from: 5, to: 1_500 };
/// How long a crashed engine stays down.
const DEAD: Span = Span { from: 50, to: 8_000 };

/// The clock of an engine at the start of a run: larger than any skew.
const CLOCK_START_MS: u64 = 10_000_000_000;

/// A process that runs an engine. It stays when the engine dies, and starts the next one.
pub(crate) struct EngineProcess {
    pub(crate) engine: Option<Engine>,
    pub(crate) config: EngineConfig,
    /// How many engines were started here.
    pub(crate) incarnation: u32,
    /// Until when it is frozen.
    pub(crate) frozen_until: u64,
    /// Until when it gets no pushes.
    pub(crate) unpushed_until: u64,
    /// The offset of its clock.
    pub(crate) skew_ms: i64,
    /// Whether it is never started again.
    pub(crate) gone: bool,
    wake_ms: Option<u64>,
    reloading: bool,
}

impl EngineProcess {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            engine: None,
            config: engine_config(config),
            incarnation: 0,
            frozen_until: 0,
            unpushed_until: 0,
            skew_ms: 0,
            gone: false,
            wake_ms: None,
            reloading: false,
        }
    }

    /// The time of its clock.
    fn clock(&self, now_ms: u64) -> LocalTime {
        LocalTime((CLOCK_START_MS + now_ms).saturating_add_signed(self.skew_ms))
    }
}

/// The partition counts of a deployment.
pub(crate) fn partition_counts(config: &Config) -> PartitionCounts {
    let count = |number: u64| {
        u16::try_from(number).ok().and_then(NonZeroU16::new).unwrap_or(NonZeroU16::MIN)
    };
    PartitionCounts {
        flow: count(config.flow_partitions),
        budget: count(config.budget_partitions),
        quota: count(config.quota_partitions),
    }
}

/// The configuration of an engine without faults.
pub(crate) fn engine_config(config: &Config) -> EngineConfig {
    let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX).max(1);
    let intervals = match config.interval.0 {
        0 => Default::default(),
        every => ScannerName::ALL.iter().map(|name| (*name, interval(*name, every))).collect(),
    };
    let mut engine = EngineConfig::default();
    engine.partitions = partition_counts(config);
    engine.lanes = (0..config.lanes.max(1)).map(lane).collect();
    engine.intervals = intervals;
    engine.longest_sleep = Duration::from_millis(config.longest_sleep_ms());
    engine.window = size(config.window);
    engine.window_per_slot = size(config.window_per_slot);
    engine.batch_timeout = Duration::from_millis(config.ticket_timeout.0);
    engine.dispatch_concurrency = size(config.dispatch_concurrency);
    engine.dispatch_queue = size(config.dispatch_queue);
    engine.keep_ended = Some(config.keep).filter(|keep| *keep > 0);
    engine
}

/// The interval of a scanner. Two scanners visit every execution each time; with a short interval
/// they would take most of a run.
fn interval(name: ScannerName, every_ms: u64) -> Duration {
    let visits_all = matches!(name, ScannerName::IndexReconciler | ScannerName::RetentionTrimmer);
    Duration::from_millis(if visits_all { every_ms.max(VISIT_ALL_EVERY_MS) } else { every_ms })
}

/// Rare enough, and still twice within the quiet time at the end.
const VISIT_ALL_EVERY_MS: u64 = 3_000;

impl World {
    pub(crate) fn engine_process(&mut self, number: u8) -> Option<&mut EngineProcess> {
        self.engine_processes.get_mut(usize::from(number).checked_sub(1)?)
    }

    pub(crate) fn start_engine(&mut self, number: u8) {
        let seed = self.random(Purpose::Topology, Actor::Engine(number)).bits();
        self.start_engine_seeded(number, seed);
    }

    pub(crate) fn start_engine_seeded(&mut self, number: u8, seed: u64) {
        let now_ms = self.now_ms;
        let Some(engine_process) = self.engine_process(number) else { return };
        if engine_process.engine.is_some() || engine_process.gone {
            return;
        }
        let now = engine_process.clock(now_ms);
        engine_process.engine = Some(Engine::new(engine_process.config.clone(), seed, now));
        engine_process.incarnation += 1;
        (engine_process.wake_ms, engine_process.reloading, engine_process.frozen_until) =
            (None, false, 0);
        let incarnation = engine_process.incarnation;
        self.emit(Actor::Engine(number), EventKind::Started);
        self.schedule(now_ms, Scheduled::Wake { engine: number, incarnation });
    }

    /// An actor dies and loses its memory; after a while it is started again.
    pub(crate) fn kill(&mut self, actor: Actor) {
        match actor {
            Actor::Engine(number) => {
                let wait = self.random(Purpose::Faults, actor).within(DEAD);
                self.kill_engine(number, wait);
            }
            Actor::Worker(number) => self.kill_worker(number),
            Actor::Caller(_) | Actor::Signaller(_) => self.kill_caller(actor),
            Actor::World | Actor::Foreign(_) | Actor::Node(_) => {}
        }
    }

    pub(crate) fn kill_engine(&mut self, number: u8, dead_ms: u64) {
        let Some(engine_process) = self.engine_process(number) else { return };
        if engine_process.engine.take().is_none() {
            return;
        }
        self.counters.engine_deaths += 1;
        self.emit(Actor::Engine(number), EventKind::Died);
        self.schedule(self.now_ms + dead_ms, Scheduled::Restart { engine: number });
    }

    pub(crate) fn wake(&mut self, engine: u8, incarnation: u32) {
        let now_ms = self.now_ms;
        let Some(engine_process) = self.engine_process(engine) else { return };
        if engine_process.incarnation == incarnation
            && engine_process.wake_ms.is_none_or(|wake_ms| wake_ms <= now_ms)
        {
            engine_process.wake_ms = None;
            self.feed(engine, Input::Wake);
        }
    }

    pub(crate) fn engine_input(&mut self, engine: u8, incarnation: Option<u32>, input: Input) {
        let Some(engine_process) = self.engine_process(engine) else { return };
        if incarnation.is_none_or(|incarnation| engine_process.incarnation == incarnation) {
            self.feed(engine, input);
        }
    }

    /// Delivers the results of a batch to the engine that sent it.
    pub(crate) fn deliver_to_engine(&mut self, actor: Actor, incarnation: u32, input: Input) {
        if let Actor::Engine(engine) = actor {
            self.engine_input(engine, Some(incarnation), input);
        }
    }

    pub(crate) fn push(&mut self, messages: &[Message]) {
        if !self.plan.config.push {
            return;
        }
        self.push_to_callers(messages);
        self.push_to_workers(messages);
        for message in messages {
            let channel = String::from_utf8_lossy(&message.channel);
            let Ok(Some(said)) = Input::pushed(&channel, &message.payload) else { continue };
            for at in 0..self.engine_processes.len() {
                let engine = u8::try_from(at + 1).unwrap_or(u8::MAX);
                let (incarnation, unpushed) = (
                    self.engine_processes[at].incarnation,
                    self.engine_processes[at].unpushed_until,
                );
                if unpushed > self.now_ms {
                    continue;
                }
                let span = self.plan.config.link.0;
                let delay = self.random(Purpose::Network, Actor::Engine(engine)).within(span);
                let input = Box::new(said.clone());
                let input =
                    Scheduled::EngineInput { engine, incarnation: Some(incarnation), input };
                self.schedule(self.now_ms + delay, input);
            }
        }
    }

    /// Gives an engine an input, carries out its effects, and schedules its next deadline.
    fn feed(&mut self, number: u8, input: Input) {
        let now_ms = self.now_ms;
        let Some(engine_process) = self.engine_process(number) else { return };
        let incarnation = engine_process.incarnation;
        if engine_process.frozen_until > now_ms {
            // Inputs for a frozen process wait in its buffers.
            let (due, input) = (engine_process.frozen_until, Box::new(input));
            return self.schedule(
                due,
                Scheduled::EngineInput { engine: number, incarnation: Some(incarnation), input },
            );
        }
        let now = engine_process.clock(now_ms);
        let before = self.profiler.enter(Part::Engines);
        if let Some(engine) =
            self.engine_process(number).and_then(|engine_process| engine_process.engine.as_mut())
        {
            engine.handle(now, input);
        }
        self.profiler.enter(before);
        while let Some(effect) = self
            .engine_process(number)
            .and_then(|engine_process| engine_process.engine.as_mut()?.next_effect())
        {
            let actor = Actor::Engine(number);
            match effect {
                Effect::Observe(fact) => self.observe(number, fact),
                Effect::Send { ticket, slot, batch } => {
                    let commands = argv_of(batch);
                    let Some(mut effects) = self.fault_effects(actor, &commands) else { return };
                    for (call_effects, argv) in effects.iter_mut().zip(&commands) {
                        call_effects.request_lost |= canary::drops_call(self.bug, argv);
                    }
                    self.send(
                        actor,
                        slot,
                        commands,
                        effects,
                        ReplyTo::Engine { incarnation, ticket },
                    );
                }
            }
        }
        self.set_alarm(number);
    }

    fn set_alarm(&mut self, number: u8) {
        let now_ms = self.now_ms;
        let Some(engine_process) = self.engine_process(number) else { return };
        let Some(deadline) = engine_process.engine.as_ref().and_then(Engine::deadline) else {
            return;
        };
        let wake_ms =
            (now_ms + deadline.0.saturating_sub(engine_process.clock(now_ms).0)).max(now_ms + 1);
        if engine_process.wake_ms.is_none_or(|known| wake_ms < known) {
            engine_process.wake_ms = Some(wake_ms);
            let incarnation = engine_process.incarnation;
            self.schedule(wake_ms, Scheduled::Wake { engine: number, incarnation });
        }
    }

    /// Reacts to an observation as the shell does: loads the library when it is missing.
    fn observe(&mut self, number: u8, fact: Observation) {
        let missing = matches!(fact, Observation::LibraryMissing { .. });
        self.emit(Actor::Engine(number), EventKind::Observed(fact));
        if !missing {
            return;
        }
        let Some(engine_process) = self.engine_process(number) else { return };
        if !std::mem::replace(&mut engine_process.reloading, true) {
            let wait = self.random(Purpose::Network, Actor::Engine(number)).within(RELOAD);
            self.schedule(self.now_ms + wait, Scheduled::Reload { engine: number });
        }
    }

    /// Loads the library on all nodes and tells the engine.
    pub(crate) fn reload(&mut self, number: u8) {
        self.network.servers.load_library();
        self.emit(Actor::Engine(number), EventKind::Note("loads the library".to_owned()));
        let Some(engine_process) = self.engine_process(number) else { return };
        engine_process.reloading = false;
        let incarnation = engine_process.incarnation;
        self.engine_input(number, Some(incarnation), Input::LibraryLoaded);
    }

    /// Whether faults are still injected.
    pub(crate) fn faults_are_on(&self) -> bool {
        self.phase == Phase::Safety
    }
}
