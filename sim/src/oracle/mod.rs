//! Oracles: what must hold in every run. State oracles are in [`selvedge_core::audit`]; history
//! oracles are here, one file each, and read only the event stream and the keyspace.
//!
//! An [`OracleSet`] checks one run. Every oracle gets every event, with the [`Changes`] that a call
//! made. Damage that cannot be repaired is an excuse: the finding then names the lost commit or the
//! damaged key.

mod admissions_paced;
mod all_settle;
mod attempts_honest;
mod bounded_work;
mod budgets_stop;
mod cadence_kept;
pub mod call;
mod cancelled_stays_still;
mod capacity_kept;
pub mod changes;
mod claimed_soon;
mod edge_by_truth;
mod ends_noticed;
mod error_means_untouched;
mod fence_never_repeats;
mod group_counts;
mod handlers_stopped;
mod leases_kept;
mod ledger_adds;
mod legal_transition;
mod matches_model;
mod no_lost_ack;
mod no_run_before_parents;
mod not_before_due;
mod oldest_age_bounded;
mod one_copy;
mod one_holder;
mod one_slot;
mod only_what_suits;
mod pending_cancels_finished;
mod purged_in_time;
mod quiet_at_rest;
mod quota_slots_given_back;
mod repeat_is_harmless;
mod signal_counts_once;
mod success_is_true;
mod why_is_true;
mod workers;

use selvedge_core::audit;
use selvedge_core::id::ExecutionId;
use selvedge_core::key::Key;
use selvedge_core::partition::Partition;

use crate::canary::PlantedBug;
use crate::event::{Event, Phase};
use crate::mark::{MarkCounter, Marks};
use crate::plan::Config;
use crate::world::commit_log::{CommitLog, Damage};

pub(crate) use all_settle::{Unsettled, Waits, runnable, unsettled, unsignalled};
use changes::{Changes, KnownState};

/// What an oracle can read besides the event.
pub struct View<'a> {
    /// Virtual time.
    pub now_ms: u64,
    /// The phase of the run.
    pub phase: Phase,
    /// The settings of the plan.
    pub config: &'a Config,
    /// The keyspace of each shard.
    pub shards: &'a [audit::Snapshot],
    /// Keys that the call wrote.
    pub touched: &'a [Vec<u8>],
    /// All writes, and which were lost.
    pub commit_log: &'a CommitLog,
    /// The shard that serves a slot.
    pub owners: &'a dyn Fn(u16) -> usize,
    /// Until when the links of a shard are or were slow.
    pub slow_until: &'a dyn Fn(usize) -> u64,
    /// Until when faults other than slow links and high load have an effect.
    pub disturbed_until_ms: u64,
    /// Until when faults have an effect that can cost a worker its lease.
    pub leases_risked_until_ms: u64,
    /// The planted bug: an oracle that asks the code under test asks it with the bug.
    pub bug: Option<PlantedBug>,
}

impl View<'_> {
    /// The keyspace of a partition.
    #[must_use]
    pub fn of(&self, partition: Partition) -> &audit::Snapshot {
        if let [only] = self.shards {
            return only;
        }
        let shard = (self.owners)(partition.slot());
        &self.shards[shard.min(self.shards.len() - 1)]
    }

    /// Until when the links of any shard are or were slow.
    #[must_use]
    pub fn any_slow_until_ms(&self) -> u64 {
        (0..self.shards.len()).map(|shard| (self.slow_until)(shard)).max().unwrap_or(0)
    }
}

/// A finding of an oracle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The oracle that found it.
    pub oracle: &'static str,
    /// The record, key or call with the problem.
    pub subject: String,
    /// The problem.
    pub what: String,
    /// A lost commit or a damaged key that explains it.
    pub excuse: Option<String>,
}

/// How a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// Something has not come to rest within the bound.
    Overdue,
    /// Everything has come to rest, and two more cycles have passed.
    AtRest,
}

