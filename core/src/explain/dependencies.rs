//! Explains executions that wait for other executions.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;

use super::reads::{edges_of, upstream_of};
use super::{DueBy, Explainer, Reason, UnblockedBy};
use crate::engine::ScannerName;
use crate::id::{EdgeId, ExecutionId, FlowId};
use crate::key::Key;
use crate::state::LifecyclePhase;
use crate::time::ServerTime;

impl Explainer<'_> {
    pub(super) fn blocked_by_dependencies(&mut self) -> String {
        if !self.execution.core.text("unsealed").is_empty() {
            let on = "the rest of its flow to be submitted";
            self.wait(Reason::Submission, on, UnblockedBy::Submitter, DueBy::Unknown);
            return "its flow is not submitted completely: the client has not sent the rest"
                .to_owned();
        }
        let edges = edges_of(self.snapshot, &self.execution);
        for edge in &edges {
            match upstream_of(self.snapshot, self.execution.id, *edge) {
                Some(upstream) if self.outlived(*edge, &upstream) => {
                    let on = format!(
                        "{upstream} to be replayed and to succeed: it had not succeeded when this \
                         execution was replayed"
                    );
                    self.wait(Reason::Replay, on, UnblockedBy::Operator, DueBy::Unknown);
                }
                Some(upstream) => self.wait_for_upstream(upstream),
                None => {
                    let on = format!("edge {edge}, whose record is missing");
                    self.wait(Reason::Damage, on, UnblockedBy::Nobody, DueBy::Unknown);
                }
            }
        }
        if edges.is_empty() {
            let at = self.edges_changed_at();
            let by = self.since(at, ScannerName::DependencyReconciler);
            let unblocked_by = UnblockedBy::Scanner(ScannerName::DependencyReconciler);
            let on = "to be released: all its edges are resolved";
            self.wait(Reason::Release, on, unblocked_by, by);
        }
        format!("it waits for {}", self.group(edges.len()))
    }

    /// Whether an upstream is still at the end that had failed this edge before the execution was
    /// replayed: that end fails it no more.
    fn outlived(&self, edge: EdgeId, upstream: &ExecutionId) -> bool {
        let dependency = Key::execution(self.execution.id).dependency(edge);
        let run = self.snapshot.hash(&dependency).map(|edge| edge.text("outlived_run"));
        let Some(record) = self.snapshot.execution(upstream) else { return false };
        let has_failed = record.core.text("lifecycle_phase") == LifecyclePhase::Terminal.as_str()
            && record.core.text("terminal_outcome") != "success";
        let ended_run = record.core.number("replay_count");
        has_failed && run.is_some_and(|run| run.parse() == Ok(ended_run))
    }

    fn wait_for_upstream(&mut self, upstream: ExecutionId) {
        let Some(record) = self.snapshot.execution(&upstream) else {
            return self.wait_without_record(&upstream);
        };
        let state = record.core.text("public_state");
        let ended = record.core.text("lifecycle_phase") == LifecyclePhase::Terminal.as_str();
        if ended {
            // The completion was pushed; if the push is lost, the reconciler finds it.
            let at = record.core.number("completed_at").max(self.edges_changed_at());
            let by = self.since(at, ScannerName::DependencyReconciler);
            let unblocked_by = UnblockedBy::Scanner(ScannerName::DependencyReconciler);
            let on = format!("the completion of {upstream} ({state}) to be dispatched");
            self.wait(Reason::Dispatch, on, unblocked_by, by);
        } else {
            let on = format!("{upstream} ({state}) to end");
            self.wait(Reason::Upstream, on, UnblockedBy::Upstream(upstream), DueBy::Unknown);
        }
    }

    /// When an edge was last added or resolved; 0 if that is not recorded.
    fn edges_changed_at(&self) -> i64 {
        let meta = self.snapshot.hash(&Key::execution(self.execution.id).dependency_meta());
        meta.map_or(0, |meta| meta.number("last_dependency_update_at"))
    }

    /// By when a scanner visits after a recorded time, or from now on if none is recorded.
    fn since(&self, at: i64, scanner: ScannerName) -> DueBy {
        let at = if at > 0 { ServerTime(at) } else { self.snapshot.now() };
        self.after(at, scanner)
    }

    /// An upstream without a record: it is lost if it is a member of the flow, and created yet
    /// otherwise.
    fn wait_without_record(&mut self, upstream: &ExecutionId) {
        let flow = self.execution.core.text("flow_id").parse::<FlowId>();
        let is_member = flow.is_ok_and(|flow| {
            let members = Key::flow(self.execution.partition(), flow).members();
            self.snapshot.set(&members).contains(upstream.as_str())
        });
        if !is_member {
            let on = format!("{upstream}, which does not exist: it has to be created");
            self.wait(Reason::Submission, on, UnblockedBy::Submitter, DueBy::Unknown);
            return;
        }
        let by = self.within(ScannerName::DependencyReconciler);
        let unblocked_by = UnblockedBy::Scanner(ScannerName::DependencyReconciler);
        let on = format!(
            "{upstream}, whose record is lost: its last attempt decides, and unless that \
             succeeded, this edge counts as failed"
        );
        self.wait(Reason::Dispatch, on, unblocked_by, by);
    }

    /// Which of its edges must succeed.
    fn group(&self, open: usize) -> String {
        let group = self.execution.core.text("flow_id").parse::<FlowId>().ok().and_then(|flow| {
            let flow = Key::flow(self.execution.partition(), flow);
            self.snapshot.hash(&flow.edge_group(self.execution.id))
        });
        let Some(group) = group else { return format!("{open} other executions") };
        let (n, succeeded) = (group.text("n"), group.text("succeeded"));
        match group.text("policy_variant") {
            "any_of" => format!("any one of {n} other executions"),
            "quorum" => {
                format!(
                    "{} of {n} other executions, {succeeded} of which have succeeded",
                    group.text("k")
                )
            }
            _ => format!("all of {n} other executions, {succeeded} of which have succeeded"),
        }
    }
}
