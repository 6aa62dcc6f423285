//! The report of a failing run.

use crate::event::Event;
use crate::failure::Failure;
use crate::format;
use crate::plan::Plan;
use crate::runner::Outcome;

/// What failed, the settings of the run, the last events about it, and what is still pending.
#[must_use]
pub fn report(name: &str, plan: &Plan, outcome: &Outcome, failure: &Failure) -> String {
    let mut kinds: Vec<&str> = plan.faults.iter().map(|rule| rule.fault.name()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let config = &plan.config;
    let mut text = format!(
        "FAIL  {}   {name}   class {} (exit {})\n",
        failure.oracle,
        failure.class,
        failure.class.exit_code()
    );
    text.push_str(&format!("  {}: {}\n", failure.subject, failure.what));
    text.push_str(&format!(
        "  engines {}   shards {}   workers {}   faults on: {} ({} of {})\n",
        config.engines,
        config.shards,
        config.workers,
        if kinds.is_empty() { "none".to_owned() } else { kinds.join(" ") },
        kinds.len(),
        crate::fault::Fault::ALL.len(),
    ));
    for event in relevant(outcome, failure) {
        text.push_str(&format!("    {}\n", format::line(event)));
    }
    for name in outcome.pending.iter().take(PENDING_TOLD) {
        text.push_str(&format!("    still pending: {name}\n"));
    }
    format::named(&text, &outcome.names)
}

/// The last events about the subject of the failure, and all faults.
fn relevant<'a>(outcome: &'a Outcome, failure: &Failure) -> Vec<&'a Event> {
    let ids = format::ids(&failure.subject).chain(format::ids(&failure.what)).collect::<Vec<_>>();
    let is_relevant = |event: &&Event| {
        format::matters(event)
            && (matches!(event.kind, crate::event::EventKind::Fault { .. })
                || ids.is_empty()
                || ids.iter().any(|id| format::mentions(event, id)))
    };
    let found: Vec<&Event> = outcome.trace.tail().filter(is_relevant).collect();
    found[found.len().saturating_sub(EVENTS_TOLD)..].to_vec()
}

/// How many events a report shows.
const EVENTS_TOLD: usize = 20;
/// How many pending items a report shows.
const PENDING_TOLD: usize = 10;