/// The two classes of oracles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Must hold after every event.
    Safety,
    /// Must hold some time after the faults have ended.
    Liveness,
}

/// An oracle: a statement that must hold in every run.
#[derive(Clone, Copy)]
pub struct Oracle {
    /// Its name, by which code, planted bugs and reports refer to it.
    pub name: &'static str,
    /// The statement.
    pub statement: &'static str,
    /// Its class.
    pub class: Class,
    checker: fn() -> Box<dyn Checker>,
}

/// The check of an oracle, with its state, during one run.
trait Checker {
    /// Checks an event.
    fn on_event(
        &mut self,
        event: &Event,
        changes: &Changes,
        view: &View<'_>,
        findings: &mut Findings,
    );

    /// Checks the end of the run.
    fn on_end(&mut self, _end: RunEnd, _view: &View<'_>, _findings: &mut Findings) {
        // Most oracles have nothing to add.
    }
}

/// All history oracles.
pub const ORACLES: &[Oracle] = &[
    legal_transition::ORACLE,
    one_holder::ORACLE,
    fence_never_repeats::ORACLE,
    attempts_honest::ORACLE,
    repeat_is_harmless::ORACLE,
    not_before_due::ORACLE,
    no_run_before_parents::ORACLE,
    cancelled_stays_still::ORACLE,
    edge_by_truth::ORACLE,
    group_counts::ORACLE,
    pending_cancels_finished::ORACLE,
    signal_counts_once::ORACLE,
    ledger_adds::ORACLE,
    budgets_stop::ORACLE,
    error_means_untouched::ORACLE,
    one_copy::ORACLE,
    one_slot::ORACLE,
    bounded_work::ORACLE,
    no_lost_ack::ORACLE,
    success_is_true::ORACLE,
    leases_kept::ORACLE,
    quota_slots_given_back::ORACLE,
    handlers_stopped::ORACLE,
    admissions_paced::ORACLE,
    capacity_kept::ORACLE,
    only_what_suits::ORACLE,
    all_settle::ORACLE,
    oldest_age_bounded::ORACLE,
    cadence_kept::ORACLE,
    purged_in_time::ORACLE,
    ends_noticed::ORACLE,
    claimed_soon::ORACLE,
    quiet_at_rest::ORACLE,
    matches_model::ORACLE,
    why_is_true::ORACLE,
];

/// The class of an oracle, by name.
#[must_use]
pub fn class_of(name: &str) -> Class {
    let resting = audit::ORACLES
        .iter()
        .any(|oracle| oracle.name == name && oracle.moment == audit::Moment::Rest);
    let waiting =
        ORACLES.iter().any(|oracle| oracle.name == name && oracle.class == Class::Liveness);
    if resting || waiting { Class::Liveness } else { Class::Safety }
}

/// All history oracles and marks, for one run.
pub struct OracleSet {
    checkers: Vec<(&'static str, Box<dyn Checker>)>,
    known: KnownState,
    mark_counter: MarkCounter,
    only: Option<&'static str>,
}

impl OracleSet {
    /// Oracles at the start of a run; with `only`, just this one.
    #[must_use]
    pub fn new(only: Option<&'static str>) -> Self {
        let heard = |oracle: &&Oracle| only.is_none_or(|only| only == oracle.name);
        let checkers = ORACLES.iter().filter(heard);
        let checkers = checkers.map(|oracle| (oracle.name, (oracle.checker)())).collect();
        Self { checkers, known: KnownState::default(), mark_counter: MarkCounter::default(), only }
    }

    /// The findings of the selected oracles.
    #[must_use]
    pub fn selected(&self, mut found: Vec<Violation>) -> Vec<Violation> {
        found.retain(|found| self.only.is_none_or(|only| only == found.oracle));
        found
    }

    /// How often each mark was hit.
    #[must_use]
    pub const fn marks(&self) -> &Marks {
        self.mark_counter.marks()
    }

