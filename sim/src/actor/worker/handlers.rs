//! What handlers do, as the plan says.

use std::time::Duration;

use selvedge_core::call::budget::Delta;
use selvedge_core::call::scheduling::ClaimedWork;
use selvedge_core::call::suspension::{SuspensionReason, TimeoutBehavior};
use selvedge_core::id::{ExecutionId, LeaseId, WaitpointId};
use selvedge_core::policy::ExecutionPolicy;
use selvedge_core::worker::{
    HandlerOutcome, HandlerReply, HandlerRequest, HandlerRequestError, Input, PERMANENT, Suspension,
};

use super::WorkerWait;
use crate::event::{Actor, EventKind, HandlerStep};
use crate::plan::{Span, WorkerAction};
use crate::world::World;
use crate::world::random_streams::Purpose;

/// How long a handler takes after the faults have ended.
const QUICK: Span = Span { from: 5, to: 60 };
/// How long a handler takes to stop after it was told to.
const STOPS: Span = Span { from: 1, to: 50 };
/// After this many claims a task is always completed, so that a run ends.
const CLAIMS_MAX: usize = 12;
/// What a handler of an execution with a budget spends: four pass the limit of the shared one.
const TOKENS: i64 = 6;
/// How long a waitpoint that is created ahead is open.
const AHEAD: Duration = Duration::from_secs(3);
/// The timeout of a suspension.
const TIMEOUT: Duration = Duration::from_secs(4);

/// A handler that runs.
pub(crate) struct Handler {
    execution: ExecutionId,
    action: WorkerAction,
    /// How long it works.
    work_ms: u64,
    /// It was told to stop.
    cancelled: bool,
}

impl World {
    pub(super) fn start_handler(&mut self, number: u8, work: ClaimedWork) {
        let actor = Actor::Worker(number);
        let mut action = self.draw_action(number, &work.execution_id);
        if action == WorkerAction::Hang && !self.faults_are_on() {
            // A run has to end.
            action = WorkerAction::Complete;
        }
        let span = if self.faults_are_on() { self.plan.config.work.0 } else { QUICK };
        let mut work_ms = self.random(Purpose::Workload, actor).within(span);
        let worker = self.worker(number);
        if action == WorkerAction::Slow {
            work_ms = worker.lease_ms * 5 / 3;
        } else if action == WorkerAction::Stubborn {
            work_ms = worker.lease_ms * 3;
        }
        let lease = work.fence.lease_id;
        let execution = work.execution_id;
        let handler = Handler { execution: execution.clone(), action, work_ms, cancelled: false };
        worker.handlers.insert(lease, handler);
        self.emit(actor, EventKind::Handler { lease, execution, step: HandlerStep::Started });
        self.freeze_zombie(number);
        let policy = ExecutionPolicy::read(&work.policy_json).unwrap_or_default();
        if policy.budget_ids.is_empty() {
            self.handler_works(number, lease);
        } else {
            let deltas = vec![Delta { dimension: "tokens".to_owned(), delta: TOKENS }];
            self.request_from_worker(
                number,
                lease,
                HandlerRequest::Spend { report: "work".to_owned(), deltas },
            );
        }
    }

    /// A handler begins its work.
    fn handler_works(&mut self, number: u8, lease: LeaseId) {
        let Some(handler) = self.worker(number).handlers.get(&lease) else { return };
        if handler.action != WorkerAction::Hang {
            let work_ms = handler.work_ms;
            self.worker_timer_in(number, work_ms, WorkerWait::Handler(lease));
        }
    }

    /// The faults have ended: handlers that hang go on.
    pub(super) fn release_handlers(&mut self, number: u8) {
        let mut hanging = Vec::new();
        for (lease, handler) in &mut self.worker(number).handlers {
            if handler.action == WorkerAction::Hang {
                handler.action = WorkerAction::Complete;
                hanging.push(*lease);
            }
        }
        for lease in hanging {
            self.worker_timer_in(number, 0, WorkerWait::Handler(lease));
        }
    }

