//! Faults of workers: death, pauses, clocks, restarts, drains and changes of capacity.

use selvedge_core::worker::Input;

use super::Fault;
use super::timed::FaultEnd;
use crate::actor::worker::WorkerWait;
use crate::event::Actor;
use crate::plan::FaultRule;
use crate::world::random_streams::Purpose;
use crate::world::{Scheduled, World};

impl World {
    /// The worker that a rule names, or a random one; none if there are no workers.
    fn worker_of(&mut self, rule: &FaultRule) -> Option<u8> {
        let workers = self.clients.workers.len() as u64;
        match rule.to {
            Some(Actor::Worker(number)) if u64::from(number) <= workers => Some(number),
            _ if workers == 0 => None,
            _ => {
                let drawn = self.random(Purpose::Faults, Actor::World).below(workers);
                u8::try_from(drawn + 1).ok()
            }
        }
    }

    pub(super) fn inject_worker_fault(&mut self, rule: &FaultRule) {
        let of_worker = matches!(
            rule.fault,
            Fault::WorkerDies
                | Fault::WorkerPause
                | Fault::WorkerClockJump
                | Fault::WorkerRestart
                | Fault::WorkerDrain
                | Fault::CapacityDropped
        );
        if !of_worker {
            return;
        }
        let Some(number) = self.worker_of(rule) else { return };
        self.record_fault(rule.fault, format!("worker-{number}"));
        let (now_ms, duration_ms) = (self.now_ms, self.duration_ms(rule));
        let positive = rule.amount.and_then(|amount| u64::try_from(amount).ok());
        #[expect(clippy::wildcard_enum_match_arm, reason = "the others were sorted out above")]
        match rule.fault {
            Fault::WorkerDies => self.worker(number).dies_after = Some(positive.unwrap_or(1)),
            Fault::WorkerPause => {
                let worker = self.worker(number);
                worker.frozen_until = worker.frozen_until.max(now_ms + duration_ms);
                worker.handlers_run_on = true;
            }
            Fault::WorkerClockJump => {
                let (jump_ms, worker) = (rule.amount.unwrap_or(5_000), self.worker(number));
                worker.skew_ms += jump_ms;
                worker.behind_ms -= jump_ms.min(0);
                self.set_worker_alarm(number);
            }
            Fault::WorkerRestart => self.restart_worker(number, positive.unwrap_or(100)),
            Fault::CapacityDropped => {
                self.set_capacity(number, 0);
                let end = now_ms + duration_ms;
                self.schedule(end, Scheduled::FaultEnd(FaultEnd::Capacity(number)));
            }
            _ => self.feed_worker(number, Input::Drain),
        }
    }

    /// A worker dies, and starts again after this time under the name of the dead instance.
    fn restart_worker(&mut self, number: u8, wait_ms: u64) {
        let worker = self.worker(number);
        let name = worker.named_as.unwrap_or(worker.incarnation);
        self.kill_worker(number);
        self.worker(number).named_as = Some(name);
        self.worker_timer_in(number, wait_ms, WorkerWait::Start);
    }
}
