//! Finishes the cancel of flows: every member that is owed one gets it, and is acknowledged only
//! when it has surely ended. Silence is no answer, and neither is a server without the library.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use uuid::Uuid;

use super::{Candidate, Scanner, ScannerName, Scene, Source, Spec};
use crate::call::flow::AckCancelMember;
use crate::call::library::SetAside;
use crate::engine::driver::keep_ours;
use crate::engine::scan::cancel::{Cancelled, cancel};
use crate::engine::step::{Step, Verdict};
use crate::engine::texts::{scanned, text};
use crate::engine::wire::Command;
use crate::id::{ExecutionId, FlowId};
use crate::key::{Key, PartitionIndex};
use crate::partition::Family;

pub(super) struct CancelReconciler;

const SPEC: Spec = Spec {
    name: ScannerName::CancelReconciler,
    every: Duration::from_secs(15),
    interval_variable: "FF_CANCEL_RECONCILER_INTERVAL_S",
    family: Family::Flow,
    sources: &[Source::Due(PartitionIndex::CancelBacklog)],
    batch: 50,
    filtered: false,
};

/// Members looked at in one step.
const MEMBERS_PER_STEP: &[u8] = b"100";

impl Scanner for CancelReconciler {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn begin(&self, scene: &Scene, candidate: &Candidate) -> Result<Step, Verdict> {
        let flow_id = candidate.id("not a flow id")?;
        let core = Key::flow(scene.partition, flow_id).core();
        let read = Command::read("HGET", &core, &[b"cancel_reason"]);
        let scene = scene.clone();
        Ok(Step::read(alloc::vec![read], move |replies| {
            let reason = match text(replies.into_iter().next()) {
                Ok(reason) if reason.is_empty() => "flow_cancelled".into(),
                Ok(reason) => reason,
                Err(verdict) => return verdict.into(),
            };
            Work { scene, flow_id, reason, owes: false, done: 0, trouble: None }
                .next_members("0".into())
        }))
    }
}

/// A flow whose members are owed their cancel.
struct Work {
    scene: Scene,
    flow_id: FlowId,
    reason: String,
    /// Whether a member is owed its cancel.
    owes: bool,
    done: u32,
    /// The first thing that went wrong; the others go on all the same.
    trouble: Option<Verdict>,
}

impl Work {
    fn pending(&self) -> Key {
        Key::flow(self.scene.partition, self.flow_id).pending_cancels()
    }

    fn next_members(self, cursor: String) -> Step {
        let rest: [&[u8]; 3] = [cursor.as_bytes(), b"COUNT", MEMBERS_PER_STEP];
        let read = Command::read("SSCAN", &self.pending(), &rest);
        Step::read(alloc::vec![read], move |replies| match scanned(replies.into_iter().next()) {
            Ok((cursor, members)) if members.is_empty() => self.go_on(cursor),
            Ok((cursor, members)) => self.look_at(cursor, members),
            Err(verdict) => verdict.into(),
        })
    }

    /// The next members, or the end. A page of a set may be empty although others follow.
    fn go_on(self, cursor: String) -> Step {
        if cursor != "0" {
            return self.next_members(cursor);
        }
        if !self.owes {
            return self.close_empty();
        }
        match (self.trouble, self.done) {
            (Some(verdict), _) => verdict.into(),
            (None, 0) => Verdict::nothing().staying().into(),
            (None, done) => Verdict::processed().times(done).into(),
        }
    }

    /// Nobody is owed anything: any acknowledgement takes the flow out of the backlog.
    fn close_empty(self) -> Step {
        let nobody = ExecutionId::new(self.scene.partition.index, Uuid::nil());
        let call = self.acknowledgement(nobody);
        Step::call(&call, |reply| match reply {
            Ok(()) => Verdict::nothing().into(),
            Err(error) => Verdict::error(error).into(),
        })
    }

    fn acknowledgement(&self, execution_id: ExecutionId) -> AckCancelMember {
        AckCancelMember { partition: self.scene.partition, flow_id: self.flow_id, execution_id }
    }

    fn look_at(mut self, cursor: String, members: Vec<String>) -> Step {
        self.owes = true;
        let (mut known, mut strangers) = (Vec::new(), Vec::new());
        for member in members {
            match member.parse::<ExecutionId>() {
                Ok(id) => known.push(id),
                Err(_) => strangers.push(SetAside {
                    partition: self.scene.partition,
                    index: self.pending(),
                    member: member.into_bytes(),
                    reason: "not an execution id".into(),
                }),
            }
        }
        Step::calls(&strangers, move |_| {
            let scene = self.scene.clone();
            keep_ours(&scene, known, move |ours, unknown| {
                self.trouble = self.trouble.or(unknown);
                let reason = self.reason.clone();
                cancel(ours, reason, move |outcomes| self.acknowledge(cursor, outcomes))
            })
        })
    }

    fn acknowledge(mut self, cursor: String, outcomes: Vec<(ExecutionId, Cancelled)>) -> Step {
        let mut ended = Vec::new();
        for (execution_id, outcome) in outcomes {
            match outcome {
                Cancelled::Now | Cancelled::Before | Cancelled::Gone => {
                    ended.push(self.acknowledgement(execution_id));
                }
                Cancelled::Failed(verdict) => self.trouble = Some(verdict),
            }
        }
        Step::calls(&ended, move |replies| {
            for reply in replies {
                match reply {
                    Ok(()) => self.done += 1,
                    Err(error) => self.trouble = Some(Verdict::error(error)),
                }
            }
            self.go_on(cursor)
        })
    }
}
