//! Planted bugs, to show that each oracle can fail.
//!
//! A [`Canary`] is data: where the bug is planted, and the oracle that must find it. Bugs are
//! planted in the text of the library, between engines and servers, or in the simulated world,
//! never in the crates that production runs.

mod catalogue;
mod client_bugs;
mod engine_bugs;
mod why_bugs;
mod worker_bugs;

pub use catalogue::CANARIES;
pub(crate) use client_bugs::{change_batch, change_client_answer, change_input, never_polls};
pub(crate) use engine_bugs::{change_answer, drops_call};
pub(crate) use why_bugs::change_answer_of_why;
pub(crate) use worker_bugs::WorkerShim;

use crate::oracle::Violation;
use crate::plan::{Plan, Seed, plan_from_seed};
use crate::runner::{RunOptions, run};

/// A planted bug and the oracle that must find it.
#[derive(Clone, Copy, Debug)]
pub struct Canary {
    /// Its name.
    pub name: &'static str,
    /// The oracle that must find it.
    pub oracle: &'static str,
    /// The bug.
    pub bug: PlantedBug,
    /// A plan that shows the bug; seeds are tried if there is none.
    pub story: Option<&'static str>,
}

/// A bug to plant into a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedBug {
    /// In the text of the library.
    Lua(&'static [Patch]),
    /// Between an engine and the servers.
    Engine(EngineBug),
    /// Between a caller and the servers.
    Client(ClientBug),
    /// Between a worker's machine and its driver.
    Worker(WorkerBug),
    /// In the simulator.
    World(WorldBug),
    /// In what `why` says.
    Why(WhyBug),
}

/// A bug of the client's procedures, planted between a procedure and its driver: what it has sent
/// and what it is told are changed, so that it acts as if it had decided otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientBug {
    /// Pushes are not followed by a read.
    PushIgnored,
    /// Gaps are not followed by a read.
    GapIgnored,
    /// Neither pushes nor gaps are followed by a read: what ends after the first read is found by
    /// polling only.
    OnlyPolls,
    /// It never reads without a push or a gap.
    NeverPolls,
    /// A chunk is taken for stored although it was never sent.
    ChunkSkipped,
    /// A flow that is being sealed is taken for sealed.
    SealingGivenUp,
    /// A repeat has another id than the first try.
    RepeatWithAnotherId,
    /// A refusal is taken for success.
    RefusalIsSuccess,
    /// Silence is taken for success.
    SilenceIsSuccess,
    /// A limit that does not exist is taken for one that does.
    LimitNotChecked,
    /// A read is taken for an end before there is one.
    EndImagined,
}

/// A bug of the worker's machine, planted between the machine and its driver: what it sends, what
/// it is told and what it asks to do are changed, so that it acts as if it had decided otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerBug {
    /// A claim whose reply was lost is not asked again.
    ClaimNotAskedAgain,
    /// A renewal that was refused, or not answered, is taken for success.
    RenewalFailureIsSuccess,
    /// Leases are never renewed.
    RenewalNeverSent,
    /// A handler is not told to stop when its lease is gone.
    CancellationForgotten,
    /// A report without an answer is taken for success.
    SilentReportIsSuccess,
    /// A report is sent under another lease epoch.
    ReportUnderWrongFence,
    /// The panic of a handler is not noticed.
    PanicNotReported,
    /// The slot of an execution whose handler panicked is not given back.
    PanicKeepsSlot,
    /// The slot of an execution that was admitted, but not claimed, is not given back.
    UnclaimedSlotKept,
    /// An execution that was not admitted is not blocked, and so asked for again at once.
    RefusedAdmissionNotBlocked,
    /// All budgets look unused to workers.
    UsageIgnored,
    /// The last partition is never claimed from.
    LastPartitionSkipped,
    /// After a failed claim, all partitions are left alone for a while.
    OneFailureStopsAll,
    /// The permit of a failed claim is never given back.
    PermitLeaked,
    /// Pushes about ready executions are ignored.
    ReadyIgnored,
    /// Pushes about lost leases are ignored.
    LostIgnored,
    /// Gaps in the pushes are ignored.
    GapIgnored,
    /// Changes of the capacity are ignored.
    CapacityIgnored,
    /// A drain does not wait until what handlers return is reported.
    DrainForgetsReports,
}

/// A replacement in the text of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patch {
    /// The original text, which occurs exactly once.
    pub from: &'static str,
    /// The replacement.
    pub to: &'static str,
}

