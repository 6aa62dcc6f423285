//! `BoundedWork`: commands per call, members per reply and calls in flight stay under stated
//! limits.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use selvedge_core::key::Key;
use selvedge_core::requests::BATCH_MAX;
use selvedge_core::value::Value;
use selvedge_lua::library;

use super::call::Call;
use super::{Changes, Checker, Class, Findings, Oracle, View};
use crate::event::{Actor, Event, EventKind};

pub(super) const ORACLE: Oracle = Oracle {
    name: "BoundedWork",
    statement: "commands per call, members per reply and calls in flight stay under stated limits",
    class: Class::Safety,
    checker: || Box::<BoundedWork>::default(),
};

/// The most elements of a reply, including nested ones.
const ELEMENTS_MAX: usize = 20_000;

#[derive(Default)]
struct BoundedWork {
    /// Calls in flight, by engine.
    open: BTreeMap<Actor, u64>,
    /// The size of the largest collection so far.
    largest: usize,
}

/// The stated number of commands of a function: a constant, plus a number for each element of the
/// largest collection or list involved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bound {
    fixed: usize,
    each: usize,
}

/// The bounds that the library states above each function, by name without prefix. If there are
/// several, the smallest applies.
fn bounds() -> &'static BTreeMap<String, Vec<Bound>> {
    static BOUNDS: OnceLock<BTreeMap<String, Vec<Bound>>> = OnceLock::new();
    BOUNDS.get_or_init(|| {
        let (mut bounds, mut stated) = (BTreeMap::new(), None);
        for line in library::SOURCE.lines() {
            if let Some(text) = line.strip_prefix("-- Bound: ") {
                stated = text.split(", or ").map(read_bound).collect::<Option<Vec<_>>>();
            } else if let Some(rest) = line.strip_prefix("define(\"ff_")
                && let (Some((name, _)), Some(bound)) = (rest.split_once('"'), stated.take())
            {
                bounds.insert(name.to_owned(), bound);
            }
        }
        bounds
    })
}

/// Reads `6` or `31 + 5 * n`.
fn read_bound(text: &str) -> Option<Bound> {
    let (fixed, each) = text.split_once(" + ").unwrap_or((text, "0 * n"));
    let each = each.strip_suffix(" * n")?;
    Some(Bound { fixed: fixed.trim().parse().ok()?, each: each.parse().ok()? })
}

impl Checker for BoundedWork {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "an oracle reacts to the events that it names"
    )]
    fn on_event(&mut self, event: &Event, _: &Changes, view: &View<'_>, findings: &mut Findings) {
        match &event.kind {
            EventKind::Applied(applied) => {
                self.measure(view);
                let function = Call::of(applied).map_or("a command", |call| call.function);
                let most = self.largest.max(applied.argv.len());
                let stated = bounds().get(function).into_iter().flatten();
                let limit = stated.map(|bound| bound.fixed + bound.each * most).min().unwrap_or(0);
                if applied.inner_commands > limit {
                    let asked = applied.inner_commands;
                    let what = format!("ran {asked} commands, its bound is {limit}");
                    findings.add(view, function, what);
                }
                let elements = elements(&applied.reply);
                if elements > ELEMENTS_MAX {
                    findings.add(view, function, format!("replied with {elements} elements"));
                }
            }
            EventKind::Sent { .. } if matches!(event.actor, Actor::Engine(_)) => {
                let open = self.open.entry(event.actor).or_default();
                *open += 1;
                let limit = view.config.window.max(1) * u64::try_from(BATCH_MAX).unwrap_or(1);
                if *open > limit {
                    let open = *open;
                    findings.add(view, event.actor, format!("has {open} calls in flight"));
                }
            }
            EventKind::Delivered { .. } => {
                if let Some(open) = self.open.get_mut(&event.actor) {
                    *open = open.saturating_sub(1);
                }
            }
            // Lost calls end with their ticket.
            EventKind::Lost { .. } | EventKind::Started | EventKind::Died => {
                self.open.remove(&event.actor);
            }
            _ => {}
        }
    }
}

impl BoundedWork {
    /// Measures the collections that the last call wrote.
    fn measure(&mut self, view: &View<'_>) {
        let keys = view.touched.iter().filter_map(|key| std::str::from_utf8(key).ok());
        for key in keys.filter_map(|key| key.parse::<Key>().ok()) {
            for entry in view.shards.iter().filter_map(|shard| shard.entry(&key)) {
                let fields = entry.fields().map_or(0, |fields| fields.iter().count());
                self.largest = self.largest.max(entry.members()).max(fields);
            }
        }
    }
}

fn elements(value: &Value) -> usize {
    match value {
        Value::Array(inner) => 1 + inner.iter().map(elements).sum::<usize>(),
        Value::Nil | Value::Int(_) | Value::Bulk(_) | Value::Status(_) | Value::Error(_) => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_states_its_bound() {
        let defined = library::SOURCE.lines().filter(|line| line.starts_with("define(\"ff_"));
        assert_eq!(bounds().len(), defined.count());
        assert_eq!(read_bound("6"), Some(Bound { fixed: 6, each: 0 }));
        assert_eq!(read_bound("31 + 5 * n"), Some(Bound { fixed: 31, each: 5 }));
        assert_eq!(read_bound("a lot"), None);
    }
}
