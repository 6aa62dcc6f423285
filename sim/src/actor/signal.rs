//! Suspensions, and the signals that end them: in time, early, late, twice, or for an old
//! waitpoint.

use selvedge_core::call::Function;
use selvedge_core::call::signal::IncomingSignal;
use selvedge_core::call::suspension::{
    BoundWaitpoint, CreatePendingWaitpoint, NewWaitpoint, SuspendExecution, SuspendIdempotency,
    SuspendOn, Suspended, SuspensionReason, SuspensionRequester, TimeoutBehavior,
};
use selvedge_core::id::{ExecutionId, SuspensionId, WaitpointId, WaitpointKey};
use selvedge_core::value::Value;

use super::worker::{Work, WorkerWait, command_of};
use super::{CallResult, ClientWait};
use crate::event::Actor;
use crate::plan::{Action, FaultRule, WorkerAction};
use crate::search::Ratio;
use crate::world::World;
use crate::world::random_streams::Purpose;

/// How long the idempotency key of a suspension is valid.
const REMEMBERED_MS: u64 = 60_000;

/// A waitpoint that a signaller knows.
#[derive(Clone, Debug)]
pub(crate) struct KnownWaitpoint {
    pub(crate) execution: ExecutionId,
    pub(crate) bound: BoundWaitpoint,
}

impl World {
    pub(crate) fn suspend_call(
        &mut self,
        number: u8,
        work: &Work,
        timed: bool,
        ahead: Option<WaitpointId>,
    ) -> SuspendExecution {
        let actor = Actor::Worker(number);
        let claimed = &work.claimed;
        let partition = claimed.execution_id.partition();
        let behaviors = TimeoutBehavior::ALL;
        let drawn = self.random(Purpose::Workload, actor).bits();
        // The last behaviour escalates to an operator and would never end.
        let pick = (drawn % (behaviors.len() as u64 - 1)) as usize;
        let timeout_at = timed.then(|| self.server_time(partition, 4_000));
        let on = match ahead {
            Some(id) => SuspendOn::Pending(id),
            None => {
                let id = self.fresh_id(actor).into();
                let primary = NewWaitpoint { id, key: WaitpointKey::new("wp-a") };
                SuspendOn::New { primary, additional: Vec::new() }
            }
        };
        let suspension_id: SuspensionId = self.fresh_id(actor).into();
        // With an idempotency key a repeat returns the same waitpoint, as for a real worker.
        // Otherwise it could not be signalled.
        let once = SuspendIdempotency { key: suspension_id.to_string(), ttl_ms: REMEMBERED_MS };
        SuspendExecution {
            execution_id: claimed.execution_id.clone(),
            lane: work.lane.clone(),
            worker_instance_id: work.instance.clone(),
            attempt_index: claimed.attempt_index,
            fence: claimed.fence,
            suspension_id,
            on,
            reason: SuspensionReason::WaitingForSignal,
            requested_by: SuspensionRequester::Worker,
            timeout_at,
            timeout_behavior: behaviors[pick],
            resume_condition_json: r#"{"signal_match_mode":"any"}"#.to_owned(),
            resume_policy_json: "{}".to_owned(),
            continuation_metadata_pointer: None,
            lease_history_maxlen: 100,
            idempotency: Some(once),
        }
    }

    /// Creates a waitpoint; the suspension follows later.
    pub(crate) fn make_waitpoint_ahead(&mut self, number: u8, work: &Work) {
        let actor = Actor::Worker(number);
        let waitpoint =
            NewWaitpoint { id: self.fresh_id(actor).into(), key: WaitpointKey::new("wp-a") };
        let partition = work.claimed.execution_id.partition();
        let call = CreatePendingWaitpoint {
            execution_id: work.claimed.execution_id.clone(),
            attempt_index: work.claimed.attempt_index,
            waitpoint,
            expires_at: self.server_time(partition, 3_000),
        };
        let incarnation = self.worker(number).incarnation;
        self.ask(actor, incarnation, &call, ClientWait::Worker(WorkerWait::Ahead));
    }

