//! The engines: the crate that production runs, fed with what happens and relieved of what it
//! wants.

use core::num::NonZeroU16;
use core::time::Duration;

use selvedge_core::engine::{Effect, Engine, EngineConfig, Input, Observation, ScannerName};
use selvedge_core::partition::PartitionCounts;
use selvedge_core::time::EngineTime;
use selvedge_lua::host::Message;

use super::stream::Purpose;
use super::transport::{Return, words_of};
use super::{Happening, World};
use crate::actor::lane;
use crate::canary;
use crate::event::{Actor, Phase, What};
use crate::meter::Part;
use crate::plan::{Config, Span};

/// How long the world takes to load the library again when an engine says that it is missing.
const RELOAD: Span = Span { from: 5, to: 1_500 };
/// How long a dead engine stays dead.
const DEAD: Span = Span { from: 50, to: 8_000 };

/// What the clocks of engines say when a world begins: more than any of them is ever behind.
const CLOCK_START_MS: u64 = 10_000_000_000;

/// Where an engine sits. The seat stays when the engine dies.
pub(crate) struct Seat {
    pub(crate) engine: Option<Engine>,
    pub(crate) config: EngineConfig,
    /// How often an engine has sat down here.
    pub(crate) life: u32,
    /// Until when it is frozen.
    pub(crate) frozen_until: u64,
    /// Until when pushes do not reach it.
    pub(crate) unpushed_until: u64,
    /// How far its clock is ahead, or behind.
    pub(crate) skew_ms: i64,
    /// Nobody starts it again.
    pub(crate) gone: bool,
    wake_ms: Option<u64>,
    reloading: bool,
}

impl Seat {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            engine: None,
            config: engine_config(config),
            life: 0,
            frozen_until: 0,
            unpushed_until: 0,
            skew_ms: 0,
            gone: false,
            wake_ms: None,
            reloading: false,
        }
    }

    /// What its clock says.
    fn clock(&self, now_ms: u64) -> EngineTime {
        EngineTime((CLOCK_START_MS + now_ms).saturating_add_signed(self.skew_ms))
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

fn engine_config(config: &Config) -> EngineConfig {
    let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX).max(1);
    let intervals = match config.interval.0 {
        0 => Default::default(),
        every => ScannerName::ALL.iter().map(|name| (*name, interval(*name, every))).collect(),
    };
    EngineConfig {
        partitions: partition_counts(config),
        lanes: (0..config.lanes.max(1)).map(lane).collect(),
        intervals,
        window: size(config.window),
        window_per_slot: size(config.window_per_slot),
        ticket_timeout: Duration::from_millis(config.ticket_timeout.0),
        dispatch_concurrency: size(config.dispatch_concurrency),
        dispatch_queue: size(config.dispatch_queue),
        ..EngineConfig::default()
    }
}

/// How often a scanner comes by. Two of them visit everybody each time and hardly ever find work: a
/// world in which they hurry would do little else.
fn interval(name: ScannerName, every_ms: u64) -> Duration {
    let visits_all = matches!(name, ScannerName::IndexReconciler | ScannerName::RetentionTrimmer);
    Duration::from_millis(if visits_all { every_ms.max(VISIT_ALL_EVERY_MS) } else { every_ms })
}

/// Seldom enough, and still twice within the quiet time at the end.
const VISIT_ALL_EVERY_MS: u64 = 3_000;

impl World {
    pub(crate) fn seat(&mut self, number: u8) -> Option<&mut Seat> {
        self.seats.get_mut(usize::from(number).checked_sub(1)?)
    }

    pub(crate) fn start_engine(&mut self, number: u8) {
        let seed = self.chance(Purpose::Topology, Actor::Engine(number)).any();
        self.start_engine_seeded(number, seed);
    }

    pub(crate) fn start_engine_seeded(&mut self, number: u8, seed: u64) {
        let now_ms = self.now_ms;
        let Some(seat) = self.seat(number) else { return };
        if seat.engine.is_some() || seat.gone {
            return;
        }
        let now = seat.clock(now_ms);
        seat.engine = Some(Engine::new(seat.config.clone(), seed, now));
        seat.life += 1;
        (seat.wake_ms, seat.reloading, seat.frozen_until) = (None, false, 0);
        let life = seat.life;
        self.emit(Actor::Engine(number), What::Started);
        self.schedule(now_ms, Happening::Wake { engine: number, life });
    }

    /// An actor dies, and with it all it knows; after a while somebody starts it again.
    pub(crate) fn kill(&mut self, actor: Actor) {
        match actor {
            Actor::Engine(number) => {
                let wait = self.chance(Purpose::Faults, actor).within(DEAD);
                self.kill_engine(number, wait);
            }
            Actor::Worker(number) => self.kill_worker(number),
            Actor::Caller(_) | Actor::Signaller(_) => self.kill_caller(actor),
            Actor::World | Actor::Foreign(_) | Actor::Node(_) => {}
        }
    }

    pub(crate) fn kill_engine(&mut self, number: u8, dead_ms: u64) {
        let Some(seat) = self.seat(number) else { return };
        if seat.engine.take().is_none() {
            return;
        }
        self.counters.engine_deaths += 1;
        self.emit(Actor::Engine(number), What::Died);
        self.schedule(self.now_ms + dead_ms, Happening::Restart { engine: number });
    }

