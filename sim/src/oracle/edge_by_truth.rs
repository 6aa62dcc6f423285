//! `EdgeByTruth`: the part that needs the history. The state oracle checks skips against edges.

use std::collections::BTreeMap;

use selvedge_core::id::ExecutionId;
use selvedge_core::state::TerminalOutcome;

use super::{Changes, Checker, Class, Findings, Oracle, View};
use crate::event::Event;

pub(super) const ORACLE: Oracle = Oracle {
    name: "EdgeByTruth",
    statement: "an edge takes the outcome of an upstream that ended, never an empty one",
    class: Class::Safety,
    checker: || Box::<EdgeByTruth>::default(),
};

#[derive(Default)]
struct EdgeByTruth {
    /// The outcomes of executions that were purged.
    gone: BTreeMap<ExecutionId, TerminalOutcome>,
}

impl Checker for EdgeByTruth {
    fn on_event(&mut self, _: &Event, changes: &Changes, view: &View<'_>, findings: &mut Findings) {
        for change in &changes.executions {
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
                    Some(_) => !told,
                };
                if !fits {
                    let (state, upstream) = (&edge.state, &edge.upstream);
                    findings.add(
                        view,
                        &change.of,
                        format!(
                            "the edge from {upstream} is {state}, but the upstream is {truth:?}"
                        ),
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
