//! The failure of a run, with its class and exit code.

use std::fmt;

use crate::oracle::Violation;
use crate::runner::{Outcome, RunResult};

/// The classes of failures. Each has its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Something did not come to rest.
    Liveness,
    /// A safety oracle found a violation.
    Correctness,
    /// Two runs of one plan differ.
    Nondeterminism,
    /// A fault kind or a mark never occurred, or too many seeds were excused.
    Coverage,
}

impl Class {
    /// The exit code.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Liveness => 12,
            Self::Correctness => 13,
            Self::Nondeterminism => 14,
            Self::Coverage => 15,
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Liveness => "liveness",
            Self::Correctness => "correctness",
            Self::Nondeterminism => "nondeterminism",
            Self::Coverage => "coverage",
        })
    }
}

/// One failure of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its class.
    pub class: Class,
    /// The oracle that found it.
    pub oracle: String,
    /// The record, key or call with the problem.
    pub subject: String,
    /// The problem.
    pub what: String,
}

impl Failure {
    /// The failure of a run; none if it passed or was excused.
    #[must_use]
    pub fn of(outcome: &Outcome) -> Option<Self> {
        let class = match outcome.result {
            RunResult::Passed | RunResult::Excused => return None,
            RunResult::Incorrect => Class::Correctness,
            RunResult::Stuck => Class::Liveness,
        };
        let unexcused = |found: &&Violation| found.excuse.is_none();
        if let Some(found) = outcome.violations.iter().find(unexcused) {
            let (oracle, subject) = (found.oracle.to_owned(), found.subject.clone());
            return Some(Self { class, oracle, subject, what: found.what.clone() });
        }
        Some(Self {
            class,
            oracle: "AllSettle".to_owned(),
            subject: outcome.pending.first().cloned().unwrap_or_default(),
            what: format!("{} items have not come to rest", outcome.pending.len()),
        })
    }

    /// Whether both are the same kind of failure, for shrinking.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        (self.class, &self.oracle) == (other.class, &other.oracle)
    }
}
