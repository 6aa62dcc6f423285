//! `BoundedWork`

use std::collections::BTreeMap;

use selvedge_core::engine::BATCH_MAX;
use selvedge_core::value::Value;

use super::call::Call;
use super::{Class, Findings, Judge, Oracle, Scene, View};
use crate::event::{Actor, Event, What};

pub(super) const ORACLE: Oracle = Oracle {
    name: "BoundedWork",
    statement: "commands per call, members per reply and calls in flight stay under stated limits",
    class: Class::Safety,
    judge: || Box::<BoundedWork>::default(),
};

/// Commands that one call may ask for: a fixed part, and a part for each thing that it was told to
/// work on. The shares are those of the functions' own headers, told a second time on purpose.
const COMMANDS: [(&str, usize); 9] = [
    ("resolve_outgoing", 40_000),
    ("submit_flow", 90_000),
    ("stage_dependency_edge", 12_020),
    ("resolve_dependency", 40_000),
    ("cancel_flow", 11_000),
    ("purge_flow", 30_000),
    ("purge_execution", 20_000),
    ("project_flow", 8_000),
    ("scan_partition", 4_000),
];

/// What any other call may ask for.
const COMMANDS_ELSE: usize = 2_500;

/// Most elements of one reply, nested ones included.
const ELEMENTS_MAX: usize = 20_000;

#[derive(Default)]
struct BoundedWork {
    /// Calls of each engine that are on their way.
    open: BTreeMap<Actor, u64>,
}

impl Judge for BoundedWork {
    fn see(&mut self, event: &Event, _: &Scene, view: &View<'_>, findings: &mut Findings) {
        match &event.what {
            What::Applied(applied) => {
                let function = Call::of(applied).map_or("a command", |call| call.function);
                let stated = COMMANDS.iter().find(|(name, _)| *name == function);
                let limit = stated.map_or(COMMANDS_ELSE, |(_, limit)| *limit);
                if applied.inner_commands > limit {
                    let asked = applied.inner_commands;
                    findings.add(view, function, format!("asked for {asked} commands"));
                }
                let elements = elements(&applied.reply);
                if elements > ELEMENTS_MAX {
                    findings.add(view, function, format!("answered {elements} elements"));
                }
            }
            What::Sent { .. } if matches!(event.actor, Actor::Engine(_)) => {
                let open = self.open.entry(event.actor).or_default();
                *open += 1;
                let limit = view.config.window.max(1) * u64::try_from(BATCH_MAX).unwrap_or(1);
                if *open > limit {
                    let open = *open;
                    findings.add(view, event.actor, format!("has {open} calls on their way"));
                }
            }
            What::Delivered { .. } => {
                if let Some(open) = self.open.get_mut(&event.actor) {
                    *open = open.saturating_sub(1);
                }
            }
            // What nobody hears of again is given up with its ticket.
            What::Lost { .. } | What::Started | What::Died => {
                self.open.remove(&event.actor);
            }
            What::Fault { .. }
            | What::Observed(_)
            | What::Invoked { .. }
            | What::Returned { .. }
            | What::Phase(_)
            | What::CommitsLost { .. }
            | What::Sent { .. }
            | What::Note(_) => {}
        }
    }
}

fn elements(value: &Value) -> usize {
    match value {
        Value::Array(inner) => 1 + inner.iter().map(elements).sum::<usize>(),
        Value::Nil | Value::Int(_) | Value::Bulk(_) | Value::Status(_) | Value::Error(_) => 1,
    }
}
