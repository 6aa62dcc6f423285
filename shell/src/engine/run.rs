//! One life of an engine: a single task that carries out what the machine decides.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use selvedge_core::call::library::CountsFixed;
use selvedge_core::engine::{Answer, Effect, Engine as Machine, EngineConfig, Input, Ticket};
use selvedge_core::error::{Applied, Class, ServerError};
use selvedge_core::id::LaneId;
use selvedge_core::time::EngineTime;
use selvedge_core::value::Value;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::health::{Phase, Record};
use crate::deployment;
use crate::observe::Observer;
use crate::secret::SecretSource;
use crate::store::{Push, Store, Subscription};

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What an engine needs to live.
#[derive(Clone)]
pub(super) struct Parts {
    pub(super) store: Store,
    pub(super) config: EngineConfig,
    pub(super) secrets: SecretSource,
    pub(super) record: Record,
    pub(super) observer: Observer,
    pub(super) stop: CancellationToken,
}

struct Life {
    parts: Parts,
    machine: Machine,
    born: Instant,
    flights: FuturesUnordered<Boxed<(Ticket, Vec<Answer>)>>,
    pushes: Subscription,
    pulse: Boxed<Pulse>,
    loads: Option<watch::Receiver<u64>>,
}

/// Lives until the engine is told to stop and has finished what was in flight.
pub(super) async fn live(parts: Parts) {
    let seed = uuid::Uuid::new_v4().as_u64_pair().0;
    let mut life = Life {
        machine: Machine::new(parts.config.clone(), seed, EngineTime(0)),
        born: Instant::now(),
        flights: FuturesUnordered::new(),
        pushes: parts.store.subscribe(&Input::channels().each_ref().map(String::as_str)),
        pulse: Box::pin(pulse(parts.clone(), true, Duration::ZERO)),
        loads: parts.store.library_loads(),
        parts,
    };
    let mut input = Input::Wake;
    loop {
        life.machine.handle(life.now(), input);
        life.carry_out();
        if life.machine.is_drained() {
            return;
        }
        input = life.next_input().await;
    }
}

impl Life {
    /// Waits for the next thing to happen.
    async fn next_input(&mut self) -> Input {
        let draining = self.parts.record.lock().phase == Phase::Draining;
        loop {
            let wake = self.wake_at();
            let happened = tokio::select! {
                Some((ticket, answers)) = self.flights.next() => {
                    Some(Input::Settled { ticket, answers })
                }
                push = self.pushes.next(), if !draining => self.read(push),
                () = sleep_until(wake) => Some(Input::Wake),
                () = self.parts.stop.cancelled(), if !draining => {
                    self.parts.record.lock().phase = Phase::Draining;
                    Some(Input::Drain)
                }
                pulse = &mut self.pulse, if !draining => self.felt(pulse),
                Some(()) = loaded(&mut self.loads) => {
                    self.parts.record.lock().library_loaded();
                    Some(Input::LibraryLoaded)
                }
            };
            let alive = self.pushes.is_alive();
            let mut record = self.parts.record.lock();
            record.push_alive = alive;
            record.beat(Instant::now(), self.machine.in_flight());
            drop(record);
            if let Some(input) = happened {
                return input;
            }
        }
    }

    fn carry_out(&mut self) {
        while let Some(effect) = self.machine.next_effect() {
            match effect {
                Effect::Send { ticket, batch, .. } => {
                    let store = self.parts.store.clone();
                    // A little less than the machine allows: whoever knows more should say it.
                    let within = self.parts.config.ticket_timeout.mul_f64(0.9);
                    self.flights
                        .push(Box::pin(async move { (ticket, store.run(batch, within).await) }));
                }
                Effect::Observe(fact) => self.parts.observer.observe(&fact),
            }
        }
    }

    fn read(&self, push: Push) -> Option<Input> {
        match push {
            Push::Gap => Some(Input::PushGap),
            Push::Message { channel, payload } => match Input::pushed(&channel, &payload) {
                Ok(input) => input,
                // Nobody's loss: the scanners find the same work.
                Err(error) => {
                    tracing::warn!(channel, %error, "a message says nothing");
                    None
                }
            },
        }
    }

    fn felt(&mut self, felt: Pulse) -> Option<Input> {
        let well = felt.wrote.and(felt.agreed);
        self.pulse = Box::pin(pulse(self.parts.clone(), well.is_ok(), PULSE_EVERY));
        self.parts.observer.pulse(felt.began, well.as_ref().err());
        felt.lanes.ok().map(Input::Lanes)
    }

    fn wake_at(&self) -> Instant {
        match self.machine.deadline() {
            Some(EngineTime(ms)) => self.born + Duration::from_millis(ms),
            None => Instant::now() + PULSE_EVERY,
        }
    }

    fn now(&self) -> EngineTime {
        EngineTime(u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX))
    }
}

/// Waits for the next load of the library; for ever where it cannot be lost.
async fn loaded(loads: &mut Option<watch::Receiver<u64>>) -> Option<()> {
    match loads {
        Some(loads) => loads.changed().await.ok(),
        None => std::future::pending().await,
    }
}

/// A sign of life of the store: a small write that is harmless to repeat, whether it is still the
/// deployment that we started on, and the lanes.
struct Pulse {
    began: Instant,
    wrote: Result<(), ServerError>,
    agreed: Result<(), ServerError>,
    lanes: Result<Vec<LaneId>, ServerError>,
}

/// Reading goes well on a replica and on a server that is full, so a write is what tells. Ours
/// also heals a registry that lost its lanes.
async fn pulse(parts: Parts, was_well: bool, after: Duration) -> Pulse {
    sleep(after).await;
    let began = Instant::now();
    let lanes = &parts.config.lanes;
    let batch = vec![deployment::register_lanes(lanes), deployment::list_lanes()];
    let mut answers = parts.store.run(batch, PULSE_EVERY).await.into_iter();
    let mut next = || match answers.next() {
        Some(Answer::Applied(Value::Error(text))) => Err(ServerError::from_reply(text)),
        Some(Answer::Applied(value)) => Ok(value),
        Some(Answer::NotApplied(error) | Answer::PerhapsApplied(error)) => Err(error),
        None => Err(ServerError::silence("not answered")),
    };
    let wrote = next().map(drop);
    let lanes = next().map(deployment::read_lanes);
    let agreed = if wrote.is_ok() { agree(&parts, was_well).await } else { Ok(()) };
    Pulse { began, wrote, agreed, lanes }
}

/// Looks whether the store is still the deployment that we started on. One that came back empty is
/// prepared anew; one on which somebody has fixed other counts meanwhile is none that we can serve.
async fn agree(parts: &Parts, was_well: bool) -> Result<(), ServerError> {
    let counts = parts.config.partitions;
    let agreed = match deployment::fix_counts(&parts.store, counts).await {
        Ok(CountsFixed::Same) if was_well => Ok(()),
        Ok(_) => {
            deployment::prepare(&parts.store, counts, &parts.config.lanes, &parts.secrets).await
        }
        Err(error) => Err(error),
    };
    agreed.map_err(|error| {
        // What may pass is tried again with the next pulse, from the beginning: the counts may have
        // been written and the secrets not.
        let class = if error.may_pass() { Class::NotNow } else { Class::Denied };
        ServerError { class, applied: Applied::No, text: error.to_string() }
    })
}

/// A new lane is looked after within this time, and trouble is noticed within it. Two round trips.
const PULSE_EVERY: Duration = Duration::from_secs(2);
