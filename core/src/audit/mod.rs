//! State oracles: what must be true of a keyspace at any moment, as pure functions over a
//! [`Snapshot`]. They never call the code that they judge.
//!
//! | oracle | statement |
//! | --- | --- |
//! | `VectorWhole` | all seven state fields are set and form a row of the transition table |
//! | `OneHome` | an execution sits in exactly the indexes that its record demands |
//! | `OneHolder` | at most one current lease, and it is the one that the record names |
//! | `AttemptsHonest` | attempt indexes are dense, and only an attempt that can go on is open |
//! | `GroupCounts` | counters of dependencies and groups equal the edges they count |
//! | `LedgerAdds` | admission counts equal their holders, and hard limits hold |
//! | `SuspendedHasWaker` | every suspended execution has an open waitpoint or a timeout |
//! | `DebtHasNote` | every debt has its note, every note its index entry, until it is paid |
//! | `NoOrphans` | every key belongs to a live record or expires |

mod attempts_honest;
mod debt_has_note;
mod group_counts;
mod ledger_adds;
mod no_orphans;
mod one_holder;
mod one_home;
mod snapshot;
mod suspended_has_waker;
mod vector_whole;

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

pub use snapshot::{Entry, Execution, Fields, Snapshot, Stored};

/// One thing that should not be so.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// The oracle that found it.
    pub oracle: &'static str,
    /// The record or key that it is about.
    pub subject: String,
    /// What is wrong with it.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.oracle, self.subject, self.what)
    }
}

/// One thing that must be true of any keyspace.
#[derive(Clone, Copy, Debug)]
pub struct Oracle {
    /// Its name, by which code, planted bugs and reports refer to it.
    pub name: &'static str,
    /// What it says, in a sentence.
    pub statement: &'static str,
    look: fn(&Snapshot, &mut Findings),
}

impl Oracle {
    /// What speaks against it.
    #[must_use]
    pub fn judge(&self, snapshot: &Snapshot) -> Vec<Violation> {
        let mut findings = Findings { oracle: self.name, violations: Vec::new() };
        (self.look)(snapshot, &mut findings);
        findings.violations
    }
}

/// All state oracles.
pub const ORACLES: &[Oracle] = &[
    vector_whole::ORACLE,
    one_home::ORACLE,
    one_holder::ORACLE,
    attempts_honest::ORACLE,
    group_counts::ORACLE,
    ledger_adds::ORACLE,
    suspended_has_waker::ORACLE,
    debt_has_note::ORACLE,
    no_orphans::ORACLE,
];

/// What speaks against any of them.
#[must_use]
pub fn judge(snapshot: &Snapshot) -> Vec<Violation> {
    ORACLES.iter().flat_map(|oracle| oracle.judge(snapshot)).collect()
}

/// Where an oracle puts what it finds.
struct Findings {
    oracle: &'static str,
    violations: Vec<Violation>,
}

impl Findings {
    fn add(&mut self, subject: impl ToString, what: impl Into<String>) {
        self.violations.push(Violation {
            oracle: self.oracle,
            subject: subject.to_string(),
            what: what.into(),
        });
    }

    /// Adds what `what` says unless `holds`.
    fn expect(&mut self, holds: bool, subject: impl ToString, what: impl FnOnce() -> String) {
        if !holds {
            self.add(subject, what());
        }
    }
}
