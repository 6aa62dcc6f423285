//! What must hold. State oracles live in [`selvedge_core::audit`]; history oracles live here, one
//! file each, and see nothing but the event stream and the keyspace.
//!
//! A [`Bench`] of judges sits through one run. Each is told every event, with the [`Scene`] of what
//! a call changed, and may say what is wrong. Some damage cannot be repaired; a finding then
//! carries an excuse that names the lost commit or the damaged key.

mod all_settle;
mod attempts_honest;
mod bounded_work;
mod cadence_kept;
pub mod call;
mod cancelled_stays_still;
mod drain_only_when_paid;
mod edge_by_truth;
mod error_means_untouched;
mod fence_never_repeats;
mod group_counts;
mod ledger_adds;
mod legal_transition;
mod matches_model;
mod no_lost_ack;
mod no_run_before_parents;
mod not_before_due;
mod oldest_age_bounded;
mod one_holder;
mod one_slot;
mod purged_in_time;
mod quiet_at_rest;
mod repeat_is_harmless;
pub mod scene;
mod signal_counts_once;

use selvedge_core::audit;
use selvedge_core::id::ExecutionId;
use selvedge_core::key::Key;
use selvedge_core::partition::Partition;

use crate::event::{Event, Phase};
use crate::mark::{Lookout, Marks};
use crate::plan::Config;
use crate::world::ledger::{Damage, Ledger};

pub(crate) use all_settle::{Unsettled, Waits, runnable, unsettled, unsignalled};
use scene::{Memory, Scene};

/// What an oracle may look at besides the event.
pub struct View<'a> {
    /// Virtual time.
    pub now_ms: u64,
    /// The part of the run.
    pub phase: Phase,
    /// The settings of the world.
    pub config: &'a Config,
    /// What each shard's primary holds.
    pub shards: &'a [audit::Snapshot],
    /// Keys that the event may have changed; empty for events that change none.
    pub touched: &'a [Vec<u8>],
    /// Everything that was ever written, and what of it was lost.
    pub ledger: &'a Ledger,
    /// Which shard serves a slot.
    pub owners: &'a dyn Fn(u16) -> usize,
    /// Until when the links to a shard are slow, or were.
    pub slow_until: &'a dyn Fn(usize) -> u64,
    /// Until when anything else goes wrong, or did: more than slow links and crowds.
    pub disturbed_until_ms: u64,
}

impl View<'_> {
    /// The keyspace in which a partition lives.
    #[must_use]
    pub fn of(&self, partition: Partition) -> &audit::Snapshot {
        if let [only] = self.shards {
            return only;
        }
        let shard = (self.owners)(partition.slot());
        &self.shards[shard.min(self.shards.len() - 1)]
    }
}

/// Something that should not be so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The oracle that found it.
    pub oracle: &'static str,
    /// The record, key or call that it is about.
    pub subject: String,
    /// What is wrong with it.
    pub what: String,
    /// Why it may be so all the same, naming a lost commit or a damaged key.
    pub excuse: Option<String>,
}

/// How a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// The bound has passed, and something has not come to rest.
    Overdue,
    /// Everything has come to rest, and two more cycles have passed.
    Reached,
}

/// When an oracle speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// After every event.
    Safety,
    /// When faults have stopped, and a bound has passed.
    Liveness,
}

/// One thing that must be true of every run.
#[derive(Clone, Copy)]
pub struct Oracle {
    /// Its name, by which code, planted bugs and reports refer to it.
    pub name: &'static str,
    /// What it says, in a sentence.
    pub statement: &'static str,
    /// When it speaks.
    pub class: Class,
    judge: fn() -> Box<dyn Judge>,
}

