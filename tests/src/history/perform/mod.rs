//! How each verb is performed, by domain.

mod budget_and_quota;
mod candidates;
mod execution;
pub(super) mod flow;
mod queue;
mod recovery;
pub(super) mod suspension;

use super::operation::{Operation, Verb};
use super::state::HistoryState;

impl HistoryState {
    /// Performs an operation, as far as that is possible in the current state.
    pub fn perform(&mut self, operation: &Operation) {
        let Operation { verb, a, b, c } = *operation;
        // Mostly on an execution in a suitable state, or histories would not get far.
        let a = if a < ANY_CANDIDATE { self.candidate(verb, a).unwrap_or(a) } else { a };
        match verb {
            Verb::Wait => self.wait_ms(PAUSES_MS[usize::from(c) % PAUSES_MS.len()]),
            Verb::Create => self.create(a, b, c),
            Verb::Claim => self.claim(a, b),
            Verb::ClaimNext | Verb::ClaimMany | Verb::EndAndClaim => self.take(verb, a, b, c),
            Verb::OperatorClaim => self.operator_claim(a, b),
            Verb::Renew => self.renew(a),
            Verb::Complete => self.complete(a, c),
            Verb::Fail => self.fail(a, b, c),
            Verb::Delay => self.delay(a, b, c),
            Verb::WaitForChildren => self.wait_for_children(a, c),
            Verb::Progress => self.progress(a),
            Verb::AppendFrame => self.append_frame(a, c),
            Verb::Cancel => self.cancel(a, c),
            Verb::Replay => self.replay(a),
            Verb::PurgeExecution => self.purge_execution(a, b, c),
            Verb::Suspend => self.suspend(a, b, c),
            Verb::CreatePending => self.create_pending(a),
            Verb::BufferSignal => self.buffer_signal(a, b),
            Verb::ExpirePending => self.expire_pending(a),
            Verb::Signal => self.signal(a, c),
            Verb::StraySignal => self.stray_signal(a, b, c),
            Verb::RepeatSignal => self.repeat_signal(a),
            Verb::Resume => self.resume(a, c),
            Verb::ExpireSuspension => self.expire_suspension(a),
            Verb::ExpireIfDue => self.expire_if_due(a, c),
            Verb::PromoteDelayed => self.promote_delayed(a),
            Verb::MarkLease => self.mark_lease(a),
            Verb::Requeue => self.requeue(a),
            Verb::Reclaim => self.reclaim(a, b),
            Verb::Revoke => self.revoke(a),
            Verb::RepairIndex => self.repair_index(a),
            Verb::Block => self.block(a, c),
            Verb::Unblock => self.unblock(a, c),
            Verb::ChangePriority => self.change_priority(a, c),
            Verb::CreateFlow => self.create_flow(a),
            Verb::SubmitFlow => self.submit_flow(a, b, c),
            Verb::SealFlow => self.seal_flow(a),
            Verb::AddMember => self.add_member(a, b),
            Verb::SetGroup => self.set_group(a, self.member(a, b), c),
            Verb::Stage => drop(self.stage(a, self.member(a, b), self.member(a, c))),
            Verb::Apply => self.apply(usize::from(a)),
            Verb::StageAndApply => {
                self.stage_and_apply(a, self.member(a, b), self.member(a, c));
            }
            Verb::ResolveOne => self.resolve_one(usize::from(a)),
            Verb::ResolveOutgoing => self.resolve_outgoing(a, c),
            Verb::PromoteBlocked => self.promote_blocked(a),
            Verb::CancelFlow => self.cancel_flow(a, c),
            Verb::PayCancel => self.pay_cancel(a, b),
            Verb::PaySiblings => self.pay_siblings(),
            Verb::Drain => self.drain(a, b),
            Verb::DrainChecked => self.drain_checked(a, b),
            Verb::ReconcileGroup => self.reconcile_group(a, b),
            Verb::ProjectFlow => self.project_flow(a, c),
            Verb::PurgeFlow => self.purge_flow(a, c),
            Verb::ReportUsage => self.report_usage(b, c),
            Verb::RecordSpend => self.record_spend(a, b, c),
            Verb::ReleaseBudget => self.release_budget(a),
            Verb::ResetBudget => self.reset_budget(c),
            Verb::ReconcileBudget => self.reconcile_budget(),
            Verb::Admit => self.admit(a),
            Verb::ReleaseAdmission => self.release_admission(a),
            Verb::ReconcileQuota => self.reconcile_quota(),
        }
    }
}

/// From here on a number is used as it is, suitable or not.
pub(super) const ANY_CANDIDATE: u8 = 10;

/// From milliseconds to more than the default retention.
const PAUSES_MS: [u64; 8] = [5, 900, 1_100, 3_000, 6_000, 31_000, 130_000, 90_000_000];