    pub(crate) fn wake(&mut self, engine: u8, life: u32) {
        let now_ms = self.now_ms;
        let Some(seat) = self.seat(engine) else { return };
        if seat.life == life && seat.wake_ms.is_none_or(|wake_ms| wake_ms <= now_ms) {
            seat.wake_ms = None;
            self.feed(engine, Input::Wake);
        }
    }

    pub(crate) fn hear(&mut self, engine: u8, life: Option<u32>, input: Input) {
        let Some(seat) = self.seat(engine) else { return };
        if life.is_none_or(|life| seat.life == life) {
            self.feed(engine, input);
        }
    }

    /// The answers to a batch come back to the engine that sent it.
    pub(crate) fn settle(&mut self, actor: Actor, life: u32, input: Input) {
        if let Actor::Engine(engine) = actor {
            self.hear(engine, Some(life), input);
        }
    }

    pub(crate) fn push(&mut self, messages: &[Message]) {
        if !self.plan.config.push {
            return;
        }
        for message in messages {
            let channel = String::from_utf8_lossy(&message.channel);
            let Ok(Some(said)) = Input::pushed(&channel, &message.payload) else { continue };
            for at in 0..self.seats.len() {
                let engine = u8::try_from(at + 1).unwrap_or(u8::MAX);
                let (life, unpushed) = (self.seats[at].life, self.seats[at].unpushed_until);
                if unpushed > self.now_ms {
                    continue;
                }
                let span = self.plan.config.link.0;
                let delay = self.chance(Purpose::Network, Actor::Engine(engine)).within(span);
                let input = Box::new(said.clone());
                let hear = Happening::Hear { engine, life: Some(life), input };
                self.schedule(self.now_ms + delay, hear);
            }
        }
    }

    /// Gives an engine one input, takes all its effects, and notes when to wake it.
    fn feed(&mut self, number: u8, input: Input) {
        let now_ms = self.now_ms;
        let Some(seat) = self.seat(number) else { return };
        let life = seat.life;
        if seat.frozen_until > now_ms {
            // What reaches a frozen process waits in its buffers.
            let (due, input) = (seat.frozen_until, Box::new(input));
            return self.schedule(due, Happening::Hear { engine: number, life: Some(life), input });
        }
        let now = seat.clock(now_ms);
        let before = self.meter.turn_to(Part::Engines);
        if let Some(engine) = self.seat(number).and_then(|seat| seat.engine.as_mut()) {
            engine.handle(now, input);
        }
        self.meter.turn_to(before);
        while let Some(effect) =
            self.seat(number).and_then(|seat| seat.engine.as_mut()?.next_effect())
        {
            let actor = Actor::Engine(number);
            match effect {
                Effect::Observe(fact) => self.observe(number, fact),
                Effect::Send { ticket, slot, batch } => {
                    let batch = words_of(batch);
                    let Some(mut spells) = self.spells(actor, &batch) else { return };
                    for (spell, argv) in spells.iter_mut().zip(&batch) {
                        spell.request_lost |= canary::deafen(self.plant, argv);
                    }
                    self.send(actor, slot, batch, spells, Return::Engine { life, ticket });
                }
            }
        }
        self.set_alarm(number);
    }

    fn set_alarm(&mut self, number: u8) {
        let now_ms = self.now_ms;
        let Some(seat) = self.seat(number) else { return };
        let Some(deadline) = seat.engine.as_ref().and_then(Engine::deadline) else { return };
        let wake_ms = (now_ms + deadline.0.saturating_sub(seat.clock(now_ms).0)).max(now_ms + 1);
        if seat.wake_ms.is_none_or(|known| wake_ms < known) {
            seat.wake_ms = Some(wake_ms);
            let life = seat.life;
            self.schedule(wake_ms, Happening::Wake { engine: number, life });
        }
    }

    /// What the shell would do about a fact: load the library where it is missing.
    fn observe(&mut self, number: u8, fact: Observation) {
        let missing = matches!(fact, Observation::LibraryMissing { .. });
        self.emit(Actor::Engine(number), What::Observed(fact));
        if !missing {
            return;
        }
        let Some(seat) = self.seat(number) else { return };
        if !std::mem::replace(&mut seat.reloading, true) {
            let wait = self.chance(Purpose::Network, Actor::Engine(number)).within(RELOAD);
            self.schedule(self.now_ms + wait, Happening::Reload { engine: number });
        }
    }

    /// The library is loaded again, everywhere, and the engine is told.
    pub(crate) fn reload(&mut self, number: u8) {
        self.servers.load_library();
        self.emit(Actor::Engine(number), What::Note("loads the library".to_owned()));
        let Some(seat) = self.seat(number) else { return };
        seat.reloading = false;
        let life = seat.life;
        self.hear(number, Some(life), Input::LibraryLoaded);
    }

    /// Whether the faults of the plan still strike.
    pub(crate) fn faults_are_on(&self) -> bool {
        self.phase == Phase::Safety
    }
}
