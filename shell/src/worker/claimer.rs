//! The claim loop: sends as many claims as there are free permits, in one round trip per batch, and
//! starts an attempt for each execution it gets.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use selvedge_core::call::scheduling::{ClaimNext, ClaimNextReply, ClaimedWork};
use selvedge_core::capability::fnv1a;
use selvedge_core::command::{Answer, Command};
use selvedge_core::error::{Applied, CallError};
use selvedge_core::id::ExecutionId;
use selvedge_core::key::{Key, LaneIndex};
use selvedge_core::push::{Channel, Hint};
use selvedge_core::value::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::admission::{AdmissionRequest, admit, release_unneeded};
use super::attempt::Attempt;
use super::claim_queue::{ClaimQueue, ClaimTarget};
use super::{Shared, Stop};
use crate::client::millis;
use crate::observe::worker_metrics;
use crate::retry::Backoff;
use crate::store::Push;

/// Claims executions and runs their attempts until told to stop.
pub(super) struct Claimer {
    shared: Arc<Shared>,
    queue: ClaimQueue,
    /// One permit per handler that may run at the same time.
    permits: Arc<Semaphore>,
    running: JoinSet<()>,
    /// Fires when handlers have used up the drain time and are told to stop.
    drain_expired: CancellationToken,
    /// Whether pushes about ready executions may have been missed.
    missed_pushes: bool,
    /// Claims whose replies were lost. They may have been granted, so they are repeated with the
    /// same lease id.
    unconfirmed: Vec<Claim>,
    backoff: Backoff,
}

/// A claim in flight, with the permit for the handler of the execution it may get.
struct Claim {
    call: ClaimNext,
    permit: OwnedSemaphorePermit,
    since: Instant,
}

/// The replies of one round trip to the claims on one target.
#[derive(Default)]
struct TargetResult {
    claimed: usize,
    sent: usize,
    next_offset: u32,
    /// Whether to queue the target again: a candidate needs admission, or a claim failed.
    retry: bool,
}

