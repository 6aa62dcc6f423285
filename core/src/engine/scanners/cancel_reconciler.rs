//! Finishes the cancellation of flows: every pending member is cancelled, and acknowledged only
//! when it has surely ended. A call that was not answered, or that met a server without the
//! library, acknowledges nothing.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use uuid::Uuid;

use super::{Candidate, ScanContext, Scanner, ScannerName, ScannerSpec, Source};
use crate::call::flow::AckCancelMember;
use crate::call::library::SetAside;
use crate::command::Command;
use crate::engine::reply::{scanned, text};
use crate::engine::scanners::cancel_execution::{Cancelled, cancel};
use crate::engine::scanning::keep_selected;
use crate::engine::scanning::{CandidateOutcome, ScanStep};
use crate::id::{ExecutionId, FlowId};
use crate::key::{Key, PartitionIndex};
use crate::partition::Family;

pub(super) struct CancelReconciler;

const SPEC: ScannerSpec = ScannerSpec {
    name: ScannerName::CancelReconciler,
    interval: Duration::from_secs(15),
    interval_variable: "FF_CANCEL_RECONCILER_INTERVAL_S",
    family: Family::Flow,
    sources: &[Source::Due(PartitionIndex::CancelBacklog)],
    batch: 50,
    filtered: false,
};

/// Members read by one command.
const MEMBERS_PER_STEP: &[u8] = b"100";

impl Scanner for CancelReconciler {
    fn spec(&self) -> &'static ScannerSpec {
        &SPEC
    }

    fn begin(
        &self,
        context: &ScanContext,
        candidate: &Candidate,
    ) -> Result<ScanStep, CandidateOutcome> {
        let flow_id = candidate.id("not a flow id")?;
        let core = Key::flow(context.partition, flow_id).core();
        let read = Command::read("HGET", &core, &[b"cancel_reason"]);
        let context = context.clone();
        Ok(ScanStep::read(alloc::vec![read], move |replies| {
            let reason = match text(replies.into_iter().next()) {
                Ok(reason) if reason.is_empty() => "flow_cancelled".into(),
                Ok(reason) => reason,
                Err(outcome) => return outcome.into(),
            };
            Work { context, flow_id, reason, has_pending: false, done: 0, failure: None }
                .next_members("0".into())
        }))
    }
}

/// A flow with members to cancel.
struct Work {
    context: ScanContext,
    flow_id: FlowId,
    reason: String,
    /// Whether a pending member was seen.
    has_pending: bool,
    done: u32,
    /// A failure of one member; the others go on.
    failure: Option<CandidateOutcome>,
}

impl Work {
    fn pending(&self) -> Key {
        Key::flow(self.context.partition, self.flow_id).pending_cancels()
    }

    fn next_members(self, cursor: String) -> ScanStep {
        let rest: [&[u8]; 3] = [cursor.as_bytes(), b"COUNT", MEMBERS_PER_STEP];
        let read = Command::read("SSCAN", &self.pending(), &rest);
        ScanStep::read(alloc::vec![read], move |replies| {
            match scanned(replies.into_iter().next()) {
                Ok((cursor, members)) if members.is_empty() => self.next_page(cursor),
                Ok((cursor, members)) => self.look_at(cursor, members),
                Err(outcome) => outcome.into(),
            }
        })
    }

    /// The next members, or the end. A page of a set may be empty although more follow.
    fn next_page(self, cursor: String) -> ScanStep {
        if cursor != "0" {
            return self.next_members(cursor);
        }
        if !self.has_pending {
            return self.close_empty();
        }
        match (self.failure, self.done) {
            (Some(outcome), _) => outcome.into(),
            (None, 0) => CandidateOutcome::nothing().remaining().into(),
            (None, done) => CandidateOutcome::processed_times(done).into(),
        }
    }

    /// No member is pending: any acknowledgement removes the flow from the backlog.
    fn close_empty(self) -> ScanStep {
        let no_member = ExecutionId::new(self.context.partition.index, Uuid::nil());
        let call = self.acknowledgement(no_member);
        ScanStep::call(&call, |reply| match reply {
            Ok(()) => CandidateOutcome::nothing().into(),
            Err(error) => CandidateOutcome::error(error).into(),
        })
    }

    fn acknowledgement(&self, execution_id: ExecutionId) -> AckCancelMember {
        AckCancelMember { partition: self.context.partition, flow_id: self.flow_id, execution_id }
    }

    fn look_at(mut self, cursor: String, members: Vec<String>) -> ScanStep {
        self.has_pending = true;
        let (mut known, mut unreadable) = (Vec::new(), Vec::new());
        for member in members {
            match member.parse::<ExecutionId>() {
                Ok(id) => known.push(id),
                Err(_) => unreadable.push(SetAside {
                    partition: self.context.partition,
                    index: self.pending(),
                    member: member.into_bytes(),
                    reason: "not an execution id".into(),
                }),
            }
        }
        ScanStep::calls(&unreadable, move |_| {
            let context = self.context.clone();
            keep_selected(&context, known, move |ours, unknown| {
                self.failure = self.failure.or(unknown);
                let reason = self.reason.clone();
                cancel(ours, reason, move |outcomes| self.acknowledge(cursor, outcomes))
            })
        })
    }

    fn acknowledge(mut self, cursor: String, outcomes: Vec<(ExecutionId, Cancelled)>) -> ScanStep {
        let mut ended = Vec::new();
        for (execution_id, outcome) in outcomes {
            match outcome {
                Cancelled::Now | Cancelled::Before | Cancelled::Gone => {
                    ended.push(self.acknowledgement(execution_id));
                }
                Cancelled::Failed(outcome) => self.failure = Some(outcome),
            }
        }
        ScanStep::calls(&ended, move |replies| {
            for reply in replies {
                match reply {
                    Ok(()) => self.done += 1,
                    Err(error) => self.failure = Some(CandidateOutcome::error(error)),
                }
            }
            self.next_page(cursor)
        })
    }
}
