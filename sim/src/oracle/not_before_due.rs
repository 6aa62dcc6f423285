//! `NotBeforeDue`: nothing is promoted, expired, closed, purged or reset before it is due by the
//! clock of the serving node.

use selvedge_core::state::{EligibilityState, LifecyclePhase, OwnershipState, TerminalOutcome};

use super::call::Call;
use super::changes::{Change, ExecutionState};
use super::purged_in_time::RETENTION_MS;
use super::{Changes, Checker, Class, Findings, Oracle, View};
use crate::event::{Event, EventKind};

pub(super) const ORACLE: Oracle = Oracle {
    name: "NotBeforeDue",
    statement: "nothing is promoted, expired, closed, purged or reset before it is due by the clock of \
                the serving node",
    class: Class::Safety,
    checker: || Box::<NotBeforeDue>::default(),
};

#[derive(Default)]
struct NotBeforeDue {
    /// The latest time of any node: a clock that steps back makes nothing early.
    latest_ms: i64,
}

impl Checker for NotBeforeDue {
    fn on_event(
        &mut self,
        event: &Event,
        changes: &Changes,
        view: &View<'_>,
        findings: &mut Findings,
    ) {
        let EventKind::Applied(applied) = &event.kind else { return };
        let Some(call) = Call::of(applied) else { return };
        self.latest_ms = self.latest_ms.max((applied.server_time_us / 1000).cast_signed());
        let now_ms = self.latest_ms;
        for change in &changes.executions {
            let Some(was) = &change.was else { continue };
            if let Some((what, due_ms)) = early(&call, was, change.is.as_ref())
                && due_ms > now_ms
                && !is_surplus(&call, was, changes, view)
            {
                let early_ms = due_ms - now_ms;
                let function = call.function;
                findings.add(view, &change.of, format!("{function} {what} {early_ms} ms early"));
            }
        }
        for Change { of, was, is } in &changes.waitpoints {
            if let (Some(was), Some(is)) = (was, is)
                && was.state == "pending"
                && is.close_reason == "never_committed"
                && was.expires_at > now_ms
            {
                findings.add(view, of, format!("closed {} ms early", was.expires_at - now_ms));
            }
        }
        for Change { of, was, is } in &changes.budgets {
            if let (Some(was), Some(is)) = (was, is)
                && call.function == "reset_budget_if_due"
                && was.resets != is.resets
                && was.next_reset_at > now_ms
            {
                findings.add(view, of, format!("reset {} ms early", was.next_reset_at - now_ms));
            }
        }
    }
}

/// Whether a call purged what was not among the last ended executions of its index, of which the
/// engine keeps a number: so many others ended later, of those that are left and of those that the
/// same call purged.
fn is_surplus(call: &Call<'_>, was: &ExecutionState, changes: &Changes, view: &View<'_>) -> bool {
    let Some((keep, terminal)) = call.number("keep").zip(call.key("terminal")) else {
        return false;
    };
    let left = view.shards.iter().flat_map(|shard| shard.zset(&terminal));
    let left = left.filter(|(_, score)| **score as i64 >= was.completed_at).count();
    let gone = changes.executions.iter().filter(|change| change.is.is_none());
    let gone = gone.filter_map(|change| change.was.as_ref());
    let gone = gone.filter(|other| other.completed_at >= was.completed_at).count();
    // It is among these itself.
    usize::try_from(keep).is_ok_and(|keep| left + gone > keep)
}

/// The timed action that a call performed, and when it was due.
fn early(
    call: &Call<'_>,
    was: &ExecutionState,
    is: Option<&ExecutionState>,
) -> Option<(&'static str, i64)> {
    let before = was.vector?;
    if matches!(call.function, "purge_execution" | "purge_executions") {
        // A purge that has begun may be continued at any time.
        let begins = !was.is_being_purged && is.is_none_or(|is| is.is_being_purged);
        let asked_ms = call.number("retention_ms").unwrap_or(RETENTION_MS);
        let due_ms = was.completed_at.saturating_add(was.retention_ms.unwrap_or(asked_ms));
        return begins.then_some(("purged it", due_ms));
    }
    let after = is.and_then(|is| is.vector)?;
    if call.function == "promote_delayed"
        && before.eligibility == EligibilityState::NotEligibleUntilTime
        && after.eligibility == EligibilityState::EligibleNow
    {
        return Some(("promoted it", was.delay_until));
    }
    let lost = |ownership| {
        matches!(ownership, OwnershipState::LeaseExpiredReclaimable | OwnershipState::Unowned)
    };
    if matches!(call.function, "mark_lease_expired_if_due" | "requeue_lost_lease")
        && before.ownership == OwnershipState::Leased
        && lost(after.ownership)
    {
        return Some(("took the lease", was.lease_expires_at));
    }
    if call.function == "expire_suspension"
        && before.phase == LifecyclePhase::Suspended
        && after.phase != LifecyclePhase::Suspended
    {
        return Some(("ended the suspension", was.timeout_at));
    }
    if call.function == "expire_if_due"
        && (after.outcome == TerminalOutcome::Expired || before.phase != after.phase)
    {
        let dues = [was.attempt_timeout, was.deadline].into_iter().filter(|due| *due > 0);
        return Some(("expired it", dues.min().unwrap_or(i64::MAX)));
    }
    None
}
