//! [`Report`]: what a schedule did, and what the judge found.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use super::fault_schedule::{Fault, FaultSchedule};
use super::judge::Verdict;

/// What a schedule did, and what was found.
#[derive(Debug)]
pub struct Report {
    /// The schedule.
    pub schedule: FaultSchedule,
    /// How often each fault was injected.
    pub faults: BTreeMap<Fault, usize>,
    /// Executions whose submission was acknowledged.
    pub accepted: usize,
    /// Ends that were reported to callers.
    pub ended: usize,
    /// Runs of handlers.
    pub runs: usize,
    /// What is wrong, and what is excused.
    pub verdict: Verdict,
    /// Where the logs are, if anything is wrong.
    pub logs: Option<PathBuf>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { schedule, accepted, ended, runs, verdict, logs, .. } = self;
        let injection: usize = self.faults.values().sum();
        writeln!(
            f,
            "seed {} {:?}: {injection} faults, {accepted} accepted, {ended} ends told, {runs} runs, \
             {} excused, {} faults found",
            schedule.seed,
            schedule.shape,
            verdict.excused.len(),
            verdict.faults.len()
        )?;
        verdict.faults.iter().take(SHOWN_MAX).try_for_each(|fault| writeln!(f, "  {fault}"))?;
        let excused = verdict.excused.iter().take(SHOWN_MAX);
        excused.into_iter().try_for_each(|loss| writeln!(f, "  excused: {loss}"))?;
        if let Some(logs) = logs {
            writeln!(f, "  logs: {}", logs.display())?;
        }
        Ok(())
    }
}

/// How many findings are shown.
const SHOWN_MAX: usize = 20;
