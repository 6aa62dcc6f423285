//! Counts by kind of damage.

use std::collections::BTreeMap;
use std::fmt;

use super::draw::{Kind, Wound, sort_of};
use super::judge::Fates;

/// What became of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// It has ended.
    Ended,
    /// It has no record any more.
    NoRecord,
    /// It waits, and `why` names what for.
    NamedByWhy,
    /// It waits, and `fsck` names it.
    NamedByFsck,
    /// It waits, and the engine names the reason for which it does not start.
    NamedByEngine,
    /// It waits, and nothing says so: a failure.
    Silent,
}

/// One damage and what became of it.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its seed.
    pub seed: u64,
    /// The damage.
    pub wound: Wound,
    /// What became of the executions.
    pub fates: Fates,
}

impl Case {
    /// The worst fate of any execution.
    #[must_use]
    pub fn worst(&self) -> Fate {
        self.fates.by_id.values().map(|(fate, _)| *fate).max().unwrap_or(Fate::Ended)
    }
}

/// All damages of a campaign.
#[derive(Clone, Debug, Default)]
pub struct Report {
    counts: BTreeMap<(Kind, Fate), usize>,
    /// Those in which something stands still and nothing says so.
    pub failures: Vec<Case>,
}

impl Report {
    pub(super) fn add(&mut self, case: Case) {
        *self.counts.entry((case.wound.kind, case.worst())).or_default() += 1;
        if case.worst() == Fate::Silent {
            self.failures.push(case);
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = [
            Fate::Ended,
            Fate::NoRecord,
            Fate::NamedByWhy,
            Fate::NamedByFsck,
            Fate::NamedByEngine,
            Fate::Silent,
        ];
        writeln!(
            f,
            "| damage | all ended | one has no record | `why` names one | `fsck` names one | \
             the engine does | nothing does |"
        )?;
        writeln!(f, "| --- | --- | --- | --- | --- | --- | --- |")?;
        for kind in [Kind::Delete, Kind::Retype, Kind::Edit, Kind::Truncate] {
            let count = |fate| self.counts.get(&(kind, fate)).copied().unwrap_or_default();
            let counts: Vec<String> = columns.iter().map(|fate| count(*fate).to_string()).collect();
            writeln!(f, "| {kind} | {} |", counts.join(" | "))?;
        }
        for case in &self.failures {
            writeln!(f, "seed {}: {} ({})", case.seed, case.wound, sort_of(&case.wound.key))?;
            for (id, (fate, told)) in &case.fates.by_id {
                if *fate == Fate::Silent {
                    writeln!(f, "  {id}: {told}")?;
                }
            }
        }
        Ok(())
    }
}
