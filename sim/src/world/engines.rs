//! The engines: the crate that production runs, fed with what happens and relieved of what it
//! wants.

use core::num::NonZeroU16;
use core::time::Duration;

use selvedge_core::completion::{CHANNEL, Completion};
use selvedge_core::engine::{Effect, Engine, EngineConfig, Input, ScannerName};
use selvedge_core::partition::PartitionCounts;
use selvedge_core::time::EngineTime;
use selvedge_lua::host::Message;

use super::stream::Purpose;
use super::transport::{Return, words_of};
use super::{Happening, World};
use crate::actor::lane;
use crate::event::{Actor, What};
use crate::plan::Config;

/// Where an engine sits. The seat stays when the engine dies.
pub(crate) struct Seat {
    pub(crate) engine: Option<Engine>,
    pub(crate) config: EngineConfig,
    /// How often an engine has sat down here.
    pub(crate) life: u32,
    wake_ms: Option<u64>,
}

impl Seat {
    pub(crate) fn new(config: &Config) -> Self {
        Self { engine: None, config: engine_config(config), life: 0, wake_ms: None }
    }
}

fn engine_config(config: &Config) -> EngineConfig {
    let count = |number: u64| {
        u16::try_from(number).ok().and_then(NonZeroU16::new).unwrap_or(NonZeroU16::MIN)
    };
    let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX).max(1);
    let every = Duration::from_millis(config.interval.0);
    let intervals = match config.interval.0 {
        0 => Default::default(),
        _ => ScannerName::ALL.iter().map(|name| (*name, every)).collect(),
    };
    EngineConfig {
        partitions: PartitionCounts {
            flow: count(config.flow_partitions),
            budget: count(config.budget_partitions),
            quota: count(config.quota_partitions),
        },
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

impl World {
    pub(crate) fn start_engine(&mut self, number: u8) {
        let seed = self.chance(Purpose::Topology, Actor::Engine(number)).any();
        let now = EngineTime(self.now_ms);
        let seat = &mut self.seats[usize::from(number) - 1];
        if seat.engine.is_some() {
            return;
        }
        seat.engine = Some(Engine::new(seat.config.clone(), seed, now));
        seat.life += 1;
        seat.wake_ms = None;
        let life = seat.life;
        self.emit(Actor::Engine(number), What::Started);
        self.schedule(self.now_ms, Happening::Wake { engine: number, life });
    }

    /// An actor dies, and with it all it knows.
    pub(crate) fn kill(&mut self, actor: Actor) {
        let Actor::Engine(number) = actor else { return };
        let seat = &mut self.seats[usize::from(number) - 1];
        if seat.engine.take().is_none() {
            return;
        }
        self.counters.engine_deaths += 1;
        self.emit(actor, What::Died);
        let wait = 200 + self.chance(Purpose::Faults, actor).below(5_000);
        self.schedule(self.now_ms + wait, Happening::Restart { engine: number });
    }

    pub(crate) fn wake(&mut self, engine: u8, life: u32) {
        let seat = &mut self.seats[usize::from(engine) - 1];
        if seat.life == life && seat.wake_ms.is_none_or(|wake_ms| wake_ms <= self.now_ms) {
            seat.wake_ms = None;
            self.feed(engine, Input::Wake);
        }
    }

    pub(crate) fn hear(&mut self, engine: u8, life: u32, input: Input) {
        if self.seats[usize::from(engine) - 1].life == life {
            self.feed(engine, input);
        }
    }

    /// The answers to a batch come back to the engine that sent it.
    pub(crate) fn settle(&mut self, actor: Actor, life: u32, input: Input) {
        if let Actor::Engine(engine) = actor {
            self.hear(engine, life, input);
        }
    }

    pub(crate) fn push_completions(&mut self, messages: &[Message]) {
        if !self.plan.config.push {
            return;
        }
        for message in messages.iter().filter(|message| message.channel == CHANNEL.as_bytes()) {
            let Ok(ended) = Completion::read(&message.payload) else { continue };
            for at in 0..self.seats.len() {
                let number = u8::try_from(at + 1).unwrap_or(u8::MAX);
                let life = self.seats[at].life;
                let span = self.plan.config.link.0;
                let delay = self.chance(Purpose::Network, Actor::Engine(number)).within(span);
                let input = Box::new(Input::Completed(ended.clone()));
                self.schedule(self.now_ms + delay, Happening::Hear { engine: number, life, input });
            }
        }
    }

    /// Gives an engine one input, takes all its effects, and notes when to wake it.
    fn feed(&mut self, number: u8, input: Input) {
        let at = usize::from(number) - 1;
        let now = EngineTime(self.now_ms);
        let Some(engine) = self.seats[at].engine.as_mut() else { return };
        engine.handle(now, input);
        while let Some(effect) = self.seats[at].engine.as_mut().and_then(Engine::next_effect) {
            match effect {
                Effect::Observe(fact) => self.emit(Actor::Engine(number), What::Observed(fact)),
                Effect::Send { ticket, slot, batch } => {
                    let actor = Actor::Engine(number);
                    let life = self.seats[at].life;
                    let batch = words_of(batch);
                    let Some(spells) = self.spells(actor, &batch) else { return };
                    self.send(actor, slot, batch, spells, Return::Engine { life, ticket });
                }
            }
        }
        let deadline = self.seats[at].engine.as_ref().and_then(Engine::deadline);
        let Some(deadline) = deadline else { return };
        let wake_ms = deadline.0.max(self.now_ms + 1);
        let seat = &mut self.seats[at];
        if seat.wake_ms.is_none_or(|known| wake_ms < known) {
            seat.wake_ms = Some(wake_ms);
            let life = seat.life;
            self.schedule(wake_ms, Happening::Wake { engine: number, life });
        }
    }
}
