//! The state of a flow, which follows from the states of its members.
//!
//! The summary of a flow holds a word of the contract as well (`projection.lua`). The two differ in
//! one case: the contract calls a flow failed in which a member was cancelled, although a join may
//! cancel the upstreams that it does not need any more.

use alloc::collections::BTreeMap;
use alloc::string::String;

use super::{PublicState, TerminalOutcome};

wire_enum! {
    /// The state of a flow.
    pub enum FlowState {
        /// Nothing of it runs, and nothing holds it back.
        Open = "open",
        /// Nothing of it runs, and members wait for a signal, a time, a limit or others.
        Blocked = "blocked",
        /// A member runs.
        Running = "running",
        /// All members have ended; none failed or expired.
        Completed = "completed",
        /// All members have ended, and one failed or expired.
        Failed = "failed",
        /// It was cancelled; or all members have ended, of which some were cancelled and none
        /// completed, failed or expired.
        Cancelled = "cancelled",
    }
}

/// How many members of a flow are in which state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberCounts {
    /// By public state.
    by_state: BTreeMap<PublicState, u64>,
    /// Without a record: purged, or deleted by hand.
    gone: u64,
}

impl MemberCounts {
    /// Counts a member by the public state in its record, which is empty if there is no record. An
    /// unknown state counts as `waiting`.
    pub fn add(&mut self, public_state: &str) {
        if public_state.is_empty() {
            self.gone = self.gone.saturating_add(1);
        } else {
            self.add_state(public_state.parse().unwrap_or(PublicState::Waiting), 1);
        }
    }

    /// Counts a member that has ended; one without an outcome has no record.
    pub fn add_outcome(&mut self, outcome: TerminalOutcome) {
        let state = match outcome {
            TerminalOutcome::Success => PublicState::Completed,
            TerminalOutcome::Failed => PublicState::Failed,
            TerminalOutcome::Cancelled => PublicState::Cancelled,
            TerminalOutcome::Expired => PublicState::Expired,
            TerminalOutcome::Skipped => PublicState::Skipped,
            TerminalOutcome::None => return self.add(""),
        };
        self.add_state(state, 1);
    }

    fn add_state(&mut self, state: PublicState, count: u64) {
        let counted = self.by_state.entry(state).or_default();
        *counted = counted.saturating_add(count);
    }

    /// The counts in the summary of a flow; none if it has no summary.
    #[must_use]
    pub fn of_summary(summary: &BTreeMap<String, String>) -> Option<Self> {
        let number = |name: &str| summary.get(name).and_then(|count| count.parse::<u64>().ok());
        number("total_members")?;
        let mut counts =
            Self { by_state: BTreeMap::new(), gone: number("members_gone").unwrap_or(0) };
        for state in PublicState::ALL {
            let name = alloc::format!("members_{state}");
            counts.add_state(*state, number(&name).unwrap_or(0));
        }
        Some(counts)
    }

    /// Counts members without a record by how they ended, as far as the summary of their flow has
    /// noted that when they were purged.
    pub fn restore_purged(&mut self, summary: &BTreeMap<String, String>) {
        for state in PublicState::ALL.iter().filter(|state| state.is_end()) {
            let noted = summary.get(&alloc::format!("purged_{state}"));
            let noted = noted.and_then(|count| count.parse::<u64>().ok()).unwrap_or(0);
            let restored = noted.min(self.gone);
            self.add_state(*state, restored);
            self.gone -= restored;
        }
    }