    /// Checks an event with all history oracles.
    #[must_use]
    pub fn on_event(&mut self, event: &Event, view: &View<'_>) -> Vec<Violation> {
        let changes = self.known.changes(event, view);
        self.mark_counter.on_event(event, &changes, view);
        let mut findings = Findings::new(Damage::Passing);
        for (name, checker) in &mut self.checkers {
            findings.oracle = name;
            checker.on_event(event, &changes, view, &mut findings);
        }
        findings.violations
    }

    /// Checks the end of a run with all history oracles, and with the state oracles for rest.
    #[must_use]
    pub fn on_end(&mut self, end: RunEnd, view: &View<'_>) -> Vec<Violation> {
        let mut findings = Findings::new(Damage::Lasting);
        for (name, checker) in &mut self.checkers {
            findings.oracle = name;
            checker.on_end(end, view, &mut findings);
        }
        for shard in view.shards {
            let found = excused(audit::judge_rest(shard), view.commit_log, Damage::Lasting);
            findings.violations.extend(self.selected(found));
        }
        findings.violations
    }
}

/// Checks the records that the last calls changed with the state oracles.
#[must_use]
pub fn audit_touched(snapshot: &mut audit::Snapshot, commit_log: &CommitLog) -> Vec<Violation> {
    excused(audit::judge_touched(snapshot), commit_log, Damage::Passing)
}

/// Checks a whole keyspace with the state oracles, at the end.
#[must_use]
pub fn audit(snapshot: &audit::Snapshot, commit_log: &CommitLog) -> Vec<Violation> {
    excused(audit::judge(snapshot), commit_log, Damage::Lasting)
}

fn excused(found: Vec<audit::Violation>, commit_log: &CommitLog, least: Damage) -> Vec<Violation> {
    found
        .into_iter()
        .map(|found| Violation {
            excuse: match found.oracle {
                // An unreadable entry is injected damage, but leaving it in place is a bug.
                "UnreadableSetAside" => None,
                // So is waiting for a record that was deleted.
                "NoLostUpstream" => commit_log.damage_excuse(&found.subject, least),
                _ => damage(commit_log, &found.subject, &found.what, least),
            },
            oracle: found.oracle,
            subject: found.subject,
            what: found.what,
        })
        .collect()
}

fn damage(commit_log: &CommitLog, subject: &str, what: &str, least: Damage) -> Option<String> {
    commit_log.damage_excuse(subject, least).or_else(|| commit_log.damage_excuse(what, least))
}

/// Collects findings.
struct Findings {
    oracle: &'static str,
    violations: Vec<Violation>,
    /// The least damage that is an excuse: at the end, repairable damage is none.
    least: Damage,
}

impl Findings {
    const fn new(least: Damage) -> Self {
        Self { oracle: "", violations: Vec::new(), least }
    }

    /// Adds a finding that only damaged keys can excuse.
    fn add(&mut self, view: &View<'_>, subject: impl ToString, what: impl Into<String>) {
        self.add_unless(view, subject, what, None);
    }

    /// Adds a finding that is also excused by a lost commit: one that had written the record of
    /// this execution by this time.
    fn add_or_lost(
        &mut self,
        view: &View<'_>,
        subject: impl ToString,
        what: impl Into<String>,
        (id, told_ms): (&ExecutionId, u64),
    ) {
        let record = Key::execution(id).core().to_string();
        let excuse = view.commit_log.loss_excuse(record.as_bytes(), told_ms);
        self.add_unless(view, subject, what, excuse);
    }

    /// Adds a finding with an excuse, if there is one.
    fn add_unless(
        &mut self,
        view: &View<'_>,
        subject: impl ToString,
        what: impl Into<String>,
        excuse: Option<String>,
    ) {
        let (subject, what) = (subject.to_string(), what.into());
        let excuse = excuse.or_else(|| damage(view.commit_log, &subject, &what, self.least));
        self.violations.push(Violation { oracle: self.oracle, subject, what, excuse });
    }
}
