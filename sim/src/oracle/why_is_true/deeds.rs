//! Judges who changed the state of an execution by what was said before.

use selvedge_core::explain::Reason;
use selvedge_core::id::ExecutionId;
use selvedge_core::state::{LifecyclePhase, TerminalOutcome};

use super::{Answer, WhyIsTrue};
use crate::event::{Actor, Applied, Event};
use crate::oracle::changes::{Change, ExecutionState};
use crate::oracle::{Findings, View};

impl WhyIsTrue {
    /// Compares a change of state with what was said about the execution.
    pub(super) fn judge(
        &mut self,
        event: &Event,
        applied: &Applied,
        change: &Change<ExecutionId, ExecutionState>,
        view: &View<'_>,
        findings: &mut Findings,
    ) {
        if change.vectors().is_none() {
            return;
        }
        let Some(answer) = self.answers.remove(&change.of) else { return };
        let (Some(was), Some(is)) = (&change.was, &change.is) else { return };
        let function = applied.function().and_then(|name| name.strip_prefix("ff_"));
        let Some(function) = function else { return };
        if !self.was_said(&answer, event.actor, function, was, is) {
            let said: Vec<&str> = answer.reasons().map(Reason::as_str).collect();
            let what = format!(
                "{} changed it by {function}, and at {} ms it was said to wait for {} only: {}",
                event.actor,
                answer.at_ms,
                said.join(", "),
                answer.why.headline
            );
            findings.add(view, &change.of, what);
        }
    }

    /// Whether the answer named who did it.
    fn was_said(
        &self,
        answer: &Answer,
        by: Actor,
        function: &str,
        was: &ExecutionState,
        is: &ExecutionState,
    ) -> bool {
        let says = |any: &[Reason]| answer.reasons().any(|reason| any.contains(&reason));
        // An upstream ends, and in the same call its child goes on.
        let upstreams = [Reason::Upstream, Reason::Dispatch, Reason::Release];
        // What a client was said to do, it may have done since.
        let clients = [Reason::Submission, Reason::Replay];
        let phase = was.vector.map(|vector| vector.phase);
        match function {
            "promote_delayed" => says(&[Reason::Delay]),
            "mark_lease_expired_if_due" | "requeue_lost_lease" => {
                says(&[Reason::LeaseEnd, Reason::LostLease])
            }
            "expire_suspension" => says(&[Reason::SuspensionTimeout]),
            "expire_if_due" => says(&[Reason::AttemptTimeout, Reason::Deadline]),
            "unblock_execution" => says(&[
                Reason::Budget,
                Reason::QuotaRate,
                Reason::QuotaConcurrency,
                Reason::Release,
                Reason::NoWorker,
            ]),
            "deliver_signal" => says(&[Reason::Signal]),
            "resolve_outgoing"
            | "resolve_dependency"
            | "resolve_lost"
            | "promote_blocked_to_eligible" => {
                // A child may be skipped in any state.
                says(&upstreams)
                    || says(&clients)
                    || is.vector.is_some_and(|vector| vector.outcome == TerminalOutcome::Skipped)
            }
            // A caller may cancel it, and so may an engine for its siblings; but once its flow is
            // cancelled, that must be said.
            "cancel_execution" => !answer.is_cancelled || says(&[Reason::Cancellation]),
            "complete_execution"
            | "fail_execution"
            | "suspend_execution"
            | "delay_execution"
            | "move_to_waiting_children" => says(&[Reason::Handler, Reason::LostLease]),
            _ if is.is_leased() && matches!(by, Actor::Worker(_)) => {
                says(&[Reason::Worker])
                    || says(&upstreams)
                    || says(&clients)
                    || (says(&[Reason::NoWorker]) && self.came_up_since(by, answer.at_ms))
            }
            "end_and_claim" if phase == Some(LifecyclePhase::Active) => {
                says(&[Reason::Handler, Reason::LostLease])
            }
            "end_and_claim" => says(&upstreams) || says(&clients),
            _ => true,
        }
    }

    /// Whether a worker was started after that, or the call is of one that has died since.
    fn came_up_since(&self, by: Actor, at_ms: u64) -> bool {
        self.up_since.get(&by).is_none_or(|since_ms| *since_ms > at_ms)
    }
}

impl Answer {
    /// Everything that was said to move it.
    fn reasons(&self) -> impl Iterator<Item = Reason> {
        self.why.waits.iter().chain(&self.why.limits).map(|wait| wait.reason)
    }
}
