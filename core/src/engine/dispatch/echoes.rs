//! Echoes: a skipped child is reported twice, by the reply of the call that skipped it and by the
//! completion that the call published. Whichever comes second is an echo.
//!
//! Only one report counts, so that a child is dispatched once. The other order of events, a push
//! that says something new, must stay distinct: an edge that is added to an execution which has
//! ended is announced by a further push. Each report therefore cancels at most one of the other
//! kind, and reports are forgotten when they are too old to be echoed.

use alloc::collections::{BTreeMap, VecDeque};
use core::time::Duration;

use crate::id::ExecutionId;
use crate::time::LocalTime;

/// How long an echo is expected. One that comes later costs a call that finds nothing to do.
const EXPECTED_FOR: Duration = Duration::from_secs(5);

/// Most reports remembered; past it the oldest are forgotten first.
const REPORTS_MAX: usize = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReportedBy {
    Reply,
    Push,
}

/// Skipped executions that were reported in one way and not yet in the other.
#[derive(Debug, Default)]
pub(super) struct Echoes {
    reports: BTreeMap<ExecutionId, (LocalTime, ReportedBy)>,
    /// The same by time. An entry may be outdated: then `reports` has another time, or nothing.
    by_age: VecDeque<(LocalTime, ExecutionId)>,
}

impl Echoes {
    /// A reply says that an execution was skipped; `sent` is when its call was sent at the
    /// earliest. True when a push has already said so.
    pub(super) fn is_echo_of_push(
        &mut self,
        now: LocalTime,
        sent: LocalTime,
        execution: &ExecutionId,
    ) -> bool {
        self.forget_old(now);
        match self.reports.get(execution) {
            // An older push was about an earlier end of the execution.
            Some(&(at, ReportedBy::Push)) if at >= sent => {
                self.reports.remove(execution);
                true
            }
            Some(_) | None => {
                self.remember(now, execution, ReportedBy::Reply);
                false
            }
        }
    }

    /// A push says that an execution was skipped. True when a reply has already said so.
    pub(super) fn is_echo_of_reply(&mut self, now: LocalTime, execution: &ExecutionId) -> bool {
        self.forget_old(now);
        match self.reports.get(execution) {
            Some((_, ReportedBy::Reply)) => {
                self.reports.remove(execution);
                true
            }
            Some((_, ReportedBy::Push)) | None => {
                self.remember(now, execution, ReportedBy::Push);
                false
            }
        }
    }

    /// Pushes may have been missed: none is taken for an echo of what was reported before.
    pub(super) fn pushes_missed(&mut self) {
        self.reports.clear();
        self.by_age.clear();
    }

    fn remember(&mut self, now: LocalTime, execution: &ExecutionId, by: ReportedBy) {
        self.reports.insert(execution.clone(), (now, by));
        self.by_age.push_back((now, execution.clone()));
        while self.by_age.len() > REPORTS_MAX {
            self.forget_oldest();
        }
    }

    fn forget_old(&mut self, now: LocalTime) {
        while self.by_age.front().is_some_and(|(at, _)| at.after(EXPECTED_FOR) < now) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((at, execution)) = self.by_age.pop_front()
            && self.reports.get(&execution).is_some_and(|(known, _)| *known == at)
        {
            self.reports.remove(&execution);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: usize) -> ExecutionId {
        ExecutionId::new(0, uuid::Uuid::from_u128(number as u128))
    }

    const START: LocalTime = LocalTime(0);

    #[test]
    fn a_report_cancels_one_of_the_other_kind() {
        let mut echoes = Echoes::default();
        assert!(!echoes.is_echo_of_push(START, START, &id(1)));
        assert!(echoes.is_echo_of_reply(START, &id(1)));
        assert!(!echoes.is_echo_of_reply(START, &id(1)), "a further push says something new");
        assert!(echoes.is_echo_of_push(START, START, &id(1)));
        assert!(!echoes.is_echo_of_push(START, START, &id(1)), "it was skipped again");
        assert!(!echoes.is_echo_of_reply(START, &id(2)), "another execution");
    }

    #[test]
    fn a_push_from_before_the_call_is_not_echoed_by_its_reply() {
        let mut echoes = Echoes::default();
        assert!(!echoes.is_echo_of_reply(LocalTime(10), &id(1)));
        assert!(!echoes.is_echo_of_push(LocalTime(30), LocalTime(20), &id(1)));
    }

    #[test]
    fn reports_are_forgotten_after_a_while_and_when_pushes_were_missed() {
        let mut echoes = Echoes::default();
        assert!(!echoes.is_echo_of_push(START, START, &id(1)));
        assert!(!echoes.is_echo_of_reply(LocalTime(5_001), &id(1)), "too late for an echo");
        assert!(!echoes.is_echo_of_push(START, START, &id(2)));
        echoes.pushes_missed();
        assert!(!echoes.is_echo_of_reply(START, &id(2)), "the echo may have been missed");
    }

    #[test]
    fn memory_is_bounded_and_keeps_the_latest() {
        let mut echoes = Echoes::default();
        for number in 0..REPORTS_MAX * 2 {
            echoes.is_echo_of_push(START, START, &id(number));
            assert!(echoes.by_age.len() <= REPORTS_MAX && echoes.reports.len() <= REPORTS_MAX);
        }
        assert!(echoes.is_echo_of_reply(START, &id(REPORTS_MAX * 2 - 1)));
        assert!(!echoes.is_echo_of_reply(START, &id(0)));
    }
}
