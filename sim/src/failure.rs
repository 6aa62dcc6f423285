//! What is wrong with a run, by class, so that scripts and shrinking can tell failures apart.

use std::fmt;

use crate::oracle::Violation;
use crate::runner::{Outcome, Verdict};

/// The classes of failures; each has its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Something did not come to rest.
    Liveness,
    /// Something that must hold did not.
    Correctness,
    /// Two runs of one plan differ.
    Nondeterminism,
    /// A kind of fault or a mark was never seen, or too much was excused.
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
    /// The oracle that speaks.
    pub oracle: String,
    /// The record, key or call that it is about.
    pub subject: String,
    /// What is wrong with it.
    pub what: String,
}

impl Failure {
    /// What is wrong with a run, if anything is.
    #[must_use]
    pub fn of(outcome: &Outcome) -> Option<Self> {
        let class = match outcome.verdict {
            Verdict::Passed | Verdict::Excused => return None,
            Verdict::Incorrect => Class::Correctness,
            Verdict::Stuck => Class::Liveness,
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
            what: format!("{} things have not come to rest", outcome.pending.len()),
        })
    }

    /// Whether it is the same failure, as far as shrinking cares.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        (self.class, &self.oracle) == (other.class, &other.oracle)
    }
}
