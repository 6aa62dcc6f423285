//! The flows of the load, and what their callers do with them.

use std::time::Duration;

use selvedge::client::{Flow, OnSatisfied, Task, TerminalOutcome};
use selvedge_core::id::{BudgetId, QuotaPolicyId};

use super::process_main::Kind;

/// A flow, and what its caller does with it after the submission.
#[derive(Debug)]
pub struct Shape {
    /// Its tasks.
    pub tasks: &'static [Planned],
    /// What its caller does, besides waiting for an end.
    pub action: Action,
}

/// A task of a shape: its name, its kind, after whom it comes, and how it may end.
pub type Planned = (&'static str, Kind, &'static [&'static str], &'static [TerminalOutcome]);

/// What the caller of a flow does, besides waiting for an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing else.
    Wait,
    /// Cancels the flow some time after the submission.
    Cancel,
    /// Sends the signal that the task waits for.
    Signal,
    /// Creates a budget and a quota first, and puts all tasks under them.
    Limit,
}

/// The limits of a flow.
pub type Limits = Option<(BudgetId, QuotaPolicyId)>;

impl Shape {
    /// The flow to submit.
    #[must_use]
    pub fn flow(&self, limits: Limits) -> Flow {
        self.tasks.iter().fold(Flow::new("live"), |flow, (name, kind, after, _)| {
            let task = Task::new(*name, kind.name()).retries(5, Duration::from_millis(50));
            let task = match (*name, after.is_empty()) {
                (_, true) => task,
                (RACE, false) => {
                    task.after_any(after.iter().copied(), OnSatisfied::CancelRemaining)
                }
                (_, false) => task.after(after.iter().copied()),
            };
            flow.task(match limits {
                None => task,
                Some((budget, quota)) => task.budget(budget).quota(quota),
            })
        })
    }
}

/// The one task that goes as soon as any of those before it has succeeded.
const RACE: &str = "race";

const SUCCESS: &[TerminalOutcome] = &[TerminalOutcome::Success];
const FAILED: &[TerminalOutcome] = &[TerminalOutcome::Failed];
const SKIPPED: &[TerminalOutcome] = &[TerminalOutcome::Skipped];
/// Of several that race, the slower ones are cancelled, or skipped where they never began. So are
/// the tasks of a flow that is cancelled.
const ANY: &[TerminalOutcome] =
    &[TerminalOutcome::Success, TerminalOutcome::Cancelled, TerminalOutcome::Skipped];

/// All shapes.
pub const SHAPES: [Shape; 9] = [
    Shape { tasks: &[("only", Kind::Plain, &[], SUCCESS)], action: Action::Wait },
    Shape {
        tasks: &[
            ("first", Kind::Plain, &[], SUCCESS),
            ("second", Kind::Flaky, &["first"], SUCCESS),
            ("third", Kind::Plain, &["second"], SUCCESS),
        ],
        action: Action::Wait,
    },
    Shape {
        tasks: &[
            ("source", Kind::Plain, &[], SUCCESS),
            ("left", Kind::Plain, &["source"], SUCCESS),
            ("right", Kind::Patient, &["source"], SUCCESS),
            ("sink", Kind::Plain, &["left", "right"], SUCCESS),
        ],
        action: Action::Wait,
    },
    Shape {
        tasks: &[
            ("hare", Kind::Plain, &[], ANY),
            ("tortoise", Kind::Patient, &[], ANY),
            (RACE, Kind::Plain, &["hare", "tortoise"], SUCCESS),
        ],
        action: Action::Wait,
    },
    Shape {
        tasks: &[
            ("doomed", Kind::Doomed, &[], FAILED),
            ("orphan", Kind::Plain, &["doomed"], SKIPPED),
        ],
        action: Action::Wait,
    },
    Shape { tasks: &[("slow", Kind::Slow, &[], SUCCESS)], action: Action::Wait },
    Shape {
        tasks: &[
            ("approved", Kind::Signalled, &[], SUCCESS),
            ("after", Kind::Plain, &["approved"], SUCCESS),
        ],
        action: Action::Signal,
    },
    Shape {
        tasks: &[
            ("one", Kind::Slow, &[], ANY),
            ("two", Kind::Patient, &[], ANY),
            ("three", Kind::Plain, &["one", "two"], ANY),
        ],
        action: Action::Cancel,
    },
    Shape {
        tasks: &[
            ("a", Kind::Spending, &[], SUCCESS),
            ("b", Kind::Spending, &[], SUCCESS),
            ("c", Kind::Spending, &[], SUCCESS),
        ],
        action: Action::Limit,
    },
];
