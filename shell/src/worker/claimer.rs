//! The loop that claims: where work may be, as many claims as there are free hands, one round trip.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use selvedge_core::call::scheduling::{ClaimNext, ClaimNextReply, ClaimedWork};
use selvedge_core::capability::fnv1a;
use selvedge_core::engine::{Answer, Command};
use selvedge_core::error::{Applied, CallError};
use selvedge_core::id::ExecutionId;
use selvedge_core::key::{Key, LaneIndex};
use selvedge_core::push::{Channel, Hint};
use selvedge_core::value::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::Shared;
use super::admission::{Applicant, admit, release_unneeded};
use super::attempt::Attempt;
use super::hot::{Hot, Spot};
use crate::client::millis;
use crate::observe::work;
use crate::store::Push;

pub(super) struct Claimer {
    shared: Arc<Shared>,
    hot: Hot,
    hands: Arc<Semaphore>,
    running: JoinSet<()>,
    hurry: CancellationToken,
    /// Whether anything may have become ready anywhere, unheard.
    deaf: bool,
    /// Claims whose replies were lost: they may have got something, and are asked again.
    unsure: Vec<Claim>,
    pause: Duration,
}

/// A claim on its way, with the hand that is kept free for what it gets.
struct Claim {
    call: ClaimNext,
    hand: OwnedSemaphorePermit,
    since: Instant,
}

/// What a round found at one place.
#[derive(Default)]
struct Found {
    claimed: usize,
    asked: usize,
    next_offset: u32,
    waits_for_admission: bool,
}

