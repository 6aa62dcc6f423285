//! Executions that wait for others.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;

use super::asks::{open_edges, upstream_of};
use super::{By, Mover, Scene};
use crate::engine::ScannerName;
use crate::id::{ExecutionId, FlowId};
use crate::key::Key;
use crate::state::LifecyclePhase;

impl Scene<'_> {
    pub(super) fn blocked_by_dependencies(&mut self) -> String {
        if self.execution.core.text("unsealed") == "1" {
            let on = "its flow to be submitted to the end".to_owned();
            self.wait(on, Mover::Submitter, By::Open);
            return "its flow is not complete yet: whoever submits it has not sent the rest"
                .to_owned();
        }
        let edges = open_edges(self.snapshot, self.execution.id);
        for edge in &edges {
            match upstream_of(self.snapshot, self.execution.id, *edge) {
                Some(upstream) => self.wait_for_upstream(upstream),
                None => {
                    let on = format!("edge {edge}, whose record is gone");
                    self.wait(on, Mover::Nobody, By::Open);
                }
            }
        }
        if edges.is_empty() {
            let by = self.within(ScannerName::DependencyReconciler);
            let mover = Mover::Scanner(ScannerName::DependencyReconciler);
            self.wait("its last edge, which has been resolved".to_owned(), mover, by);
        }
        format!("it waits for {}", self.group(edges.len()))
    }

    fn wait_for_upstream(&mut self, upstream: ExecutionId) {
        let Some(record) = self.snapshot.execution(&upstream) else {
            let by = self.within(ScannerName::DependencyReconciler);
            let mover = Mover::Scanner(ScannerName::DependencyReconciler);
            return self.wait(format!("{upstream}, which is gone"), mover, by);
        };
        let state = record.core.text("public_state");
        let ended = record.core.text("lifecycle_phase") == LifecyclePhase::Terminal.as_str();
        if ended {
            // The completion was pushed; should that be lost, the reconciler finds it.
            let by = self.within(ScannerName::DependencyReconciler);
            let mover = Mover::Scanner(ScannerName::DependencyReconciler);
            self.wait(format!("the word of {upstream}, which is {state}"), mover, by);
        } else {
            let on = format!("the end of {upstream}, which is {state}");
            self.wait(on, Mover::Upstream(upstream), By::Open);
        }
    }

    /// What its edges have to come to, in words.
    fn group(&self, open: usize) -> String {
        let group = self.execution.core.text("flow_id").parse::<FlowId>().ok().and_then(|flow| {
            let flow = Key::flow(self.execution.partition(), flow);
            self.snapshot.hash(&flow.edge_group(self.execution.id))
        });
        let Some(group) = group else { return format!("{open} others") };
        let (n, succeeded) = (group.text("n"), group.text("succeeded"));
        match group.text("policy_variant") {
            "any_of" => format!("any one of {n} others"),
            "quorum" => {
                format!("{} of {n} others, {succeeded} of which have succeeded", group.text("k"))
            }
            _ => format!("all of {n} others, {succeeded} of which have succeeded"),
        }
    }
}
