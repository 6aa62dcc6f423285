//! The legal transitions of the state vector, as one table.

use super::event::Event;
use super::pattern::{Allowed, Pattern};
use super::{
    AttemptState as A, BlockingReason as B, EligibilityState as E, LifecyclePhase as L,
    OwnershipState as O, PublicState as P, StateVector, TerminalOutcome as T,
};

/// One row: what may happen, from where, to where.
#[derive(Clone, Copy, Debug)]
pub struct Transition {
    /// What happens.
    pub event: Event,
    /// From where; none for creation.
    pub from: Option<Pattern>,
    /// To where.
    pub to: Pattern,
}

/// The row that leads from `from` to `to`, if there is one. `from` none asks for creation.
#[must_use]
pub fn transition(from: Option<&StateVector>, to: &StateVector) -> Option<&'static Transition> {
    TRANSITIONS.iter().find(|row| {
        let departs = match (&row.from, from) {
            (None, None) => true,
            (Some(pattern), Some(vector)) => pattern.admits(None, vector),
            (None, Some(_)) | (Some(_), None) => false,
        };
        departs && row.to.admits(from, to)
    })
}

/// Whether some transition can lead to this vector at all.
#[must_use]
pub fn is_legal(vector: &StateVector) -> bool {
    // What is kept through a row must itself be legal, and rows that keep the phase only start
    // from runnable and active vectors: the combinations below are all that can arise.
    let phase_fits = match vector.phase {
        L::Submitted => false,
        L::Runnable => {
            vector.ownership == O::Unowned
                && vector.eligibility != E::NotApplicable
                && vector.outcome == T::None
                && !matches!(vector.attempt, A::None | A::RunningAttempt | A::AttemptTerminal)
        }
        L::Active => {
            let leased = vector.ownership == O::Leased;
            let attempt = if leased { A::RunningAttempt } else { A::AttemptInterrupted };
            vector.ownership != O::Unowned
                && vector.eligibility == E::NotApplicable
                && vector.outcome == T::None
                && vector.attempt == attempt
        }
        L::Suspended => {
            vector.ownership == O::Unowned
                && vector.eligibility == E::NotApplicable
                && vector.outcome == T::None
                && vector.attempt == A::AttemptInterrupted
        }
        L::Terminal => vector.outcome != T::None,
    };
    phase_fits
        && TRANSITIONS.iter().any(|row| row.to.admits(None, vector))
        && (vector.public == vector.derived_public() || vector.public == P::RateLimited)
}

const RUNNABLE: Allowed<L> = Allowed::OneOf(&[L::Runnable]);
const ACTIVE: Allowed<L> = Allowed::OneOf(&[L::Active]);
const SUSPENDED: Allowed<L> = Allowed::OneOf(&[L::Suspended]);
const UNOWNED: Allowed<O> = Allowed::OneOf(&[O::Unowned]);
const LEASED: Allowed<O> = Allowed::OneOf(&[O::Leased]);
const LOST: Allowed<O> = Allowed::OneOf(&[O::LeaseExpiredReclaimable, O::LeaseRevoked]);
const NOT_ENDED: Allowed<T> = Allowed::OneOf(&[T::None]);
const PENDING: Allowed<A> = Allowed::OneOf(&[
    A::PendingFirstAttempt,
    A::PendingRetryAttempt,
    A::PendingReplayAttempt,
    A::AttemptInterrupted,
]);
const INTERRUPTED: Allowed<A> = Allowed::OneOf(&[A::AttemptInterrupted]);

/// Any vector of one phase.
const fn anywhere_in(phase: Allowed<L>) -> Pattern {
    Pattern {
        phase,
        ownership: Allowed::Any,
        eligibility: Allowed::Any,
        reason: Allowed::Any,
        outcome: Allowed::Any,
        attempt: Allowed::Any,
        public: Allowed::Any,
    }
}

const NOT_TERMINAL: Pattern = anywhere_in(Allowed::OneOf(&[L::Runnable, L::Active, L::Suspended]));
const TERMINAL: Pattern = anywhere_in(Allowed::OneOf(&[L::Terminal]));
const HELD_BY_LEASE: Pattern = Pattern { ownership: LEASED, ..anywhere_in(ACTIVE) };
const LEASE_LOST: Pattern = Pattern { ownership: LOST, ..anywhere_in(ACTIVE) };

