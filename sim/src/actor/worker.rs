//! Workers: they claim, work and report.

use selvedge_core::call::Function;
use selvedge_core::call::execution::{Authority, CompleteExecution, Running};
use selvedge_core::call::scheduling::{ClaimNext, ClaimNextReply, ClaimedWork};
use selvedge_core::capability::Capabilities;
use selvedge_core::id::{AttemptId, LaneId, LeaseId, WorkerId, WorkerInstanceId};
use selvedge_core::partition::Partition;

use super::{Errand, lane};
use crate::event::{Actor, Learned};
use crate::world::World;
use crate::world::stream::Purpose;

/// How often a worker repeats what got no answer.
const TRIES_MAX: u32 = 5;

/// What a worker knows.
pub(crate) struct Worker {
    number: u8,
    /// Where it looks next: every partition and lane in turn.
    turn: u64,
    claim: Option<Claim>,
    work: Option<ClaimedWork>,
    lane: LaneId,
    tries: u32,
}

#[derive(Clone)]
struct Claim {
    partition: Partition,
    lane: LaneId,
    lease_id: LeaseId,
    attempt_id: AttemptId,
}

impl Worker {
    pub(crate) fn new(number: u8) -> Self {
        Self { number, turn: u64::from(number), claim: None, work: None, lane: lane(0), tries: 0 }
    }

    fn ids(&self) -> (WorkerId, WorkerInstanceId) {
        let name = format!("w{}", self.number);
        (WorkerId::new(name.clone()), WorkerInstanceId::new(name))
    }
}

impl World {
    fn worker(&mut self, number: u8) -> &mut Worker {
        &mut self.workers[usize::from(number) - 1]
    }

    pub(crate) fn worker_ticks(&mut self, number: u8, errand: Errand) {
        match errand {
            Errand::Rise => self.look_for_work(number),
            Errand::Done => self.report(number),
            Errand::Claim | Errand::Report | Errand::Deed(_) => {}
        }
    }

    pub(crate) fn worker_hears(&mut self, number: u8, errand: Errand, learned: Learned) {
        match errand {
            Errand::Claim => self.claim_answered(number, learned),
            Errand::Report => self.report_answered(number, &learned),
            Errand::Rise | Errand::Done | Errand::Deed(_) => {}
        }
    }

    fn look_for_work(&mut self, number: u8) {
        let actor = Actor::Worker(number);
        let (partitions, lanes) =
            (self.plan.config.flow_partitions.max(1), self.plan.config.lanes.max(1));
        if self.worker(number).claim.is_none() {
            let lease_id = self.fresh_id(actor).into();
            let attempt_id = self.fresh_id(actor).into();
            let worker = self.worker(number);
            worker.turn += 1;
            let partition = Partition::flow((worker.turn % partitions) as u16);
            let lane = lane(worker.turn / partitions % lanes);
            worker.claim = Some(Claim { partition, lane, lease_id, attempt_id });
        }
        let lease_ttl_ms = self.plan.config.lease.0;
        let worker = self.worker(number);
        let Some(claim) = worker.claim.clone() else { return };
        let (worker_id, worker_instance_id) = worker.ids();
        worker.lane = claim.lane.clone();
        let call = ClaimNext {
            partition: claim.partition,
            lane: claim.lane,
            worker_id,
            worker_instance_id,
            capabilities: Capabilities::default(),
            lease_id: claim.lease_id,
            lease_ttl_ms,
            attempt_id: claim.attempt_id,
            window: None,
            offset: 0,
            admitted: None,
        };
        self.ask(actor, &call, Errand::Claim);
    }

    fn claim_answered(&mut self, number: u8, learned: Learned) {
        let actor = Actor::Worker(number);
        if matches!(learned, Learned::Perhaps(_)) && self.worker(number).tries < TRIES_MAX {
            // The same lease id: if the claim had passed, it is answered again.
            self.worker(number).tries += 1;
            return self.look_for_work(number);
        }
        let worker = self.worker(number);
        (worker.claim, worker.tries) = (None, 0);
        let work = match learned {
            Learned::Reply(reply) => ClaimNext::parse(reply).ok(),
            Learned::NotApplied(_) | Learned::Perhaps(_) => None,
        };
        if let Some(ClaimNextReply::Claimed(work)) = work {
            worker.work = Some(work);
            let span = self.plan.config.work.0;
            let wait = self.chance(Purpose::Workload, actor).within(span);
            return self.tick(actor, wait, Errand::Done);
        }
        self.rise_later(number);
    }

    fn rise_later(&mut self, number: u8) {
        let (actor, span) = (Actor::Worker(number), self.plan.config.idle.0);
        let wait = self.chance(Purpose::Workload, actor).within(span);
        self.tick(actor, wait, Errand::Rise);
    }

    fn report(&mut self, number: u8) {
        let worker = self.worker(number);
        let Some(work) = worker.work.clone() else { return };
        let running = Running {
            execution_id: work.execution_id,
            attempt_index: work.attempt_index,
            lane: worker.lane.clone(),
            worker_instance_id: worker.ids().1,
        };
        let authority = Authority::Holder(work.fence);
        let call = CompleteExecution { running, authority, result_payload: b"done".to_vec() };
        self.ask(Actor::Worker(number), &call, Errand::Report);
    }

    fn report_answered(&mut self, number: u8, learned: &Learned) {
        let worker = self.worker(number);
        if matches!(learned, Learned::Perhaps(_)) && worker.tries < TRIES_MAX {
            worker.tries += 1;
            return self.report(number);
        }
        (worker.work, worker.tries) = (None, 0);
        self.tick(Actor::Worker(number), 0, Errand::Rise);
    }
}