/// An oracle during one run.
trait Judge {
    /// Looks at one event.
    fn see(&mut self, event: &Event, scene: &Scene, view: &View<'_>, findings: &mut Findings);

    /// Looks at the end.
    fn rest(&mut self, _end: Rest, _view: &View<'_>, _findings: &mut Findings) {}
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
    drain_only_when_paid::ORACLE,
    signal_counts_once::ORACLE,
    ledger_adds::ORACLE,
    error_means_untouched::ORACLE,
    one_slot::ORACLE,
    bounded_work::ORACLE,
    no_lost_ack::ORACLE,
    all_settle::ORACLE,
    oldest_age_bounded::ORACLE,
    cadence_kept::ORACLE,
    purged_in_time::ORACLE,
    quiet_at_rest::ORACLE,
    matches_model::ORACLE,
];

/// Whether what an oracle found is that something did not come to rest.
#[must_use]
pub fn class_of(name: &str) -> Class {
    let resting = audit::ORACLES
        .iter()
        .any(|oracle| oracle.name == name && oracle.moment == audit::Moment::Rest);
    let waiting =
        ORACLES.iter().any(|oracle| oracle.name == name && oracle.class == Class::Liveness);
    if resting || waiting { Class::Liveness } else { Class::Safety }
}

/// All oracles and marks, ready for one run.
pub struct Bench {
    judges: Vec<(&'static str, Box<dyn Judge>)>,
    memory: Memory,
    lookout: Lookout,
    only: Option<&'static str>,
}

impl Bench {
    /// Judges who have seen nothing yet; with `only`, all but one of them are not heard.
    #[must_use]
    pub fn new(only: Option<&'static str>) -> Self {
        let heard = |oracle: &&Oracle| only.is_none_or(|only| only == oracle.name);
        let judges = ORACLES.iter().filter(heard);
        let judges = judges.map(|oracle| (oracle.name, (oracle.judge)())).collect();
        Self { judges, memory: Memory::default(), lookout: Lookout::default(), only }
    }

    /// Those findings that are heard.
    #[must_use]
    pub fn heed(&self, mut found: Vec<Violation>) -> Vec<Violation> {
        found.retain(|found| self.only.is_none_or(|only| only == found.oracle));
        found
    }

    /// How often each mark was hit.
    #[must_use]
    pub const fn marks(&self) -> &Marks {
        self.lookout.marks()
    }

    /// What the history oracles say about one event.
    #[must_use]
    pub fn see(&mut self, event: &Event, view: &View<'_>) -> Vec<Violation> {
        let scene = self.memory.scene(event, view);
        self.lookout.see(event, &scene, view);
        let mut findings = Findings::new(Damage::Passing);
        for (name, judge) in &mut self.judges {
            findings.oracle = name;
            judge.see(event, &scene, view, &mut findings);
        }
        findings.violations
    }

    /// What the history oracles and the state oracles of rest say about the end.
    #[must_use]
    pub fn rest(&mut self, end: Rest, view: &View<'_>) -> Vec<Violation> {
        let mut findings = Findings::new(Damage::Lasting);
        for (name, judge) in &mut self.judges {
            findings.oracle = name;
            judge.rest(end, view, &mut findings);
        }
        for shard in view.shards {
            let found = excused(audit::judge_rest(shard), view.ledger, Damage::Lasting);
            findings.violations.extend(self.heed(found));
        }
        findings.violations
    }
}

/// What the state oracles say about those whom the last changes concerned.
#[must_use]
pub fn audit_touched(snapshot: &mut audit::Snapshot, ledger: &Ledger) -> Vec<Violation> {
    excused(audit::judge_touched(snapshot), ledger, Damage::Passing)
}

/// What the state oracles say about one keyspace in full, in the end.
#[must_use]
pub fn audit(snapshot: &audit::Snapshot, ledger: &Ledger) -> Vec<Violation> {
    excused(audit::judge(snapshot), ledger, Damage::Lasting)
}

fn excused(found: Vec<audit::Violation>, ledger: &Ledger, least: Damage) -> Vec<Violation> {
    found
        .into_iter()
        .map(|found| Violation {
            // Poison is damage done on purpose; that it was left there is not.
            excuse: (found.oracle != "PoisonAside")
                .then(|| damage(ledger, &found.subject, &found.what, least))
                .flatten(),
            oracle: found.oracle,
            subject: found.subject,
            what: found.what,
        })
        .collect()
}

fn damage(ledger: &Ledger, subject: &str, what: &str, least: Damage) -> Option<String> {
    ledger.damage_excuse(subject, least).or_else(|| ledger.damage_excuse(what, least))
}

/// Where judges put what they find.
struct Findings {
    oracle: &'static str,
    violations: Vec<Violation>,
    /// What it takes to excuse anything: in the end, what can be put right has been.
    least: Damage,
}

impl Findings {
    const fn new(least: Damage) -> Self {
        Self { oracle: "", violations: Vec::new(), least }
    }

    /// Adds a finding that only damage done on purpose can excuse.
    fn add(&mut self, view: &View<'_>, subject: impl ToString, what: impl Into<String>) {
        self.add_unless(view, subject, what, None);
    }

    /// Adds a finding that a loss explains too: of a commit that had written the record of this
    /// execution by the time that somebody was told of it.
    fn add_or_lost(
        &mut self,
        view: &View<'_>,
        subject: impl ToString,
        what: impl Into<String>,
        (id, told_ms): (&ExecutionId, u64),
    ) {
        let record = Key::execution(id).core().to_string();
        let excuse = view.ledger.loss_excuse(record.as_bytes(), told_ms);
        self.add_unless(view, subject, what, excuse);
    }

    /// Adds a finding with its excuse, if there is one.
    fn add_unless(
        &mut self,
        view: &View<'_>,
        subject: impl ToString,
        what: impl Into<String>,
        excuse: Option<String>,
    ) {
        let (subject, what) = (subject.to_string(), what.into());
        let excuse = excuse.or_else(|| damage(view.ledger, &subject, &what, self.least));
        self.violations.push(Violation { oracle: self.oracle, subject, what, excuse });
    }
}
