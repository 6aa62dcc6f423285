//! [`Driver`]: the task that runs the engine's state machine: feeds it inputs, sends its batches,
//! and wakes it at its deadlines.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use selvedge_core::command::{Answer, Ticket};
use selvedge_core::engine::{Effect, Engine as Machine, EngineConfig, Input};
use selvedge_core::error::{Class, ServerError};
use selvedge_core::id::LaneId;
use selvedge_core::requests::store_timeout;
use selvedge_core::time::LocalTime;
use selvedge_core::value::Value;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::health::{HealthRecord, Phase};
use crate::deployment;
use crate::observe::Observer;
use crate::secret::SecretSource;
use crate::store::{Push, Store, Subscription};

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Everything the engine's task needs; cloned for each restart.
#[derive(Clone)]
pub(super) struct Parts {
    pub(super) store: Store,
    pub(super) config: EngineConfig,
    pub(super) secrets: SecretSource,
    pub(super) record: HealthRecord,
    pub(super) observer: Observer,
    pub(super) stop: CancellationToken,
}

/// One run of the engine, from start to stop or panic.
struct Driver {
    parts: Parts,
    machine: Machine,
    started: Instant,
    in_flight: FuturesUnordered<Boxed<(Ticket, Vec<Answer>)>>,
    pushes: Subscription,
    heartbeat: Boxed<Heartbeat>,
    loads: Option<watch::Receiver<u64>>,
}

/// Runs until the engine is told to stop and nothing is in flight.
pub(super) async fn run(parts: Parts) {
    let seed = uuid::Uuid::new_v4().as_u64_pair().0;
    let mut driver = Driver {
        machine: Machine::new(parts.config.clone(), seed, LocalTime(0)),
        started: Instant::now(),
        in_flight: FuturesUnordered::new(),
        pushes: parts.store.subscribe(&Input::channels().each_ref().map(String::as_str)),
        heartbeat: Box::pin(send_heartbeat(parts.clone(), true, Duration::ZERO)),
        loads: parts.store.library_loads(),
        parts,
    };
    let mut input = Input::Wake;
    loop {
        driver.machine.handle(driver.now(), input);
        driver.apply_effects();
        if driver.machine.is_drained() {
            return;
        }
        input = driver.next_input().await;
    }
}

impl Driver {
    /// Waits for the next input to the machine.
    async fn next_input(&mut self) -> Input {
        let draining = self.parts.record.lock().phase == Phase::Draining;
        loop {
            let wake = self.wake_at();
            let happened = tokio::select! {
                Some((ticket, answers)) = self.in_flight.next() => {
                    Some(Input::Settled { ticket, answers })
                }
                push = self.pushes.next(), if !draining => self.on_push(push),
                () = sleep_until(wake) => Some(Input::Wake),
                () = self.parts.stop.cancelled(), if !draining => {
                    self.parts.record.lock().phase = Phase::Draining;
                    Some(Input::Drain)
                }
                heartbeat = &mut self.heartbeat, if !draining => self.on_heartbeat(heartbeat),
                Some(()) = library_loaded(&mut self.loads) => {
                    self.parts.record.lock().on_library_loaded();
                    Some(Input::LibraryLoaded)
                }
            };
            let (alive, refused) = (self.pushes.is_alive(), self.pushes.error());
            let mut record = self.parts.record.lock();
            record.push_alive = alive;
            record.push_error = refused;
            record.on_activity(Instant::now(), self.machine.in_flight());
            drop(record);
            if let Some(input) = happened {
                return input;
            }
        }
    }

    fn apply_effects(&mut self) {
        while let Some(effect) = self.machine.next_effect() {
            match effect {
                Effect::Send { ticket, batch, .. } => {
                    let store = self.parts.store.clone();
                    let within = store_timeout(self.parts.config.batch_timeout);
                    self.in_flight
                        .push(Box::pin(async move { (ticket, store.run(batch, within).await) }));
                }
                Effect::Observe(fact) => self.parts.observer.observe(&fact),
            }
        }
    }

