//! State oracles: what must be true of a keyspace, as pure functions over a [`Snapshot`]. They
//! never call the code that they judge.
//!
//! At any moment:
//!
//! | oracle | statement |
//! | --- | --- |
//! | `RightKind` | every key holds its kind of value, and every count in it can be read |
//! | `VectorWhole` | all seven state fields are set and form a row of the transition table |
//! | `OneHome` | an execution sits in exactly the indexes that its record demands |
//! | `OneHolder` | at most one current lease, and it is the one that the record names |
//! | `AttemptsHonest` | attempt indexes are dense, and only an attempt that can go on is open |
//! | `NoRunBeforeParents` | nothing that never ran can be claimed while an edge holds it |
//! | `EdgeByTruth` | a child is skipped only if its edges cannot be met |
//! | `GroupCounts` | counters of dependencies and groups equal the edges they count |
//! | `LedgerAdds` | admission counts equal their holders, and hard limits hold |
//! | `SuspendedHasWaker` | every suspended execution has an open waitpoint or a timeout |
//! | `DebtHasNote` | every debt has its note, every note its index entry, until it is paid |
//! | `OneSlot` | whatever a record or an index names lives in its own slot |
//! | `NoOrphans` | every key belongs to a live record or expires |
//!
//! At rest, when engines run and nobody adds work:
//!
//! | oracle | statement |
//! | --- | --- |
//! | `WorkComesBack` | nobody waits behind a lost lease |
//! | `WindowMoves` | nothing that is due is still waiting |
//! | `DebtsPaid` | no cancel is owed, and no edge of an ended upstream is open |
//! | `WakeupsArrive` | nobody is blocked whose dependencies are met |
//! | `PoisonAside` | what cannot be read was set aside with a reason, and nothing else was |
//! | `SummaryTrue` | a flow's summary equals the fold over its members |
//!
//! An oracle judges one [`Subject`] at a time by what belongs to it. A keyspace is judged in full
//! with [`judge`]; one that changes with [`judge_touched`], which looks only at those whom the
//! changes concern; and a large one partition by partition, as [`Reach`] allows.

mod attempts_honest;
mod debt_has_note;
mod debts_paid;
mod edge_by_truth;
mod group_counts;
mod ledger_adds;
mod no_orphans;
mod no_run_before_parents;
mod one_holder;
mod one_home;
mod one_slot;
mod poison_aside;
mod right_kind;
mod snapshot;
mod subject;
mod summary_true;
mod suspended_has_waker;
#[cfg(test)]
mod tests;
mod vector_whole;
mod wakeups_arrive;
mod window_moves;
mod work_comes_back;

use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

pub use snapshot::{Entry, Execution, Fields, PATIENCE_MS, Snapshot, Stored};
pub use subject::Subject;

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
    /// When it must be true.
    pub moment: Moment,
    /// How much of a keyspace it must see.
    pub reach: Reach,
    look: fn(&Snapshot, &Subject, &mut Findings),
}

/// When an oracle must be true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// After every call.
    Always,
    /// When engines have had the snapshot's patience for it, and nobody adds work.
    Rest,
}

/// How much of a keyspace an oracle must see to judge a subject fairly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// All keys of the subject's partition.
    Partition,
    /// All keys of the deployment; with one partition alone it sees less, but nothing wrong.
    Deployment,
}

impl Oracle {
    /// What speaks against it.
    #[must_use]
    pub fn judge(&self, snapshot: &Snapshot, subjects: &BTreeSet<Subject>) -> Vec<Violation> {
        let mut findings = Findings { oracle: self.name, violations: BTreeSet::new() };
        for subject in subjects {
            (self.look)(snapshot, subject, &mut findings);
        }
        findings.violations.into_iter().collect()
    }
}

/// All state oracles.
pub const ORACLES: &[Oracle] = &[
    right_kind::ORACLE,
    vector_whole::ORACLE,
    one_home::ORACLE,
    one_holder::ORACLE,
    attempts_honest::ORACLE,
    group_counts::ORACLE,
    ledger_adds::ORACLE,
    suspended_has_waker::ORACLE,
    debt_has_note::ORACLE,
    no_run_before_parents::ORACLE,
    edge_by_truth::ORACLE,
    one_slot::ORACLE,
    no_orphans::ORACLE,
    work_comes_back::ORACLE,
    window_moves::ORACLE,
    debts_paid::ORACLE,
    wakeups_arrive::ORACLE,
    poison_aside::ORACLE,
    summary_true::ORACLE,
];

/// What speaks against any of them now. Those of rest do not count.
#[must_use]
pub fn judge(snapshot: &Snapshot) -> Vec<Violation> {
    judge_moment(snapshot, &snapshot.subjects(), Moment::Always)
}

/// What speaks against a keyspace that nobody may be looking after: [`judge`], and entries that
/// nobody can read, whether or not an engine has come by them yet.
#[must_use]
pub fn judge_unattended(mut snapshot: Snapshot) -> (Snapshot, Vec<Violation>) {
    // Without patience, whatever an index lists is due.
    snapshot.set_patience_ms(i64::MIN);
    let subjects = snapshot.subjects();
    let mut found = judge_moment(&snapshot, &subjects, Moment::Always);
    found.extend(poison_aside::ORACLE.judge(&snapshot, &subjects));
    (snapshot, found)
}

/// What speaks against those of rest.
#[must_use]
pub fn judge_rest(snapshot: &Snapshot) -> Vec<Violation> {
    judge_moment(snapshot, &snapshot.subjects(), Moment::Rest)
}

/// What speaks against any of them since the last time: only whom a change concerned is judged.
///
/// What it finds is what [`judge`] finds, but for two things that only a full look shows: records
/// of budgets, quotas or waitpoints that lost their owner.
#[must_use]
pub fn judge_touched(snapshot: &mut Snapshot) -> Vec<Violation> {
    let touched = snapshot.take_touched();
    judge_moment(snapshot, &touched, Moment::Always)
}

fn judge_moment(
    snapshot: &Snapshot,
    subjects: &BTreeSet<Subject>,
    moment: Moment,
) -> Vec<Violation> {
    let of_moment = ORACLES.iter().filter(|oracle| oracle.moment == moment);
    of_moment.flat_map(|oracle| oracle.judge(snapshot, subjects)).collect()
}

/// Where an oracle puts what it finds.
struct Findings {
    oracle: &'static str,
    violations: BTreeSet<Violation>,
}

impl Findings {
    fn add(&mut self, subject: impl ToString, what: impl Into<String>) {
        self.violations.insert(Violation {
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
