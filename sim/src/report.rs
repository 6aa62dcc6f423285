//! What a person reads when a seed fails.

use std::collections::BTreeMap;

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
    named(&text, &outcome.names)
}

/// The text with the plan's name in front of every id that has one.
fn named(text: &str, names: &BTreeMap<String, String>) -> String {
    names.iter().fold(text.to_owned(), |text, (id, name)| text.replace(id, &format!("{name}={id}")))
}

/// The last events that speak of what failed, and faults between them.
fn relevant<'a>(outcome: &'a Outcome, failure: &Failure) -> Vec<&'a Event> {
    let ids = ids(&failure.subject).chain(ids(&failure.what)).collect::<Vec<_>>();
    let is_relevant = |event: &&Event| {
        say::matters(event)
            && (matches!(event.what, crate::event::What::Fault { .. })
                || ids.is_empty()
                || ids.iter().any(|id| say::mentions(event, id)))
    };
    let found: Vec<&Event> = outcome.trace.tail().filter(is_relevant).collect();
    found[found.len().saturating_sub(EVENTS_TOLD)..].to_vec()
}

/// The uuids in a text: what events can be told by.
fn ids(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_hexdigit() || c == '-';
    text.split(move |c| !is_part(c)).filter(|word| word.len() == 36)
}

/// Events that a report tells.
const EVENTS_TOLD: usize = 20;
/// Pending things that a report tells.
const PENDING_TOLD: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_told_with_their_names() {
        let names = BTreeMap::from([("{fp:7}:5f".to_owned(), "F1.0".to_owned())]);
        assert_eq!(named("{fp:7}:5f is stuck", &names), "F1.0={fp:7}:5f is stuck");
    }

    #[test]
    fn ids_are_found_in_any_text() {
        let id = "550e8400-e29b-41d4-a716-446655440000";
        let text = format!("{{fp:7}}:{id} left ff:idx, cafe");
        assert_eq!(ids(&text).collect::<Vec<_>>(), [id]);
    }
}