    fn on_push(&self, push: Push) -> Option<Input> {
        match push {
            Push::Gap => Some(Input::PushGap),
            Push::Message { channel, payload } => match Input::pushed(&channel, &payload) {
                Ok(input) => input,
                // Nothing is lost: the scanners find the same work.
                Err(error) => {
                    tracing::warn!(channel, %error, "unreadable push ignored");
                    None
                }
            },
        }
    }

    fn on_heartbeat(&mut self, heartbeat: Heartbeat) -> Option<Input> {
        let result = heartbeat.wrote.and(heartbeat.deployment);
        self.heartbeat =
            Box::pin(send_heartbeat(self.parts.clone(), result.is_ok(), HEARTBEAT_EVERY));
        self.parts.observer.on_heartbeat(heartbeat.began, result.as_ref().err());
        heartbeat.lanes.ok().map(Input::Lanes)
    }

    fn wake_at(&self) -> Instant {
        match self.machine.deadline() {
            Some(LocalTime(ms)) => self.started + Duration::from_millis(ms),
            None => Instant::now() + HEARTBEAT_EVERY,
        }
    }

    fn now(&self) -> LocalTime {
        LocalTime(u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX))
    }
}

/// Waits for the next load of the library; never returns for `memory://`.
async fn library_loaded(loads: &mut Option<watch::Receiver<u64>>) -> Option<()> {
    match loads {
        Some(loads) => loads.changed().await.ok(),
        None => std::future::pending().await,
    }
}

/// The result of a heartbeat: an idempotent write, a check that the store still holds the same
/// deployment, and the lanes of the registry.
struct Heartbeat {
    began: Instant,
    wrote: Result<(), ServerError>,
    deployment: Result<(), ServerError>,
    lanes: Result<Vec<LaneId>, ServerError>,
}

/// Sends a heartbeat `after` a delay. It writes, because reads succeed even on a replica or a full
/// server. The write also restores lanes that the registry lost.
async fn send_heartbeat(parts: Parts, was_healthy: bool, after: Duration) -> Heartbeat {
    sleep(after).await;
    let began = Instant::now();
    let lanes = &parts.config.lanes;
    let batch = vec![deployment::register_lanes(lanes), deployment::list_lanes()];
    let mut answers = parts.store.run(batch, HEARTBEAT_EVERY).await.into_iter();
    let mut next = || match answers.next() {
        Some(Answer::Applied(Value::Error(text))) => Err(ServerError::from_reply(text)),
        Some(Answer::Applied(value)) => Ok(value),
        Some(Answer::NotApplied(error) | Answer::PerhapsApplied(error)) => Err(error),
        None => Err(ServerError::silence("not answered")),
    };
    let wrote = next().map(drop);
    let lanes = next().map(deployment::read_lanes);
    let deployment =
        if wrote.is_ok() { check_deployment(&parts, was_healthy).await } else { Ok(()) };
    Heartbeat { began, wrote, deployment, lanes }
}

/// Checks that the store still holds the same deployment. A store that lost its data is prepared
/// again; other partition counts are an error.
async fn check_deployment(parts: &Parts, was_healthy: bool) -> Result<(), ServerError> {
    let counts = parts.config.partitions;
    let checked = match deployment::fix_counts(&parts.store, counts).await {
        Ok(fixed) if fixed.needs_preparation(was_healthy) => {
            deployment::prepare(&parts.store, counts, &parts.config.lanes, &parts.secrets).await
        }
        Ok(_) => Ok(()),
        Err(error) => Err(error),
    };
    checked.map_err(|error| {
        // What may pass is tried again with the next heartbeat, from the beginning: the counts may
        // have been written and the secrets not.
        let class = if error.is_retryable() { Class::NotNow } else { Class::Denied };
        ServerError::not_applied(class, error.to_string())
    })
}

/// New lanes are served, and store errors noticed, within this time. A heartbeat is two round
/// trips.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(2);