impl Claimer {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let partitions = shared.client.partitions().flow.get();
        let start = fnv1a(shared.instance.as_str().as_bytes());
        Self {
            hot: Hot::new(shared.lanes.clone(), partitions, start % u64::from(u32::MAX)),
            hands: Arc::new(Semaphore::new(shared.concurrency)),
            running: JoinSet::new(),
            hurry: CancellationToken::new(),
            deaf: false,
            unsure: Vec::new(),
            pause: PAUSE_FIRST,
            shared,
        }
    }

    /// Claims until told to stop, then waits for what runs.
    pub(super) async fn run(mut self, stop: CancellationToken) {
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
            let hands = self.hands.clone();
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                push = pushes.next() => self.hear(push),
                Some(_) = self.running.join_next() => {}
                _ = poll.tick() => self.hot.point_at_next(),
                () = std::future::ready(()), if self.deaf => self.survey().await,
                // They have their hands already. If they hold all, no other becomes free before.
                () = std::future::ready(()), if !self.unsure.is_empty() => self.round().await,
                // It only says that a hand is free; kept, it would be one hand less for the round.
                free = hands.acquire(), if !self.hot.is_empty() => {
                    drop(free);
                    self.round().await;
                }
            }
        }
        self.drain().await;
    }

    fn hear(&mut self, push: Push) {
        match push {
            Push::Gap => {
                self.deaf = true;
                self.shared.leases.doubt_all();
            }
            Push::Message { channel, payload } => match Hint::read(&channel, &payload) {
                Ok(Hint::Ready(lane, partition)) => {
                    if self.hands.available_permits() == 0 {
                        work::at_capacity();
                    }
                    self.hot.point_at(lane, partition);
                }
                Ok(Hint::Lost(_, execution)) => self.shared.leases.doubt(&execution),
                Ok(Hint::Ended(_) | Hint::Frames(..) | Hint::Held(_) | Hint::Freed(_)) | Err(_) => {
                }
            },
        }
    }

    /// Looks where something is ready. A claim per place would find the same, but it takes a free
    /// hand, and whoever waits at the last place would wait for all the others.
    async fn survey(&mut self) {
        self.deaf = false;
        let store = self.shared.client.store();
        for places in self.hot.everywhere().chunks(SURVEYED_AT_ONCE) {
            let looks = places.iter().map(|(lane, partition)| {
                let ready = Key::index(*partition).lane(lane, LaneIndex::Eligible);
                Command::read("ZCARD", &ready, &[])
            });
            let answers = store.run(looks.collect(), store.options().call_within).await;
            for ((lane, partition), answer) in places.iter().zip(answers) {
                // A place that did not answer is asked again by a claim, which knows how to wait.
                if answer != Answer::Applied(Value::Int(0)) {
                    self.hot.point_at(lane.clone(), *partition);
                }
            }
        }
    }

    /// One round trip of claims, and what follows from their replies.
    async fn round(&mut self) {
        let (claims, spots) = self.plan();
        if claims.is_empty() {
            return;
        }
        let calls: Vec<ClaimNext> = claims.iter().map(|claim| claim.call.clone()).collect();
        let replies = self.shared.client.store().call_all(&calls).await;
        let mut found: Vec<Found> = spots.iter().map(|_| Found::default()).collect();
        let (mut applicants, mut trouble) = (Vec::new(), false);
        for (claim, reply) in claims.into_iter().zip(replies) {
            let at = spots.iter().position(|spot| {
                spot.lane == claim.call.lane && spot.partition == claim.call.partition
            });
            let mut nowhere = Found::default();
            let place = at.and_then(|at| found.get_mut(at)).unwrap_or(&mut nowhere);
            place.asked += 1;
            match reply {
                Ok(ClaimNextReply::Claimed(work)) => {
                    place.claimed += 1;
                    self.start(claim, work);
                }
                Ok(ClaimNextReply::NeedsAdmission {
                    execution_id,
                    budget_ids,
                    quota_policy_id,
                }) => {
                    place.waits_for_admission = true;
                    let lane = claim.call.lane.clone();
                    applicants.push((
                        claim,
                        Applicant { execution_id, lane, budget_ids, quota_policy_id },
                    ));
                }
                Ok(ClaimNextReply::NoneClaimable { next_offset }) => {
                    place.next_offset = next_offset;
                }
                Ok(ClaimNextReply::Empty | ClaimNextReply::Lapsed(_)) => {}
                Err(error) => {
                    trouble = true;
                    place.waits_for_admission = true;
                    self.note_trouble(claim, &error);
                }
            }
        }
        self.put_back(spots, found);
        self.admit(applicants).await;
        if trouble {
            sleep(self.pause).await;
            self.pause = (self.pause * 2).min(PAUSE_LONGEST);
        } else {
            self.pause = PAUSE_FIRST;
        }
    }

    /// Claims for the places in question, as many as there are free hands. Those that were lost
    /// come first, and have theirs.
    fn plan(&mut self) -> (Vec<Claim>, Vec<Spot>) {
        let mut claims = std::mem::take(&mut self.unsure);
        let ttl = self.shared.lease_ttl;
        claims.retain(|claim| claim.since.elapsed() < ttl);
        let mut spots = Vec::new();
        'places: while let Some(spot) = self.hot.take() {
            for nth in 0..spot.eager {
                let Ok(hand) = self.hands.clone().try_acquire_owned() else {
                    if nth == 0 {
                        self.hot.put(spot);
                    } else {
                        spots.push(spot);
                    }
                    break 'places;
                };
                claims.push(self.claim(&spot, hand, None));
            }
            spots.push(spot);
            if claims.len() >= CLAIMS_AT_ONCE {
                break;
            }
        }
        (claims, spots)
    }

    fn claim(
        &self,
        spot: &Spot,
        hand: OwnedSemaphorePermit,
        admitted: Option<ExecutionId>,
    ) -> Claim {
        let call = ClaimNext {
            partition: spot.partition,
            lane: spot.lane.clone(),
            worker_id: self.shared.worker.clone(),
            worker_instance_id: self.shared.instance.clone(),
            capabilities: self.shared.capabilities.clone(),
            lease_id: Uuid::new_v4().into(),
            lease_ttl_ms: millis(self.shared.lease_ttl),
            attempt_id: Uuid::new_v4().into(),
            window: None,
            offset: spot.offset,
            admitted,
        };
        Claim { call, hand, since: Instant::now() }
    }

    /// Where all claims found something, there may be more; a place that answered less is done
    /// with until somebody points at it again.
    fn put_back(&mut self, spots: Vec<Spot>, found: Vec<Found>) {
        for (mut spot, found) in spots.into_iter().zip(found) {
            if found.next_offset > 0 {
                self.hot.put(Spot { offset: found.next_offset, eager: 1, ..spot });
            } else if found.waits_for_admission {
                self.hot.put(Spot { eager: 1, ..spot });
            } else if found.claimed > 0 && found.claimed == found.asked {
                spot.eager = (spot.eager * 2).min(EAGER_MOST);
                self.hot.put(Spot { offset: 0, ..spot });
            } else {
                self.hot.leave(spot);
            }
        }
    }

    fn note_trouble(&mut self, claim: Claim, error: &CallError) {
        let perhaps = match error {
            CallError::Server(error) => error.applied == Applied::Perhaps,
            CallError::Refused(_) => false,
            CallError::Broken(_) => true,
        };
        tracing::warn!(%error, partition = %claim.call.partition, "a claim was not answered");
        if perhaps {
            self.unsure.push(claim);
        }
    }

    /// Asks budgets and quotas for those that need it, and claims those that were admitted.
    async fn admit(&mut self, applicants: Vec<(Claim, Applicant)>) {
        let mut asked = BTreeSet::new();
        for (claim, applicant) in applicants {
            // Claims that went out together met the same candidate.
            if !asked.insert(applicant.execution_id.clone()) {
                continue;
            }
            match admit(&self.shared.client, &applicant).await {
                Ok(true) => self.claim_admitted(claim, applicant).await,
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(%error, execution = %applicant.execution_id, "not admitted");
                    sleep(self.pause).await;
                }
            }
        }
    }

    async fn claim_admitted(&mut self, claim: Claim, applicant: Applicant) {
        let Claim { call, hand, .. } = claim;
        let spot = Spot { lane: call.lane, partition: call.partition, eager: 1, offset: 0 };
        let Applicant { execution_id: admitted, quota_policy_id: quota, .. } = applicant;
        let claim = self.claim(&spot, hand, Some(admitted.clone()));
        match self.shared.client.store().call(&claim.call).await {
            Ok(ClaimNextReply::Claimed(work)) => self.start(claim, work),
            // Another worker was faster, and the slot is that of the execution, whoever runs it. Or
            // nobody can run it now.
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
            Err(error) => self.note_trouble(claim, &error),
        }
    }

    fn start(&mut self, claim: Claim, got: ClaimedWork) {
        let Claim { call, hand, since } = claim;
        tracing::debug!(execution = %got.execution_id, kind = got.execution_kind, "claimed");
        work::claimed(&call.lane, since.elapsed(), got.waited_ms);
        let loss = self.shared.leases.hold(&got, since, self.shared.lease_ttl);
        let attempt = Attempt {
            shared: self.shared.clone(),
            lane: call.lane,
            work: got,
            loss,
            hurry: self.hurry.clone(),
        };
        self.running.spawn(attempt.run(hand));
    }

    /// Lets handlers finish; then tells them to.
    async fn drain(&mut self) {
        let running = &mut self.running;
        let all = async { while running.join_next().await.is_some() {} };
        if timeout(self.shared.drain_within, all).await.is_err() {
            self.hurry.cancel();
            let running = &mut self.running;
            let all = async { while running.join_next().await.is_some() {} };
            // Whoever does not even end now is dropped; its lease runs out.
            let _ = timeout(LAST_DRAIN, all).await;
        }
    }
}

/// Most claims of one place in one round trip.
const EAGER_MOST: usize = 32;
/// About how many claims go out in one round trip.
const CLAIMS_AT_ONCE: usize = 256;
/// Places that are looked at in one round trip.
const SURVEYED_AT_ONCE: usize = 1_024;
/// How long the last handlers may take to tell how they ended.
const LAST_DRAIN: Duration = Duration::from_secs(5);

const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_LONGEST: Duration = Duration::from_secs(2);
