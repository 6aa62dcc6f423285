//! `NotBeforeDue`

use selvedge_core::state::{EligibilityState, LifecyclePhase, OwnershipState, TerminalOutcome};

use super::call::Call;
use super::purged_in_time::RETENTION_MS;
use super::scene::{Change, Seen};
use super::{Class, Findings, Judge, Oracle, Scene, View};
use crate::event::{Event, What};

pub(super) const ORACLE: Oracle = Oracle {
    name: "NotBeforeDue",
    statement: "no promotion, expiry, closing, purge or reset before its time by the serving node's \
                clock",
    class: Class::Safety,
    judge: || Box::<NotBeforeDue>::default(),
};

#[derive(Default)]
struct NotBeforeDue {
    /// The latest time that a node has shown: a clock that steps back does not make things early.
    latest_ms: i64,
}

impl Judge for NotBeforeDue {
    fn see(&mut self, event: &Event, scene: &Scene, view: &View<'_>, findings: &mut Findings) {
        let What::Applied(applied) = &event.what else { return };
        let Some(call) = Call::of(applied) else { return };
        self.latest_ms = self.latest_ms.max((applied.server_time_us / 1000).cast_signed());
        let now_ms = self.latest_ms;
        for change in &scene.executions {
            let Some(was) = &change.was else { continue };
            if let Some((what, due_ms)) = early(&call, was, change.is.as_ref())
                && due_ms > now_ms
            {
                let early_ms = due_ms - now_ms;
                let function = call.function;
                findings.add(view, &change.of, format!("{function} {what} {early_ms} ms early"));
            }
        }
        for Change { of, was, is } in &scene.waitpoints {
            if let (Some(was), Some(is)) = (was, is)
                && was.state == "pending"
                && is.close_reason == "never_committed"
                && was.expires_at > now_ms
            {
                findings.add(view, of, format!("closed {} ms early", was.expires_at - now_ms));
            }
        }
        for Change { of, was, is } in &scene.budgets {
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

/// What a call did that has its time, and when that is.
fn early(call: &Call<'_>, was: &Seen, is: Option<&Seen>) -> Option<(&'static str, i64)> {
    let before = was.vector?;
    if call.function == "purge_execution" {
        // What has begun goes on, whatever it is asked then.
        let begins = !was.is_being_purged && is.is_none_or(|is| is.is_being_purged);
        let asked_ms = call.number("retention_ms").unwrap_or(RETENTION_MS);
        let due_ms = was.completed_at.saturating_add(was.kept_ms.unwrap_or(asked_ms));
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
