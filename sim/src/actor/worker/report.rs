//! How a worker renews its lease and reports a result.

use selvedge_core::call::Function;
use selvedge_core::call::execution::{Authority, CompleteExecution, DelayExecution, FailExecution};
use selvedge_core::call::lease::RenewLease;
use selvedge_core::value::Value;

use super::{AGAIN_MS, RETRY, TRIES_MAX, WorkerWait, command_of};
use crate::actor::{CallResult, ClientWait};
use crate::event::Actor;
use crate::plan::WorkerAction;
use crate::world::World;
use crate::world::random_streams::Purpose;

impl World {
    pub(super) fn renew(&mut self, number: u8, left: u32) {
        let ttl_ms = self.lease_ms();
        let worker = self.worker(number);
        let Some(work) = worker.work.clone() else { return };
        let call = RenewLease {
            execution_id: work.claimed.execution_id,
            attempt_index: work.claimed.attempt_index,
            fence: work.claimed.fence,
            lease_ttl_ms: ttl_ms,
            lease_history_grace_ms: 1_000,
        };
        let incarnation = worker.incarnation;
        self.ask(
            Actor::Worker(number),
            incarnation,
            &call,
            ClientWait::Worker(WorkerWait::Renewed(left)),
        );
    }

    /// Goes on after a renewal, whatever its result: the report will show whether the lease was
    /// lost.
    pub(super) fn renewed(&mut self, number: u8, left: u32, result: &CallResult) {
        let lost = matches!(result, CallResult::Reply(reply)
            if RenewLease::parse(reply.clone()).is_err());
        let wait = self.lease_ms() / 3;
        let waiting =
            if left > 1 && !lost { WorkerWait::Renew(left - 1) } else { WorkerWait::Done };
        let incarnation = self.worker(number).incarnation;
        self.set_timer(Actor::Worker(number), incarnation, wait, ClientWait::Worker(waiting));
    }

    /// Builds the report and sends it.
    pub(crate) fn finish_work(&mut self, number: u8) {
        let Some(work) = self.worker(number).work.clone() else { return };
        let partition = work.claimed.execution_id.partition();
        let authority = Authority::Holder(work.claimed.fence);
        let running = work.running();
        let report = match work.action {
            WorkerAction::Die => return self.kill_worker(number),
            WorkerAction::SuspendAhead => return self.make_waitpoint_ahead(number, &work),
            WorkerAction::Suspend | WorkerAction::SuspendTimed => {
                let timed = work.action == WorkerAction::SuspendTimed;
                let call = self.suspend_call(number, &work, timed, None);
                command_of(&call)
            }
            WorkerAction::Complete | WorkerAction::Slow => command_of(&CompleteExecution {
                running,
                authority,
                result_payload: b"done".to_vec(),
            }),
            WorkerAction::Fail | WorkerAction::FailForGood => {
                let retry = if work.action == WorkerAction::Fail { RETRY } else { "" };
                command_of(&FailExecution {
                    running,
                    authority,
                    failure_reason: "as planned".to_owned(),
                    failure_category: "transient".to_owned(),
                    retry_policy_json: retry.to_owned(),
                })
            }
            WorkerAction::Delay => {
                let by = self.random(Purpose::Workload, Actor::Worker(number)).below(3_000);
                let delay_until = self.server_time(partition, by.cast_signed() - 500);
                command_of(&DelayExecution { running, authority, delay_until })
            }
        };
        self.set_report(number, report);
    }

    pub(crate) fn set_report(&mut self, number: u8, report: (&'static str, Vec<Vec<u8>>)) {
        if let Some(work) = &mut self.worker(number).work {
            work.report = Some(report);
        }
        self.send_report(number);
    }

    pub(super) fn send_report(&mut self, number: u8) {
        let worker = self.worker(number);
        let incarnation = worker.incarnation;
        let Some((function, argv)) = worker.work.as_ref().and_then(|work| work.report.clone())
        else {
            return self.wake_worker(number, 0);
        };
        let slot = argv.get(3).map_or(0, |key| selvedge_core::partition::slot(key));
        let waiting = ClientWait::Worker(WorkerWait::Report);
        self.ask_words(Actor::Worker(number), incarnation, slot, function, argv, waiting);
    }

    pub(super) fn report_answered(&mut self, number: u8, result: CallResult) {
        let worker = self.worker(number);
        let incarnation = worker.incarnation;
        let actor = Actor::Worker(number);
        let reply = match result {
            CallResult::Retry if worker.tries < TRIES_MAX => {
                worker.tries += 1;
                return self.set_timer(
                    actor,
                    incarnation,
                    AGAIN_MS,
                    ClientWait::Worker(WorkerWait::Report),
                );
            }
            CallResult::Retry => Value::Nil,
            CallResult::Reply(reply) => reply,
        };
        worker.tries = 0;
        if std::mem::take(&mut worker.reports_twice) {
            if self.random(Purpose::Workload, actor).below(2) == 0
                && let Some(work) = &mut self.worker(number).work
            {
                // A different result this time.
                work.action = WorkerAction::FailForGood;
                return self.finish_work(number);
            }
            return self.set_timer(
                actor,
                incarnation,
                AGAIN_MS,
                ClientWait::Worker(WorkerWait::ReportAgain),
            );
        }
        if let Some(work) = self.worker(number).work.take() {
            self.on_suspended(number, &work, reply);
            return self.release_slot(number, work.claimed.execution_id);
        }
        self.wake_worker(number, 0);
    }
}