    fn count(&self, states: &[PublicState]) -> u64 {
        let counts = states.iter().filter_map(|state| self.by_state.get(state));
        counts.fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// The state of a flow with these members, whose own record has this state: `open`,
    /// `cancelled`, …
    #[must_use]
    pub fn state(&self, recorded: &str) -> FlowState {
        use PublicState as P;
        let recorded = recorded.parse();
        if recorded == Ok(FlowState::Cancelled) {
            return FlowState::Cancelled;
        }
        let open = self.by_state.iter().filter(|(state, count)| !state.is_end() && **count > 0);
        let is_empty = self.gone == 0 && self.by_state.values().all(|count| *count == 0);
        // A flow without members ends when its own record says so.
        let is_closed = matches!(recorded, Ok(FlowState::Completed | FlowState::Failed));
        if open.count() == 0 && (!is_empty || is_closed) {
            return if self.count(&[P::Failed, P::Expired]) > 0 {
                FlowState::Failed
            } else if self.count(&[P::Completed]) == 0 && self.count(&[P::Cancelled]) > 0 {
                FlowState::Cancelled
            } else {
                FlowState::Completed
            };
        }
        if self.count(&[P::Active]) > 0 {
            return FlowState::Running;
        }
        match self.count(&[P::Suspended, P::Delayed, P::RateLimited, P::WaitingChildren]) {
            0 => FlowState::Open,
            _ => FlowState::Blocked,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(members: &[&str]) -> FlowState {
        let mut counts = MemberCounts::default();
        members.iter().for_each(|member| counts.add(member));
        counts.state("open")
    }

    #[test]
    fn the_state_of_a_flow_follows_from_its_members() {
        for (members, expected) in [
            (&["waiting", "completed"][..], FlowState::Open),
            (&[], FlowState::Open),
            (&["added_later"], FlowState::Open),
            (&["waiting", "waiting_children"], FlowState::Blocked),
            (&["active", "delayed", "failed"], FlowState::Running),
            (&["completed", "completed"], FlowState::Completed),
            (&["completed", "cancelled"], FlowState::Completed),
            (&["completed", "failed", "skipped"], FlowState::Failed),
            (&["expired", "cancelled"], FlowState::Failed),
            (&["cancelled", "skipped"], FlowState::Cancelled),
            (&["completed", ""], FlowState::Completed),
            (&["", ""], FlowState::Completed),
        ] {
            assert_eq!(state(members), expected, "{members:?}");
        }
    }

    #[test]
    fn the_record_of_a_flow_decides_if_it_was_cancelled_or_has_no_members() {
        let mut counts = MemberCounts::default();
        assert_eq!(counts.state("completed"), FlowState::Completed);
        assert_eq!(counts.state("cancelled"), FlowState::Cancelled);
        counts.add("active");
        assert_eq!(counts.state("completed"), FlowState::Running);
        assert_eq!(counts.state("cancelled"), FlowState::Cancelled);
    }

    #[test]
    fn outcomes_count_as_the_states_that_follow_from_them() {
        for (outcome, public) in [
            (TerminalOutcome::Success, "completed"),
            (TerminalOutcome::Failed, "failed"),
            (TerminalOutcome::Cancelled, "cancelled"),
            (TerminalOutcome::Expired, "expired"),
            (TerminalOutcome::Skipped, "skipped"),
            (TerminalOutcome::None, ""),
        ] {
            let (mut one, mut other) = (MemberCounts::default(), MemberCounts::default());
            one.add_outcome(outcome);
            other.add(public);
            assert_eq!(one, other);
        }
    }

    #[test]
    fn purged_members_count_by_how_they_ended() {
        let noted = |failed: &str| {
            BTreeMap::from([
                ("total_members".into(), "2".into()),
                ("purged_failed".into(), failed.into()),
            ])
        };
        let mut counts = MemberCounts::default();
        counts.add("completed");
        counts.add("");
        counts.restore_purged(&noted("0"));
        assert_eq!(counts.state("open"), FlowState::Completed);
        counts.restore_purged(&noted("7"));
        assert_eq!((counts.gone, counts.state("open")), (0, FlowState::Failed));
    }

    #[test]
    fn a_summary_is_read_by_its_counts() {
        assert_eq!(MemberCounts::of_summary(&BTreeMap::new()), None);
        let summary = [("total_members", "3"), ("members_completed", "2"), ("members_gone", "1")];
        let summary = summary.map(|(name, count)| (name.into(), count.into()));
        let counts = MemberCounts::of_summary(&BTreeMap::from(summary)).expect("a summary");
        assert_eq!((counts.gone, counts.count(&[PublicState::Completed])), (1, 2));
    }
}
