//! What happens to one candidate: the filter, the scanner's own steps, and setting aside an entry
//! that cannot be read.

use alloc::vec::Vec;

use super::outcome::{CandidateOutcome, OutcomeKind};
use super::step::ScanStep;
use crate::call::library::{SetAside, SetAsideReply};
use crate::engine::scanners::{Candidate, SCANNERS, ScanContext};
use crate::id::ExecutionId;

/// The first step of a candidate, which leads to all others.
pub(super) fn first_step(scanner: usize, context: ScanContext, candidate: Candidate) -> ScanStep {
    match candidate.execution(&context) {
        Ok(id) if SCANNERS[scanner].spec().filtered => {
            if_selected(&context.clone(), &id, move || scan(scanner, context, candidate))
        }
        // Unreadable, so that no filter applies: the scanner will say so.
        Ok(_) | Err(_) => scan(scanner, context, candidate),
    }
}

/// Goes on with an execution that passes the engine's filter; skips any other.
pub(in crate::engine) fn if_selected(
    context: &ScanContext,
    id: &ExecutionId,
    then: impl FnOnce() -> ScanStep + Send + 'static,
) -> ScanStep {
    keep_selected(context, alloc::vec![id.clone()], |selected, unknown| match unknown {
        Some(outcome) => outcome.into(),
        None if selected.is_empty() => CandidateOutcome::skipped().into(),
        None => then(),
    })
}

/// Goes on with those executions that pass the engine's filter. When the store could not say of
/// all of them, the outcome says so too.
pub(in crate::engine) fn keep_selected(
    context: &ScanContext,
    ids: Vec<ExecutionId>,
    then: impl FnOnce(Vec<ExecutionId>, Option<CandidateOutcome>) -> ScanStep + Send + 'static,
) -> ScanStep {
    let config = context.config.clone();
    ScanStep::read(config.filter.reads(&ids), move |replies| {
        let selection = config.filter.select(ids, &replies);
        let unknown = selection.unknown.map(|error| CandidateOutcome::error(error.into()));
        then(selection.selected, unknown)
    })
}

fn scan(scanner: usize, context: ScanContext, candidate: Candidate) -> ScanStep {
    let step = SCANNERS[scanner].begin(&context, &candidate).unwrap_or_else(ScanStep::from);
    step.and_then(move |outcome| match outcome.kind {
        OutcomeKind::Unreadable(reason) => set_aside(&context, candidate, reason),
        OutcomeKind::Processed(_)
        | OutcomeKind::Nothing
        | OutcomeKind::Refused(_)
        | OutcomeKind::NotNow(_)
        | OutcomeKind::Perhaps(_)
        | OutcomeKind::Failed(_)
        | OutcomeKind::Skipped => outcome.into(),
    })
}

fn set_aside(context: &ScanContext, candidate: Candidate, reason: &'static str) -> ScanStep {
    let call = SetAside {
        partition: context.partition,
        index: candidate.index,
        member: candidate.member,
        reason: reason.into(),
    };
    ScanStep::call(&call, move |reply| match reply {
        Ok(SetAsideReply::SetAside | SetAsideReply::AlreadyGone) => {
            CandidateOutcome { remains: false, ..CandidateOutcome::unreadable(reason) }.into()
        }
        Ok(SetAsideReply::Kept) => CandidateOutcome::unreadable(reason).into(),
        Err(error) => CandidateOutcome::error(error).into(),
    })
}
