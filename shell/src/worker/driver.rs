//! [`Driver`]: the task that runs the worker's state machine: feeds it inputs, sends its batches,
//! runs its handlers, and wakes it at its deadlines.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use selvedge_core::call::scheduling::ClaimedWork;
use selvedge_core::command::{Answer, Ticket};
use selvedge_core::id::{LaneId, LeaseId, Namespace};
use selvedge_core::lane_state::LaneStates;
use selvedge_core::requests::store_timeout;
use selvedge_core::time::LocalTime;
use selvedge_core::worker::{
    Effect, HandlerOutcome, HandlerReply, HandlerRequest, HandlerRequestError, Input,
    Worker as Machine, WorkerConfig,
};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinError};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use super::context::Context;
use super::handler::{Done, Failed};
use super::{Shared, Stop, observe};
use crate::client::millis;
use crate::store::{Push, Subscription};

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Ended = Result<Result<Done, Failed>, JoinError>;

/// What a handler asks for, and where its answer goes.
pub(super) struct PendingRequest {
    pub(super) lease: LeaseId,
    pub(super) request: HandlerRequest,
    pub(super) answer: oneshot::Sender<Result<HandlerReply, HandlerRequestError>>,
}

/// A handler that runs.
struct Handler {
    cancelled: CancellationToken,
    abort: AbortHandle,
}

struct Driver<'a> {
    shared: Arc<Shared>,
    machine: Machine,
    started: Instant,
    batch_timeout: Duration,
    /// Ready when the worker is to stop; none once it was.
    stop: Option<Stop<'a>>,
    pushes: Subscription,
    in_flight: FuturesUnordered<Boxed<(Ticket, Vec<Answer>)>>,
    handlers: BTreeMap<LeaseId, Handler>,
    running: FuturesUnordered<Boxed<(LeaseId, Ended)>>,
    request: mpsc::UnboundedSender<PendingRequest>,
    requested: mpsc::UnboundedReceiver<PendingRequest>,
    open_requests: BTreeMap<u64, oneshot::Sender<Result<HandlerReply, HandlerRequestError>>>,
    next_request: u64,
}