/// Ready to be claimed.
const fn eligible(attempt: Allowed<A>) -> Pattern {
    Pattern {
        phase: RUNNABLE,
        ownership: UNOWNED,
        eligibility: Allowed::OneOf(&[E::EligibleNow]),
        reason: Allowed::OneOf(&[B::WaitingForWorker]),
        outcome: NOT_ENDED,
        attempt,
        public: Allowed::OneOf(&[P::Waiting]),
    }
}

/// Ready at a later time.
const fn delayed(reason: &'static [B], attempt: Allowed<A>) -> Pattern {
    Pattern {
        eligibility: Allowed::OneOf(&[E::NotEligibleUntilTime]),
        reason: Allowed::OneOf(reason),
        public: Allowed::OneOf(&[P::Delayed]),
        ..eligible(attempt)
    }
}

/// Held back by dependencies.
const fn waiting_children(attempt: Allowed<A>) -> Pattern {
    Pattern {
        eligibility: Allowed::OneOf(&[E::BlockedByDependencies]),
        reason: Allowed::OneOf(&[B::WaitingForChildren]),
        public: Allowed::OneOf(&[P::WaitingChildren]),
        ..eligible(attempt)
    }
}

/// Held back by admission.
const HELD: Pattern = Pattern {
    eligibility: Allowed::OneOf(&[
        E::BlockedByBudget,
        E::BlockedByQuota,
        E::BlockedByRoute,
        E::BlockedByOperator,
        E::BlockedByLaneState,
    ]),
    reason: Allowed::OneOf(&[
        B::WaitingForBudget,
        B::WaitingForQuota,
        B::WaitingForCapableWorker,
        B::PausedByOperator,
        B::PausedByPolicy,
    ]),
    attempt: Allowed::KeptOr(&[A::PendingFirstAttempt]),
    public: Allowed::OneOf(&[P::RateLimited]),
    ..eligible(PENDING)
};

/// Running under a live lease.
const RUNNING: Pattern = Pattern {
    phase: ACTIVE,
    ownership: LEASED,
    eligibility: Allowed::OneOf(&[E::NotApplicable]),
    reason: Allowed::OneOf(&[B::None]),
    outcome: NOT_ENDED,
    attempt: Allowed::OneOf(&[A::RunningAttempt]),
    public: Allowed::OneOf(&[P::Active]),
};

/// Active without a live lease.
const fn ownerless(ownership: &'static [O]) -> Pattern {
    Pattern {
        ownership: Allowed::OneOf(ownership),
        eligibility: Allowed::Kept,
        reason: Allowed::OneOf(&[B::WaitingForWorker]),
        attempt: INTERRUPTED,
        ..RUNNING
    }
}

/// Waiting for a signal or an operator.
const fn suspended(reason: &'static [B]) -> Pattern {
    Pattern {
        phase: SUSPENDED,
        ownership: UNOWNED,
        reason: Allowed::OneOf(reason),
        attempt: INTERRUPTED,
        public: Allowed::OneOf(&[P::Suspended]),
        ..RUNNING
    }
}

/// Ended.
const fn ended(outcome: &'static [T], attempt: Allowed<A>, public: &'static [P]) -> Pattern {
    Pattern {
        phase: Allowed::OneOf(&[L::Terminal]),
        ownership: UNOWNED,
        outcome: Allowed::OneOf(outcome),
        attempt,
        public: Allowed::OneOf(public),
        ..RUNNING
    }
}

const ATTEMPT_ENDED: Allowed<A> = Allowed::OneOf(&[A::AttemptTerminal]);
const ATTEMPT_ENDED_OR_KEPT: Allowed<A> = Allowed::KeptOr(&[A::AttemptTerminal, A::None]);

const fn row(event: Event, from: Pattern, to: Pattern) -> Transition {
    Transition { event, from: Some(from), to }
}