    pub(crate) fn ahead_answered(&mut self, number: u8, result: CallResult) {
        let bound = match result {
            CallResult::Reply(reply) => CreatePendingWaitpoint::parse(reply).ok(),
            CallResult::Retry => None,
        };
        let Some(mut work) = self.worker(number).work.clone() else { return };
        let Some(bound) = bound else {
            work.action = WorkerAction::Complete;
            self.worker(number).work = Some(work);
            return self.finish_work(number);
        };
        let id = bound.id;
        self.learn_waitpoint(&work.claimed.execution_id, bound);
        let call = self.suspend_call(number, &work, true, Some(id));
        self.set_report(number, command_of(&call));
    }

    /// Records the waitpoints of a suspension.
    pub(crate) fn on_suspended(&mut self, _number: u8, work: &Work, reply: Value) {
        if !matches!(
            work.action,
            WorkerAction::Suspend | WorkerAction::SuspendTimed | WorkerAction::SuspendAhead
        ) {
            return;
        }
        let Ok(suspended) = SuspendExecution::parse(reply) else { return };
        let (Suspended::Waiting { waitpoints, .. }
        | Suspended::AlreadySatisfied { waitpoints, .. }) = suspended;
        for bound in waitpoints {
            self.learn_waitpoint(&work.claimed.execution_id, bound);
        }
    }

    /// Records a waitpoint, and usually has it signalled after a while.
    fn learn_waitpoint(&mut self, id: &ExecutionId, bound: BoundWaitpoint) {
        self.waitpoints.push(KnownWaitpoint { execution: id.clone(), bound });
        let signaller = Actor::Signaller(1);
        let name = self.names.name_of(id).unwrap_or_default().to_owned();
        let chance = Ratio { hits: 4, of: 5 };
        let stream = self.random(Purpose::Workload, signaller);
        let (comes, wait) = (stream.chance(chance), stream.below(4_000));
        if self.plan.config.signals && comes {
            self.later(signaller, wait, Action::Signal(name, "go".to_owned()));
        }
    }

    /// A signal for the latest waitpoint of an execution; none while no waitpoint is known.
    pub(crate) fn incoming_signal(
        &mut self,
        by: Actor,
        id: &ExecutionId,
        name: &str,
    ) -> Option<IncomingSignal> {
        let known = self.waitpoints.iter().rev().find(|known| known.execution == *id)?.clone();
        Some(IncomingSignal {
            signal_id: self.fresh_id(by).into(),
            execution_id: id.clone(),
            waitpoint_id: known.bound.id,
            name: name.to_owned(),
            category: "external".to_owned(),
            source_type: "user".to_owned(),
            source_identity: by.to_string(),
            payload: b"p".to_vec(),
            payload_encoding: "text".to_owned(),
            idempotency_key: Some(format!("{name}-{}", known.bound.id)),
            correlation_id: None,
            target_scope: "waitpoint".to_owned(),
            created_at: None,
            dedup_ttl_ms: 60_000,
            resume_delay_ms: 0,
            signal_maxlen: 100,
            max_signals_per_execution: 50,
            token: known.bound.token,
        })
    }

    /// Sends unexpected signals: twice, and long after the wait.
    pub(crate) fn send_odd_signals(&mut self, rule: &FaultRule) {
        let signaller = Actor::Signaller(2);
        let named = rule.subject.as_ref().map(|name| self.names.execution(name));
        let known: Vec<ExecutionId> =
            self.waitpoints.iter().map(|known| known.execution.clone()).collect();
        let drawn = self.random(Purpose::Faults, signaller).pick(&known).cloned();
        let Some(id) = named.or(drawn) else { return };
        self.record_fault(rule.fault, id.to_string());
        let name = self.names.name_of(&id).unwrap_or_default().to_owned();
        for (wait, signal) in [(0, "go"), (1, "go"), (2_000, "late"), (9_000, "go")] {
            self.later(signaller, wait, Action::Signal(name.clone(), signal.to_owned()));
        }
    }
}