/// Runs until the worker was told to stop and has drained.
pub(super) async fn run(shared: Arc<Shared>, lane_states: LaneStates, stop: Stop<'_>) {
    let config = machine_config(&shared, lane_states);
    let channels = Input::channels(&config.lanes, &config.instance);
    let channels: Vec<&str> = channels.iter().map(String::as_str).collect();
    let (request, requested) = mpsc::unbounded_channel();
    let mut driver = Driver {
        pushes: shared.client.store().subscribe(&channels),
        batch_timeout: config.batch_timeout,
        machine: Machine::new(config, seed(), LocalTime(0)),
        started: Instant::now(),
        stop: Some(stop),
        in_flight: FuturesUnordered::new(),
        handlers: BTreeMap::new(),
        running: FuturesUnordered::new(),
        request,
        requested,
        open_requests: BTreeMap::new(),
        next_request: 0,
        shared,
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

impl Driver<'_> {
    /// Waits for the next input to the machine.
    async fn next_input(&mut self) -> Input {
        loop {
            let wake = self.machine.deadline().map(|LocalTime(ms)| {
                // A deadline past the end of the clock is never reached.
                self.started.checked_add(Duration::from_millis(ms))
            });
            let happened = tokio::select! {
                () = stopped(&mut self.stop) => {
                    self.stop = None;
                    Some(Input::Drain)
                }
                Some((ticket, answers)) = self.in_flight.next() => {
                    Some(Input::Settled { ticket, answers })
                }
                Some((lease, ended)) = self.running.next() => Some(self.on_ended(lease, ended)),
                Some(pending) = self.requested.recv() => Some(self.on_request(pending)),
                push = self.pushes.next() => on_push(push),
                () = wait_until(wake.flatten()) => Some(Input::Wake),
            };
            if let Some(input) = happened {
                return input;
            }
        }
    }

    fn apply_effects(&mut self) {
        while let Some(effect) = self.machine.next_effect() {
            match effect {
                Effect::Send { ticket, batch, .. } => {
                    let store = self.shared.client.store().clone();
                    let within = store_timeout(self.batch_timeout);
                    self.in_flight
                        .push(Box::pin(async move { (ticket, store.run(batch, within).await) }));
                }
                Effect::Start { lane, work } => self.start(lane, work),
                Effect::Cancel { lease, .. } => {
                    if let Some(handler) = self.handlers.get(&lease) {
                        handler.cancelled.cancel();
                    }
                }
                Effect::Abort { lease } => {
                    if let Some(handler) = self.handlers.remove(&lease) {
                        handler.abort.abort();
                    }
                }
                Effect::Answer { id, answer } => {
                    if let Some(waiting) = self.open_requests.remove(&id) {
                        // The handler may have stopped waiting.
                        let _ = waiting.send(answer);
                    }
                }
                Effect::Observe(fact) => {
                    let namespace = self.shared.filter.namespace();
                    observe::observe(&fact, namespace.map_or("all", Namespace::as_str));
                }
            }
        }
    }

    fn start(&mut self, lane: LaneId, work: ClaimedWork) {
        let lease = work.fence.lease_id;
        let cancelled = CancellationToken::new();
        let shared = &self.shared;
        let (client, request) = (shared.client.clone(), self.request.clone());
        let states = shared.states.clone();
        let context = Context::new(client, work, lane, cancelled.clone(), request, states);
        let handlers = shared.handlers.clone();
        let task =
            tokio::spawn(async move { handlers.start(context.kind(), context.clone()).await });
        let task = AbortOnDropHandle::new(task);
        self.handlers.insert(lease, Handler { cancelled, abort: task.abort_handle() });
        self.running.push(Box::pin(async move { (lease, task.await) }));
    }

    fn on_ended(&mut self, lease: LeaseId, ended: Ended) -> Input {
        self.handlers.remove(&lease);
        let outcome = match ended {
            Ok(Ok(Done::Completed(result))) => HandlerOutcome::Completed(result),
            Ok(Ok(Done::Later(pause))) => HandlerOutcome::Later(pause),
            Ok(Ok(Done::Suspended)) => HandlerOutcome::Suspended,
            Ok(Err(failed)) => HandlerOutcome::Failed {
                category: failed.category().to_owned(),
                reason: failed.reason().to_owned(),
            },
            Err(error) => HandlerOutcome::Panicked(panic_text(error)),
        };
        Input::Ended { lease, outcome }
    }

    fn on_request(&mut self, pending: PendingRequest) -> Input {
        let id = self.next_request;
        self.next_request += 1;
        self.open_requests.insert(id, pending.answer);
        Input::HandlerRequested { lease: pending.lease, id, request: pending.request }
    }

    fn now(&self) -> LocalTime {
        LocalTime(millis(self.started.elapsed()))
    }
}

fn on_push(push: Push) -> Option<Input> {
    match push {
        Push::Gap => Some(Input::PushGap),
        // An unreadable push is dropped: polling finds the same work.
        Push::Message { channel, payload } => Input::pushed(&channel, &payload).ok().flatten(),
    }
}

async fn stopped(stop: &mut Option<Stop<'_>>) {
    match stop {
        Some(stop) => stop.await,
        None => std::future::pending().await,
    }
}

async fn wait_until(wake: Option<Instant>) {
    match wake {
        Some(wake) => sleep_until(wake).await,
        None => std::future::pending().await,
    }
}

fn machine_config(shared: &Shared, lane_states: LaneStates) -> WorkerConfig {
    let within = shared.client.store().options().call_within;
    WorkerConfig {
        partitions: *shared.client.partitions(),
        lanes: shared.lanes.clone(),
        lane_states,
        capabilities: shared.capabilities.clone(),
        filter: shared.filter.clone(),
        capacity: shared.concurrency,
        lease_ttl: shared.lease_ttl,
        poll_every: shared.poll_every,
        drain_within: shared.drain_within,
        batch_timeout: WorkerConfig::batch_timeout_within(within, shared.lease_ttl),
        retry_for: shared.client.retry_for(),
        ..WorkerConfig::new(shared.worker.clone(), shared.instance.clone())
    }
}

/// No two workers have the same: it decides which ids their leases get.
fn seed() -> [u8; 32] {
    let mut seed = [0; 32];
    seed[..16].copy_from_slice(Uuid::new_v4().as_bytes());
    seed[16..].copy_from_slice(Uuid::new_v4().as_bytes());
    seed
}

fn panic_text(error: JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else { return "the handler was aborted".to_owned() };
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("the handler panicked: {}", text.unwrap_or_else(|| "no message".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_worker_has_a_seed_of_its_own() {
        assert_ne!(seed(), seed());
    }
}