/// A bug between an engine and the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineBug {
    /// This call of an engine never arrives, and is never answered.
    NeverCalls(&'static str),
    /// An unknown result is taken for the answer that the engine hopes for.
    UnknownIsSuccess,
}

/// A bug in the simulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorldBug {
    /// A failover does not record the commits that it loses.
    LossNotRecorded,
    /// No worker claims from the last partition.
    PartitionNotClaimed,
    /// An engine has one batch in flight, for all nodes together.
    OneBatchAtATime,
    /// Keys that move to another node stay on the old one too.
    MovedKeysStay,
}

/// A bug in what `why` says about an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhyBug {
    /// Everything that is due at some time is said to be due at once.
    AtOnce,
    /// Timeouts, deadlines and the ends of leases are left out.
    LimitsForgotten,
    /// Work that a worker can run is said to be work that none can.
    NobodyCanRunIt,
    /// The upstreams that it waits for are left out.
    UpstreamForgotten,
}

/// A canary that was found.
#[derive(Clone, Debug)]
pub struct Caught {
    /// The seed that found it; none if its story did.
    pub seed: Option<Seed>,
    /// How many plans were run.
    pub tries: u64,
    /// The plan.
    pub plan: Plan,
    /// The finding of the oracle.
    pub violation: Violation,
}

/// Looks for a plan in which the oracle of a canary finds it: its story, or one of `seeds` seeds.
///
/// # Errors
/// When a plan cannot be run, or when the oracle finds nothing.
pub fn hunt(canary: &Canary, seeds: u64) -> Result<Caught, String> {
    if let Some(story) = canary.story {
        let plan: Plan = story.parse().map_err(|error| format!("{}: {error}", canary.name))?;
        return match caught(canary, &plan)? {
            Some(violation) => Ok(Caught { seed: None, tries: 1, plan, violation }),
            None => Err(format!("{} did not find {} in its story", canary.oracle, canary.name)),
        };
    }
    for number in 0..seeds {
        let seed = Seed::from(number);
        let plan = plan_from_seed(seed);
        if let Some(violation) = caught(canary, &plan)? {
            return Ok(Caught { seed: Some(seed), tries: number + 1, plan, violation });
        }
    }
    Err(format!("{} did not find {} in {seeds} seeds", canary.oracle, canary.name))
}

/// Whether the oracle of a canary finds it in a plan.
///
/// # Errors
/// When the plan cannot be run.
pub fn caught(canary: &Canary, plan: &Plan) -> Result<Option<Violation>, String> {
    let options =
        RunOptions { bug: Some(canary.bug), only: Some(canary.oracle), ..RunOptions::default() };
    let outcome = run(plan, &options)?;
    Ok(outcome.violations.into_iter().find(|found| found.excuse.is_none()))
}

/// The library with its bugs.
///
/// # Errors
/// When a patch does not fit in exactly one place.
pub fn planted(library: &str, bug: Option<PlantedBug>) -> Result<String, String> {
    let Some(PlantedBug::Lua(patches)) = bug else { return Ok(library.to_owned()) };
    patches.iter().try_fold(library.to_owned(), |text, patch| {
        match text.matches(patch.from).count() {
            1 => Ok(text.replace(patch.from, patch.to)),
            found => Err(format!("the library has {found} matches, not 1, for `{}`", patch.from)),
        }
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use selvedge_core::audit;
    use selvedge_lua::library;

    use super::*;
    use crate::oracle;

    #[test]
    fn every_oracle_has_a_canary_and_every_canary_an_oracle() {
        let planted: BTreeSet<_> = CANARIES.iter().map(|canary| canary.oracle).collect();
        let states = audit::ORACLES.iter().map(|oracle| oracle.name);
        let known: BTreeSet<_> =
            states.chain(oracle::ORACLES.iter().map(|oracle| oracle.name)).collect();
        assert_eq!(planted, known);
        let names: BTreeSet<_> = CANARIES.iter().map(|canary| canary.name).collect();
        assert_eq!(names.len(), CANARIES.len(), "a name stands twice");
        assert!(CANARIES.len() >= 30, "{}", CANARIES.len());
    }

    #[test]
    fn every_patch_applies_and_every_story_parses() {
        for canary in CANARIES {
            if let Err(why) = planted(library::SOURCE, Some(canary.bug)) {
                panic!("{}: {why}", canary.name);
            }
            if let Some(Err(why)) = canary.story.map(str::parse::<Plan>) {
                panic!("{}: {why}", canary.name);
            }
        }
    }
}