impl Claimer {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let partitions = shared.client.partitions().flow.get();
        let start = fnv1a(shared.instance.as_str().as_bytes());
        Self {
            queue: ClaimQueue::new(shared.lanes.clone(), partitions, start % u64::from(u32::MAX)),
            permits: Arc::new(Semaphore::new(shared.concurrency)),
            running: JoinSet::new(),
            drain_expired: CancellationToken::new(),
            missed_pushes: false,
            unconfirmed: Vec::new(),
            backoff: Backoff::new(PAUSE_FIRST, PAUSE_LONGEST),
            shared,
        }
    }

    /// Claims until `stop` fires, then drains the running attempts.
    pub(super) async fn run(mut self, mut stop: Stop<'_>) {
        let mut channels: Vec<String> = self
            .shared
            .lanes
            .iter()
            .cloned()
            .map(|lane| Channel::Ready(lane).to_string())
            .collect();
        channels.push(Channel::Lost(self.shared.instance.clone()).to_string());
        let channels: Vec<&str> = channels.iter().map(String::as_str).collect();
        let mut pushes = self.shared.client.store().subscribe(&channels);
        let mut poll = interval(self.shared.poll_every);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let permits = self.permits.clone();
            tokio::select! {
                biased;
                () = &mut stop => break,
                push = pushes.next() => self.on_push(push),
                Some(_) = self.running.join_next() => {}
                _ = poll.tick() => self.queue.poll_next_target(),
                () = std::future::ready(()), if self.missed_pushes => {
                    self.queue_ready_targets().await;
                }
                // Repeated claims hold permits already. If they hold all of them, no permit
                // becomes free until they are repeated.
                () = std::future::ready(()), if !self.unconfirmed.is_empty() => {
                    self.claim_once().await;
                }
                // Acquired only to wait for a free permit; `claim_once` acquires its own.
                free = permits.acquire(), if !self.queue.is_empty() => {
                    drop(free);
                    self.claim_once().await;
                }
            }
        }
        self.drain().await;
    }

    fn on_push(&mut self, push: Push) {
        match push {
            Push::Gap => {
                self.missed_pushes = true;
                self.shared.leases.renew_all_now();
            }
            Push::Message { channel, payload } => match Hint::read(&channel, &payload) {
                Ok(Hint::Ready(lane, partition)) => {
                    if self.permits.available_permits() == 0 {
                        worker_metrics::at_capacity();
                    }
                    self.queue.mark_ready(lane, partition);
                }
                Ok(Hint::Lost(_, execution)) => self.shared.leases.renew_now(&execution),
                Ok(Hint::Ended(_) | Hint::Frames(..) | Hint::Held(_) | Hint::Freed(_)) | Err(_) => {
                }
            },
        }
    }

    /// Queues the targets that have ready executions, by reading the sizes of their indexes. Claims
    /// would find the same, but each needs a free permit, so the last target would wait for all
    /// the others.
    async fn queue_ready_targets(&mut self) {
        self.missed_pushes = false;
        let store = self.shared.client.store();
        for targets in self.queue.all_targets().chunks(COUNTS_PER_ROUND_TRIP) {
            let counts = targets.iter().map(|(lane, partition)| {
                let ready = Key::index(*partition).lane(lane, LaneIndex::Eligible);
                Command::read("ZCARD", &ready, &[])
            });
            let answers = store.run(counts.collect(), store.options().call_within).await;
            for ((lane, partition), answer) in targets.iter().zip(answers) {
                // No answer counts as ready: the claim retries with backoff.
                if answer != Answer::Applied(Value::Int(0)) {
                    self.queue.mark_ready(lane.clone(), *partition);
                }
            }
        }
    }

    /// Sends one batch of claims and acts on the replies.
    async fn claim_once(&mut self) {
        let (claims, targets) = self.next_claims();
        if claims.is_empty() {
            return;
        }
        let calls: Vec<ClaimNext> = claims.iter().map(|claim| claim.call.clone()).collect();
        let replies = self.shared.client.store().call_all(&calls).await;
        let mut results: Vec<TargetResult> =
            targets.iter().map(|_| TargetResult::default()).collect();
        let (mut requests, mut failed) = (Vec::new(), false);
        for (claim, reply) in claims.into_iter().zip(replies) {
            let at = targets.iter().position(|target| {
                target.lane == claim.call.lane && target.partition == claim.call.partition
            });
            let mut none = TargetResult::default();
            let result = at.and_then(|at| results.get_mut(at)).unwrap_or(&mut none);
            result.sent += 1;
            match reply {
                Ok(ClaimNextReply::Claimed(work)) => {
                    result.claimed += 1;
                    self.spawn_attempt(claim, work);
                }
                Ok(ClaimNextReply::NeedsAdmission {
                    execution_id,
                    budget_ids,
                    quota_policy_id,
                }) => {
                    result.retry = true;
                    let lane = claim.call.lane.clone();
                    requests.push((
                        claim,
                        AdmissionRequest { execution_id, lane, budget_ids, quota_policy_id },
                    ));
                }
                Ok(ClaimNextReply::NoneClaimable { next_offset }) => {
                    result.next_offset = next_offset;
                }
                Ok(ClaimNextReply::Empty | ClaimNextReply::Lapsed(_)) => {}
                Err(error) => {
                    failed = true;
                    result.retry = true;
                    self.on_claim_error(claim, &error);
                }
            }
        }
        self.requeue_targets(targets, results);
        self.admit(requests).await;
        if failed {
            self.backoff.wait().await;
        } else {
            self.backoff.reset();
        }
    }

    /// The next batch: unconfirmed claims first, which have their permits, then claims on queued
    /// targets for as many permits as are free.
    fn next_claims(&mut self) -> (Vec<Claim>, Vec<ClaimTarget>) {
        let mut claims = std::mem::take(&mut self.unconfirmed);
        let ttl = self.shared.lease_ttl;
        claims.retain(|claim| claim.since.elapsed() < ttl);
        let mut targets = Vec::new();
        'targets: while let Some(target) = self.queue.pop() {
            for nth in 0..target.claims_at_once {
                let Ok(permit) = self.permits.clone().try_acquire_owned() else {
                    if nth == 0 {
                        self.queue.push(target);
                    } else {
                        targets.push(target);
                    }
                    break 'targets;
                };
                claims.push(self.claim(&target, permit, None));
            }
            targets.push(target);
            if claims.len() >= CLAIMS_PER_ROUND_TRIP {
                break;
            }
        }
        (claims, targets)
    }

    fn claim(
        &self,
        target: &ClaimTarget,
        permit: OwnedSemaphorePermit,
        admitted: Option<ExecutionId>,
    ) -> Claim {
        let call = ClaimNext {
            partition: target.partition,
            lane: target.lane.clone(),
            worker_id: self.shared.worker.clone(),
            worker_instance_id: self.shared.instance.clone(),
            capabilities: self.shared.capabilities.clone(),
            lease_id: Uuid::new_v4().into(),
            lease_ttl_ms: millis(self.shared.lease_ttl),
            attempt_id: Uuid::new_v4().into(),
            window: None,
            offset: target.offset,
            admitted,
        };
        Claim { call, permit, since: Instant::now() }
    }

    /// Queues a target again if all its claims were granted, because there may be more. A target
    /// that granted fewer is dropped until a push or a poll queues it again.
    fn requeue_targets(&mut self, targets: Vec<ClaimTarget>, results: Vec<TargetResult>) {
        for (mut target, result) in targets.into_iter().zip(results) {
            if result.next_offset > 0 {
                self.queue.push(ClaimTarget {
                    offset: result.next_offset,
                    claims_at_once: 1,
                    ..target
                });
            } else if result.retry {
                self.queue.push(ClaimTarget { claims_at_once: 1, ..target });
            } else if result.claimed > 0 && result.claimed == result.sent {
                target.claims_at_once = (target.claims_at_once * 2).min(CLAIMS_PER_TARGET_MAX);
                self.queue.push(ClaimTarget { offset: 0, ..target });
            } else {
                self.queue.finish(target);
            }
        }
    }

    fn on_claim_error(&mut self, claim: Claim, error: &CallError) {
        let perhaps = match error {
            CallError::Server(error) => error.applied == Applied::Perhaps,
            CallError::Refused(_) => false,
            CallError::Broken(_) => true,
        };
        tracing::warn!(%error, partition = %claim.call.partition, "claim failed, retrying");
        if perhaps {
            self.unconfirmed.push(claim);
        }
    }

    /// Checks budgets and quotas for executions that need admission, and claims the admitted ones.
    async fn admit(&mut self, requests: Vec<(Claim, AdmissionRequest)>) {
        let mut asked = BTreeSet::new();
        for (claim, request) in requests {
            // Claims of the same batch may return the same candidate.
            if !asked.insert(request.execution_id.clone()) {
                continue;
            }
            match admit(&self.shared.client, &request).await {
                Ok(true) => self.claim_admitted(claim, request).await,
                Ok(false) => {}
                Err(error) => {
                    let execution = &request.execution_id;
                    tracing::warn!(%error, %execution, "admission check failed");
                    self.backoff.wait().await;
                }
            }
        }
    }

    async fn claim_admitted(&mut self, claim: Claim, request: AdmissionRequest) {
        let Claim { call, permit, .. } = claim;
        let target = ClaimTarget {
            lane: call.lane,
            partition: call.partition,
            claims_at_once: 1,
            offset: 0,
        };
        let AdmissionRequest { execution_id: admitted, quota_policy_id: quota, .. } = request;
        let claim = self.claim(&target, permit, Some(admitted.clone()));
        match self.shared.client.store().call(&claim.call).await {
            Ok(ClaimNextReply::Claimed(work)) => self.spawn_attempt(claim, work),
            // Another worker claimed it first, or nobody can run it now. The quota slot belongs to
            // the execution, so it is released only if the execution does not run.
            Ok(
                ClaimNextReply::NeedsAdmission { .. }
                | ClaimNextReply::NoneClaimable { .. }
                | ClaimNextReply::Empty
                | ClaimNextReply::Lapsed(_),
            ) => {
                if let Ok(quota) = quota.parse() {
                    release_unneeded(&self.shared.client, quota, &admitted).await;
                }
            }
            Err(error) => self.on_claim_error(claim, &error),
        }
    }

    fn spawn_attempt(&mut self, claim: Claim, got: ClaimedWork) {
        let Claim { call, permit, since } = claim;
        tracing::debug!(execution = %got.execution_id, kind = got.execution_kind, "claimed");
        worker_metrics::claimed(&call.lane, since.elapsed(), got.waited_ms);
        let loss = self.shared.leases.track(&got, since, self.shared.lease_ttl);
        let attempt = Attempt {
            shared: self.shared.clone(),
            lane: call.lane,
            work: got,
            loss,
            drain_expired: self.drain_expired.clone(),
        };
        self.running.spawn(attempt.run(permit));
    }

    /// Waits for running attempts. When the drain time is over, tells their handlers to stop.
    async fn drain(&mut self) {
        let running = &mut self.running;
        let all = async { while running.join_next().await.is_some() {} };
        if timeout(self.shared.drain_within, all).await.is_err() {
            self.drain_expired.cancel();
            let running = &mut self.running;
            let all = async { while running.join_next().await.is_some() {} };
            // Attempts that still run are dropped; their leases expire.
            let _ = timeout(ABORT_WITHIN, all).await;
        }
    }
}

/// Most claims on one target in one round trip.
const CLAIMS_PER_TARGET_MAX: usize = 32;
/// About how many claims are sent in one round trip.
const CLAIMS_PER_ROUND_TRIP: usize = 256;
/// Index sizes read in one round trip.
const COUNTS_PER_ROUND_TRIP: usize = 1_024;
/// How long attempts may take to report their outcome after their handlers were told to stop.
const ABORT_WITHIN: Duration = Duration::from_secs(5);

const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_LONGEST: Duration = Duration::from_secs(2);
