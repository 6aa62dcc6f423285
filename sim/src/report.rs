//! What a person reads when a seed fails.

use crate::event::Event;
use crate::failure::Failure;
use crate::plan::Plan;
use crate::runner::Outcome;
use crate::say;

/// The report of a failing run: what failed, in which world, the last events about it, and how to
/// see it again.
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
        text.push_str(&format!("    {}\n", say::line(event)));
    }
    for name in outcome.pending.iter().take(PENDING_TOLD) {
        text.push_str(&format!("    still pending: {name}\n"));
    }
    say::named(&text, &outcome.names)
}

/// The last events that speak of what failed, and faults between them.
fn relevant<'a>(outcome: &'a Outcome, failure: &Failure) -> Vec<&'a Event> {
    let ids = say::ids(&failure.subject).chain(say::ids(&failure.what)).collect::<Vec<_>>();
    let is_relevant = |event: &&Event| {
        say::matters(event)
            && (matches!(event.what, crate::event::What::Fault { .. })
                || ids.is_empty()
                || ids.iter().any(|id| say::mentions(event, id)))
    };
    let found: Vec<&Event> = outcome.trace.tail().filter(is_relevant).collect();
    found[found.len().saturating_sub(EVENTS_TOLD)..].to_vec()
}

/// Events that a report tells.
const EVENTS_TOLD: usize = 20;
/// Pending things that a report tells.
const PENDING_TOLD: usize = 10;
