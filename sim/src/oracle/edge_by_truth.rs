//! `EdgeByTruth`: what a history can show of it. Whether a skip follows from its edges, any state
//! shows.

use std::collections::BTreeMap;

use selvedge_core::id::ExecutionId;
use selvedge_core::state::TerminalOutcome;

use super::{Class, Findings, Judge, Oracle, Scene, View};
use crate::event::Event;

pub(super) const ORACLE: Oracle = Oracle {
    name: "EdgeByTruth",
    statement: "an edge takes the outcome of an upstream that ended, never an empty one",
    class: Class::Safety,
    judge: || Box::<EdgeByTruth>::default(),
};

#[derive(Default)]
struct EdgeByTruth {
    /// How executions ended that are gone by now.
    gone: BTreeMap<ExecutionId, TerminalOutcome>,
}

impl Judge for EdgeByTruth {
    fn see(&mut self, _: &Event, scene: &Scene, view: &View<'_>, findings: &mut Findings) {
        for change in &scene.executions {
            let Some(is) = &change.is else {
                let outcome = change.was.as_ref().and_then(|was| was.vector).map(|v| v.outcome);
                self.gone.extend(outcome.map(|outcome| (change.of.clone(), outcome)));
                continue;
            };
            for (id, edge) in &is.edges {
                let before = change.was.as_ref().and_then(|was| was.edges.get(id));
                let told = match edge.state.as_str() {
                    "satisfied" => true,
                    "impossible" => false,
                    _ => continue,
                };
                if before.is_some_and(|before| before.state == edge.state) {
                    continue;
                }
                let truth = self.outcome_of(view, &edge.upstream);
                let fits = match truth {
                    Some(TerminalOutcome::Success) => told,
                    Some(TerminalOutcome::None) | None => false,
                    Some(
                        TerminalOutcome::Failed
                        | TerminalOutcome::Cancelled
                        | TerminalOutcome::Expired
                        | TerminalOutcome::Skipped,
                    ) => !told,
                };
                if !fits {
                    let (state, upstream) = (&edge.state, &edge.upstream);
                    findings.add(
                        view,
                        &change.of,
                        format!("the edge from {upstream} is {state}, which is {truth:?}"),
                    );
                }
            }
        }
    }
}

impl EdgeByTruth {
    fn outcome_of(&self, view: &View<'_>, upstream: &str) -> Option<TerminalOutcome> {
        let id: ExecutionId = upstream.parse().ok()?;
        match view.of(id.partition()).execution(&id) {
            Some(execution) => execution.vector().ok().map(|vector| vector.outcome),
            None => self.gone.get(&id).copied(),
        }
    }
}
