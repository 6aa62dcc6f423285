//! How a worker claims work and decides what to do with it.

use selvedge_core::call::Function;
use selvedge_core::call::scheduling::{ClaimNext, ClaimNextReply, ClaimedWork};
use selvedge_core::id::ExecutionId;
use selvedge_core::partition::Partition;

use super::{AGAIN_MS, CLAIMS_MAX, Claim, QUICK, TRIES_MAX, Work, WorkerWait};
use crate::actor::{CallResult, ClientWait, lane};
use crate::canary::{PlantedBug, WorldBug};
use crate::event::Actor;
use crate::plan::WorkerAction;
use crate::world::World;
use crate::world::random_streams::Purpose;

impl World {
    pub(super) fn look_for_work(&mut self, number: u8) {
        let actor = Actor::Worker(number);
        let forgotten = self.bug == Some(PlantedBug::World(WorldBug::PartitionNotClaimed));
        let partitions = self.plan.config.flow_partitions - u64::from(forgotten);
        let (partitions, lanes) = (partitions.max(1), self.plan.config.lanes.max(1));
        if self.worker(number).claim.is_none() {
            let lease_id = self.fresh_id(actor).into();
            let attempt_id = self.fresh_id(actor).into();
            let worker = self.worker(number);
            if worker.offset == 0 && !std::mem::take(&mut worker.found) {
                worker.turn += 1;
            }
            let partition = Partition::flow((worker.turn % partitions) as u16);
            let lane = lane(worker.turn / partitions % lanes);
            worker.claim = Some(Claim { partition, lane, lease_id, attempt_id, admitted: None });
        }
        self.send_claim(number);
    }

    pub(super) fn send_claim(&mut self, number: u8) {
        let lease_ttl_ms = self.lease_ms();
        let worker = self.worker(number);
        let Some(claim) = worker.claim.clone() else { return };
        let (worker_id, worker_instance_id) = worker.ids();
        let call = ClaimNext {
            partition: claim.partition,
            lane: claim.lane,
            worker_id,
            worker_instance_id,
            capabilities: worker.capabilities(),
            lease_id: claim.lease_id,
            lease_ttl_ms,
            attempt_id: claim.attempt_id,
            window: None,
            offset: worker.offset,
            admitted: claim.admitted,
        };
        let incarnation = worker.incarnation;
        self.ask(Actor::Worker(number), incarnation, &call, ClientWait::Worker(WorkerWait::Claim));
    }

    pub(super) fn claim_answered(&mut self, number: u8, result: CallResult) {
        let worker = self.worker(number);
        let reply = match result {
            CallResult::Retry if worker.tries < TRIES_MAX && !worker.drops_claim => {
                // The same lease id: if the claim was applied, the repeat gets the same execution.
                worker.tries += 1;
                return self.wake_worker(number, AGAIN_MS);
            }
            CallResult::Retry => None,
            CallResult::Reply(reply) => ClaimNext::parse(reply).ok(),
        };
        (worker.tries, worker.drops_claim) = (0, false);
        match reply {
            Some(ClaimNextReply::Claimed(claimed)) => self.begin_work(number, claimed),
            Some(ClaimNextReply::NeedsAdmission { execution_id, budget_ids, quota_policy_id }) => {
                self.request_admission(number, execution_id, &budget_ids, &quota_policy_id);
            }
            Some(ClaimNextReply::NoneClaimable { next_offset }) => {
                worker.offset = next_offset;
                self.wake_worker_later(number);
            }
            Some(ClaimNextReply::Empty | ClaimNextReply::Lapsed(_)) | None => {
                worker.offset = 0;
                self.wake_worker_later(number);
            }
        }
    }

    /// Starts to work on a claimed execution.
    pub(super) fn begin_work(&mut self, number: u8, claimed: ClaimedWork) {
        let actor = Actor::Worker(number);
        let action = self.draw_action(number, &claimed.execution_id);
        let lease_ms = self.lease_ms();
        let span = if self.faults_are_on() { self.plan.config.work.0 } else { QUICK };
        let mut wait = self.random(Purpose::Workload, actor).within(span);
        let worker = self.worker(number);
        let lane = worker.claim.take().map_or_else(|| lane(0), |claim| claim.lane);
        let instance = worker.ids().1;
        (worker.offset, worker.found) = (0, true);
        let zombie = worker.zombie_ms.is_some();
        if let Some(late_ms) = worker.zombie_ms.take() {
            wait = lease_ms + late_ms;
        }
        worker.work = Some(Work { claimed, lane, action, instance, report: None });
        let incarnation = worker.incarnation;
        let waiting = if action == WorkerAction::Slow {
            wait = lease_ms / 3;
            WorkerWait::Renew(4)
        } else if wait > lease_ms / 2 && !zombie {
            // A worker that is busy for long renews its lease.
            let renewals = u32::try_from(3 * wait / lease_ms.max(1)).unwrap_or(1).min(30);
            wait = lease_ms / 3;
            WorkerWait::Renew(renewals)
        } else {
            WorkerWait::Done
        };
        self.set_timer(actor, incarnation, wait, ClientWait::Worker(waiting));
    }

    pub(super) fn draw_action(&mut self, number: u8, id: &ExecutionId) -> WorkerAction {
        let claims = self.claims.entry(id.clone()).or_default();
        *claims += 1;
        let claims = *claims;
        let name = self.names.name_of(id).unwrap_or_default();
        let told = self.plan.tasks.iter().find(|task| task.name == name);
        if let Some(task) = told {
            return task.does.get(claims - 1).copied().unwrap_or(WorkerAction::Complete);
        }
        if !self.faults_are_on() || claims > CLAIMS_MAX {
            return WorkerAction::Complete;
        }
        let habits = self.plan.config.habits.0.clone();
        let stream = self.random(Purpose::Workload, Actor::Worker(number));
        stream.weighted(&habits).unwrap_or(WorkerAction::Complete)
    }
}