/// Every legal transition.
pub static TRANSITIONS: &[Transition] = &[
    Transition {
        event: Event::Create,
        from: None,
        to: eligible(Allowed::OneOf(&[A::PendingFirstAttempt])),
    },
    Transition {
        event: Event::CreateDelayed,
        from: None,
        to: delayed(&[B::WaitingForDelay], Allowed::OneOf(&[A::PendingFirstAttempt])),
    },
    row(Event::Claim, eligible(PENDING), RUNNING),
    row(Event::Claim, Pattern { attempt: INTERRUPTED, ..anywhere_in(RUNNABLE) }, RUNNING),
    row(Event::LeaseExpired, anywhere_in(ACTIVE), ownerless(&[O::LeaseExpiredReclaimable])),
    row(Event::LeaseRevoked, HELD_BY_LEASE, ownerless(&[O::LeaseRevoked])),
    row(Event::Reclaim, LEASE_LOST, RUNNING),
    row(Event::Requeue, LEASE_LOST, eligible(Allowed::OneOf(&[A::PendingRetryAttempt]))),
    row(Event::ReclaimCapReached, LEASE_LOST, ended(&[T::Failed], ATTEMPT_ENDED, &[P::Failed])),
    row(Event::Complete, HELD_BY_LEASE, ended(&[T::Success], ATTEMPT_ENDED, &[P::Completed])),
    row(
        Event::Retry,
        HELD_BY_LEASE,
        delayed(&[B::WaitingForRetryBackoff], Allowed::OneOf(&[A::PendingRetryAttempt])),
    ),
    // Its time may be over while its lease is lost already.
    row(
        Event::Retry,
        LEASE_LOST,
        delayed(&[B::WaitingForRetryBackoff], Allowed::OneOf(&[A::PendingRetryAttempt])),
    ),
    row(Event::Fail, HELD_BY_LEASE, ended(&[T::Failed], ATTEMPT_ENDED, &[P::Failed])),
    row(Event::Delay, HELD_BY_LEASE, delayed(&[B::WaitingForDelay], INTERRUPTED)),
    row(Event::WaitForChildren, HELD_BY_LEASE, waiting_children(INTERRUPTED)),
    row(
        Event::Suspend,
        HELD_BY_LEASE,
        suspended(&[
            B::WaitingForSignal,
            B::WaitingForApproval,
            B::WaitingForCallback,
            B::WaitingForToolResult,
            B::PausedByOperator,
            B::PausedByPolicy,
            B::WaitingForBudget,
        ]),
    ),
    row(Event::Resume, anywhere_in(SUSPENDED), eligible(INTERRUPTED)),
    row(
        Event::ResumeDelayed,
        anywhere_in(SUSPENDED),
        delayed(&[B::WaitingForResumeDelay], INTERRUPTED),
    ),
    row(Event::Escalate, anywhere_in(SUSPENDED), suspended(&[B::PausedByOperator])),
    row(
        Event::SuspensionTimeout,
        anywhere_in(SUSPENDED),
        ended(
            &[T::Failed, T::Cancelled, T::Expired],
            ATTEMPT_ENDED,
            &[P::Failed, P::Cancelled, P::Expired],
        ),
    ),
    row(
        Event::Promote,
        Pattern {
            eligibility: Allowed::OneOf(&[E::NotEligibleUntilTime]),
            ..anywhere_in(RUNNABLE)
        },
        eligible(Allowed::Kept),
    ),
    row(Event::Hold, anywhere_in(RUNNABLE), HELD),
    row(Event::Release, HELD, eligible(Allowed::KeptOr(&[A::PendingFirstAttempt]))),
    row(
        Event::Depend,
        Pattern { outcome: NOT_ENDED, ..anywhere_in(RUNNABLE) },
        waiting_children(Allowed::Kept),
    ),
    row(
        Event::Unblock,
        Pattern {
            eligibility: Allowed::OneOf(&[E::BlockedByDependencies]),
            ..anywhere_in(RUNNABLE)
        },
        eligible(Allowed::KeptOr(&[A::PendingFirstAttempt])),
    ),
    // A delay that still runs and a pause outlive the wait for dependencies; the pause is a Hold.
    row(
        Event::Unblock,
        Pattern {
            eligibility: Allowed::OneOf(&[E::BlockedByDependencies]),
            ..anywhere_in(RUNNABLE)
        },
        delayed(
            &[B::WaitingForDelay, B::WaitingForRetryBackoff],
            Allowed::KeptOr(&[A::PendingFirstAttempt]),
        ),
    ),
    row(
        Event::Skip,
        NOT_TERMINAL,
        ended(&[T::Skipped], Allowed::OneOf(&[A::None, A::AttemptTerminal]), &[P::Skipped]),
    ),
    row(
        Event::Cancel,
        NOT_TERMINAL,
        ended(&[T::Cancelled], ATTEMPT_ENDED_OR_KEPT, &[P::Cancelled]),
    ),
    row(Event::Expire, NOT_TERMINAL, ended(&[T::Expired], ATTEMPT_ENDED_OR_KEPT, &[P::Expired])),
    row(Event::Replay, TERMINAL, eligible(Allowed::OneOf(&[A::PendingReplayAttempt]))),
    row(
        Event::ReplayBlocked,
        TERMINAL,
        waiting_children(Allowed::OneOf(&[A::PendingReplayAttempt])),
    ),
];

#[cfg(test)]
mod tests;
