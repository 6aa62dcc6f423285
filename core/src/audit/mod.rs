//! State oracles: invariants of a keyspace, checked by pure functions over a [`Snapshot`]. They
//! never call the code that they check.
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
//! | `PendingCancelsIndexed` | pending cancels and entries of their indexes match one to one |
//! | `OneSlot` | whatever a record or an index names lives in its own slot |
//! | `NoOrphans` | every key belongs to a live record or expires |
//!
//! At rest, when engines have run for a while and no work was added:
//!
//! | oracle | statement |
//! | --- | --- |
//! | `WorkComesBack` | no execution stays active without a lease |
//! | `WindowMoves` | nothing that is due is still waiting |
//! | `NoPendingCancels` | no cancel is pending, and no edge of an ended upstream is open |
//! | `NoLostUpstream` | no child waits for an execution whose record is gone |
//! | `WakeupsArrive` | no execution whose dependencies are met is blocked |
//! | `UnreadableSetAside` | unreadable index entries were set aside with a reason, and nothing else was |
//! | `SummaryTrue` | a flow's summary equals the fold over its members |
//!
//! An oracle judges one [`Subject`] at a time, with the keys that belong to it. [`judge`] checks a
//! whole keyspace; [`judge_touched`] checks only the subjects that changed since the last call. A
//! large keyspace can be judged partition by partition, as [`Reach`] allows.

mod attempts_honest;
mod edge_by_truth;
mod group_counts;
mod ledger_adds;
mod no_lost_upstream;
mod no_orphans;
mod no_pending_cancels;
mod no_run_before_parents;
mod one_holder;
mod one_home;
mod one_slot;
mod pending_cancels_indexed;
mod record;
mod right_kind;
mod snapshot;
mod subject;
mod summary_true;
mod suspended_has_waker;
#[cfg(test)]
mod tests;
mod unreadable_set_aside;
mod vector_whole;
mod wakeups_arrive;
mod window_moves;
mod work_comes_back;

use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

pub use record::{Entry, Execution, Fields, Stored};
pub use right_kind::{expected_type, unreadable_numbers};
pub use snapshot::{GRACE_MS, Snapshot};
pub use subject::Subject;
pub use unreadable_set_aside::unreadable_entries;

/// One violated invariant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Violation {
    /// The oracle that found it.
    pub oracle: &'static str,
    /// The record or key that it is about.
    pub subject: String,
    /// What is wrong with it.
    pub what: String,
}

impl Violation {
    /// A violation that was found by another check than the oracles.
    #[must_use]
    pub fn new(oracle: &'static str, subject: impl ToString, what: impl Into<String>) -> Self {
        Self { oracle, subject: subject.to_string(), what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.oracle, self.subject, self.what)
    }
}

/// One invariant.
#[derive(Clone, Copy, Debug)]
pub struct Oracle {
    /// Its name, by which code, planted bugs and reports refer to it.
    pub name: &'static str,
    /// The invariant, in one sentence.
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
    /// After engines have run for the grace period of the snapshot, and no work was added.
    Rest,
}

/// How much of a keyspace an oracle must see to judge a subject fairly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// All keys of the subject's partition.
    Partition,
    /// All keys of the deployment. With one partition alone it may miss violations, but reports
    /// none that is not there.
    Deployment,
}

impl Oracle {
    /// The violations of these subjects.
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
    pending_cancels_indexed::ORACLE,
    no_run_before_parents::ORACLE,
    edge_by_truth::ORACLE,
    one_slot::ORACLE,
    no_orphans::ORACLE,
    work_comes_back::ORACLE,
    window_moves::ORACLE,
    no_pending_cancels::ORACLE,
    no_lost_upstream::ORACLE,
    wakeups_arrive::ORACLE,
    unreadable_set_aside::ORACLE,
    summary_true::ORACLE,
];

/// The violations of the invariants that hold at any moment.
#[must_use]
pub fn judge(snapshot: &Snapshot) -> Vec<Violation> {
    judge_moment(snapshot, &snapshot.subjects(), Moment::Always)
}

/// The violations in a keyspace on which perhaps no engine runs: those of [`judge`], and what an
/// engine mends within a scan, even if none had the time to: index entries that cannot be read, and
/// children of executions whose record is gone.
#[must_use]
pub fn judge_unattended(mut snapshot: Snapshot) -> (Snapshot, Vec<Violation>) {
    // Without a grace period, whatever an index lists is due.
    snapshot.set_grace_ms(i64::MIN);
    let subjects = snapshot.subjects();
    let mut found = judge_moment(&snapshot, &subjects, Moment::Always);
    for oracle in [unreadable_set_aside::ORACLE, no_lost_upstream::ORACLE] {
        found.extend(oracle.judge(&snapshot, &subjects));
    }
    (snapshot, found)
}

/// The violations of the invariants that hold at rest.
#[must_use]
pub fn judge_rest(snapshot: &Snapshot) -> Vec<Violation> {
    judge_moment(snapshot, &snapshot.subjects(), Moment::Rest)
}

/// The violations of subjects that changed since the last call.
///
/// It finds what [`judge`] finds, except records of budgets, quotas or waitpoints that lost their
/// owner: only a full check shows those.
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

/// Collects the violations that an oracle finds.
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
