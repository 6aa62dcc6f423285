//! Patterns of state vectors, of which the table of transitions is made.

use super::{
    AttemptState, BlockingReason, EligibilityState, LifecyclePhase, OwnershipState, PublicState,
    StateVector, TerminalOutcome,
};

/// The values that one dimension may have.
#[derive(Clone, Copy, Debug)]
pub enum Allowed<W: 'static> {
    /// Any value.
    Any,
    /// One of these.
    OneOf(&'static [W]),
    /// What it was before.
    Kept,
    /// What it was before, or one of these.
    KeptOr(&'static [W]),
}

impl<W: PartialEq> Allowed<W> {
    fn admits(&self, before: Option<&W>, word: &W) -> bool {
        match self {
            Self::Any => true,
            Self::OneOf(words) => words.contains(word),
            Self::Kept => before.is_none_or(|before| before == word),
            Self::KeptOr(words) => {
                words.contains(word) || before.is_none_or(|before| before == word)
            }
        }
    }
}

/// A set of state vectors, by dimension.
#[derive(Clone, Copy, Debug)]
pub struct Pattern {
    /// See [`StateVector::phase`].
    pub phase: Allowed<LifecyclePhase>,
    /// See [`StateVector::ownership`].
    pub ownership: Allowed<OwnershipState>,
    /// See [`StateVector::eligibility`].
    pub eligibility: Allowed<EligibilityState>,
    /// See [`StateVector::reason`].
    pub reason: Allowed<BlockingReason>,
    /// See [`StateVector::outcome`].
    pub outcome: Allowed<TerminalOutcome>,
    /// See [`StateVector::attempt`].
    pub attempt: Allowed<AttemptState>,
    /// See [`StateVector::public`].
    pub public: Allowed<PublicState>,
}

impl Pattern {
    /// Whether `vector` matches. `before` is what kept dimensions are compared with; without it,
    /// any value counts as kept.
    #[must_use]
    pub fn admits(&self, before: Option<&StateVector>, vector: &StateVector) -> bool {
        self.phase.admits(before.map(|v| &v.phase), &vector.phase)
            && self.ownership.admits(before.map(|v| &v.ownership), &vector.ownership)
            && self.eligibility.admits(before.map(|v| &v.eligibility), &vector.eligibility)
            && self.reason.admits(before.map(|v| &v.reason), &vector.reason)
            && self.outcome.admits(before.map(|v| &v.outcome), &vector.outcome)
            && self.attempt.admits(before.map(|v| &v.attempt), &vector.attempt)
            && self.public.admits(before.map(|v| &v.public), &vector.public)
    }
}
