//! `HandlersStopped`

use std::collections::BTreeMap;

use selvedge_core::id::ExecutionId;
use selvedge_core::state::OwnershipState;

use super::changes::{Change, ExecutionState};
use super::workers::{lease_ms, round_trips};
use super::{Changes, Checker, Class, Findings, Oracle, RunEnd, View};
use crate::event::{Actor, Event, EventKind, HandlerStep};
use crate::fault::Fault;

pub(super) const ORACLE: Oracle = Oracle {
    name: "HandlersStopped",
    statement: "a handler whose lease is gone is told to stop: soon after a push, and in any case \
                when the lease ends by the clock of its worker",
    class: Class::Safety,
    checker: || Box::<HandlersStopped>::default(),
};

#[derive(Default)]
struct HandlersStopped {
    /// Handlers that run and were not told to stop, by worker and lease.
    running: BTreeMap<(Actor, String), Running>,
    /// Until when the loop or the clock of a worker may have stood still.
    stopped_until_ms: u64,
    /// When the last call or reply of a worker was lost.
    lost_ms: BTreeMap<Actor, u64>,
}

struct Running {
    execution: ExecutionId,
    /// When its lease was lost.
    gone: Option<Gone>,
}

#[derive(Clone, Copy)]
struct Gone {
    at_ms: u64,
    /// Whether the worker was told by a push.
    pushed: bool,
}

impl Checker for HandlersStopped {
    fn on_event(
        &mut self,
        event: &Event,
        changes: &Changes,
        view: &View<'_>,
        findings: &mut Findings,
    ) {
        #[expect(clippy::wildcard_enum_match_arm, reason = "the others are about no handler")]
        match &event.kind {
            EventKind::Handler { lease, execution, step } => {
                let key = (event.actor, lease.to_string());
                match step {
                    HandlerStep::Started => {
                        let running = Running { execution: execution.clone(), gone: None };
                        self.running.insert(key, running);
                    }
                    HandlerStep::CancelRequested | HandlerStep::Ended => {
                        drop(self.running.remove(&key))
                    }
                }
            }
            EventKind::Died => self.running.retain(|(by, _), _| *by != event.actor),
            EventKind::Lost { .. } => {
                self.lost_ms.insert(event.actor, event.at_ms);
            }
            EventKind::Fault { fault, .. } if stops_a_worker(*fault) => {
                self.stopped_until_ms = self.stopped_until_ms.max(view.disturbed_until_ms);
            }
            _ => {}
        }
        for change in &changes.executions {
            self.on_change(event, change);
        }
        self.judge(view, findings);
    }

    fn on_end(&mut self, _: RunEnd, view: &View<'_>, findings: &mut Findings) {
        self.judge(view, findings);
    }
}

impl HandlersStopped {
    fn on_change(&mut self, event: &Event, change: &Change<ExecutionId, ExecutionState>) {
        let Some(was) = change.was.as_ref().filter(|was| was.is_leased()) else { return };
        let lease = &was.fence[0];
        if change.is.as_ref().is_some_and(|is| is.is_leased() && is.fence[0] == *lease) {
            return;
        }
        let vector = change.is.as_ref().and_then(|is| is.vector);
        let ownership = vector.map(|vector| vector.ownership);
        let expired = ownership == Some(OwnershipState::LeaseExpiredReclaimable);
        // Its worker is told when an execution ends or its lease is revoked, not when it expires.
        let pushed = vector.is_some_and(|vector| vector.is_terminal())
            || ownership == Some(OwnershipState::LeaseRevoked);
        for ((by, of), running) in &mut self.running {
            // What a worker reports, it knows.
            let own = *by == event.actor && !expired;
            if of == lease && !own && running.gone.is_none() {
                running.gone = Some(Gone { at_ms: event.at_ms, pushed });
            }
        }
    }

    /// Reports handlers that were not told in time, each once.
    fn judge(&mut self, view: &View<'_>, findings: &mut Findings) {
        let config = view.config;
        let slow = view.any_slow_until_ms();
        let hurt_ms = view.disturbed_until_ms.max(slow);
        let at_last_ms = lease_ms(config) + SLACK_MS;
        let soon_ms = SLACK_MS + config.patience.0 + round_trips(config, ROUND_TRIPS);
        let stopped_ms = self.stopped_until_ms.min(view.disturbed_until_ms);
        let lost_ms = &self.lost_ms;
        self.running.retain(|(by, _), running| {
            let Some(Gone { at_ms, pushed }) = running.gone else { return true };
            let last_ms = at_ms.max(stopped_ms) + at_last_ms;
            let heard = lost_ms.get(by).is_none_or(|lost_ms| *lost_ms < at_ms);
            let by_push = pushed && config.push && heard && hurt_ms < at_ms;
            let due_ms = if by_push { last_ms.min(at_ms + soon_ms) } else { last_ms };
            let late = view.now_ms > due_ms;
            if late {
                let waited = view.now_ms - at_ms;
                let what = format!("runs at {by} without a lease for {waited} ms");
                findings.add(view, &running.execution, what);
            }
            !late
        });
    }
}

/// Whether a fault stops the loop of a worker, or its clock.
const fn stops_a_worker(fault: Fault) -> bool {
    matches!(fault, Fault::WorkerZombie | Fault::WorkerPause | Fault::WorkerClockJump)
}

/// Pauses of a worker.
const SLACK_MS: u64 = 3_000;
/// Round trips of a push and a renewal.
const ROUND_TRIPS: u64 = 8;