    pub(super) fn draw_action(&mut self, number: u8, id: &ExecutionId) -> WorkerAction {
        let claims = self.clients.claims.entry(id.clone()).or_default();
        *claims += 1;
        let claims = *claims;
        let name = self.clients.names.name_of(id).unwrap_or_default();
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

    /// A handler was told to stop, and does so soon, unless it ignores that.
    pub(super) fn cancel_handler(&mut self, number: u8, lease: LeaseId) {
        let actor = Actor::Worker(number);
        let Some(handler) = self.worker(number).handlers.get_mut(&lease) else { return };
        let execution = handler.execution.clone();
        let stops = handler.action != WorkerAction::Stubborn;
        handler.cancelled = stops;
        self.emit(
            actor,
            EventKind::Handler { lease, execution, step: HandlerStep::CancelRequested },
        );
        if stops {
            let wait = self.random(Purpose::Workload, actor).within(STOPS);
            self.worker_timer_in(number, wait, WorkerWait::Handler(lease));
        }
    }

    /// A handler is over.
    pub(super) fn remove_handler(&mut self, number: u8, lease: LeaseId) {
        if let Some(Handler { execution, .. }) = self.worker(number).handlers.remove(&lease) {
            let step = HandlerStep::Ended;
            self.emit(Actor::Worker(number), EventKind::Handler { lease, execution, step });
        }
    }

    /// A handler has worked as long as it wanted to, or was told to stop.
    pub(super) fn handler_goes_on(&mut self, number: u8, lease: LeaseId) {
        let now_ms = self.now_ms;
        let worker = self.worker(number);
        let Some(handler) = worker.handlers.get(&lease) else { return };
        if worker.frozen_until > now_ms && !worker.handlers_run_on {
            let wait = worker.frozen_until - now_ms;
            return self.worker_timer_in(number, wait, WorkerWait::Handler(lease));
        }
        if handler.cancelled {
            return self.handler_ended(number, lease, failed("transient", "told to stop"));
        }
        match handler.action {
            WorkerAction::Die => self.kill_worker(number),
            // Somebody told it to stop, and it has not.
            WorkerAction::Hang => {}
            WorkerAction::Panic => {
                let outcome = HandlerOutcome::Panicked("as planned".to_owned());
                self.handler_ended(number, lease, outcome);
            }
            WorkerAction::Complete | WorkerAction::Slow | WorkerAction::Stubborn => {
                let outcome = HandlerOutcome::Completed(b"done".to_vec());
                self.handler_ended(number, lease, outcome);
            }
            WorkerAction::Fail => {
                self.handler_ended(number, lease, failed("transient", "as planned"));
            }
            WorkerAction::FailForGood => {
                self.handler_ended(number, lease, failed(PERMANENT, "as planned"));
            }
            WorkerAction::Delay => {
                let by = self.random(Purpose::Workload, Actor::Worker(number)).below(3_000);
                let pause = Duration::from_millis(by.saturating_sub(500));
                self.handler_ended(number, lease, HandlerOutcome::Later(pause));
            }
            WorkerAction::Suspend => self.suspend(number, lease, None, false),
            WorkerAction::SuspendTimed => self.suspend(number, lease, None, true),
            WorkerAction::SuspendAhead => {
                self.request_from_worker(
                    number,
                    lease,
                    HandlerRequest::Waitpoint { expires_in: AHEAD },
                );
            }
        }
    }

    fn suspend(&mut self, number: u8, lease: LeaseId, waitpoint: Option<WaitpointId>, timed: bool) {
        let behaviors = TimeoutBehavior::ALL;
        let drawn = self.random(Purpose::Workload, Actor::Worker(number)).bits();
        // The last behaviour escalates to an operator and would never end.
        let pick = (drawn % (behaviors.len() as u64 - 1)) as usize;
        let request = HandlerRequest::Suspend(Suspension {
            waitpoint,
            condition_json: r#"{"signal_match_mode":"any"}"#.to_owned(),
            reason: SuspensionReason::WaitingForSignal,
            timeout: timed.then_some((TIMEOUT, behaviors[pick])),
        });
        self.request_from_worker(number, lease, request);
    }

    fn request_from_worker(&mut self, number: u8, lease: LeaseId, request: HandlerRequest) {
        let worker = self.worker(number);
        let id = worker.next_request;
        worker.next_request += 1;
        worker.open_requests.insert(id, lease);
        self.feed_worker_soon(number, Input::HandlerRequested { lease, id, request });
    }

    /// An input that another one led to comes right after it.
    fn feed_worker_soon(&mut self, number: u8, input: Input) {
        self.worker_timer_in(number, 0, WorkerWait::Input(Box::new(input)));
    }

    /// A handler got what it asked for, or not.
    pub(super) fn answer_handler(
        &mut self,
        number: u8,
        id: u64,
        answer: Result<HandlerReply, HandlerRequestError>,
    ) {
        let worker = self.worker(number);
        let Some(lease) = worker.open_requests.remove(&id) else { return };
        let Some(handler) = worker.handlers.get(&lease) else { return };
        let execution = handler.execution.clone();
        let outcome = match answer {
            Ok(HandlerReply::Done) => return,
            Ok(HandlerReply::Spent(_)) => return self.handler_works(number, lease),
            Ok(HandlerReply::Waitpoint(bound)) => {
                let id = bound.id;
                self.learn_waitpoint(&execution, bound);
                return self.suspend(number, lease, Some(id), true);
            }
            Ok(HandlerReply::Suspended(waitpoints)) => {
                for bound in waitpoints {
                    self.learn_waitpoint(&execution, bound);
                }
                HandlerOutcome::Suspended
            }
            Err(error) => failed("transient", &error.to_string()),
        };
        self.remove_handler(number, lease);
        self.feed_worker_soon(number, Input::Ended { lease, outcome });
    }
}

fn failed(category: &str, reason: &str) -> HandlerOutcome {
    HandlerOutcome::Failed { category: category.to_owned(), reason: reason.to_owned() }
}
