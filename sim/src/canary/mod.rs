//! Planted bugs: what an oracle must find, or it is decoration.
//!
//! A [`Canary`] is data: where the bug is planted, and the one oracle that is meant to find it. It
//! can be planted in the text of the library, in what an engine is told or wants, or in the
//! simulated world; nothing of it exists in the crates that production runs.

mod catalogue;
mod sabotage;

pub use catalogue::CANARIES;
pub(crate) use sabotage::{deafen, spoil};

use crate::oracle::Violation;
use crate::plan::{Plan, Seed, plan_from_seed};
use crate::runner::{RunOptions, run};

/// A bug, and who must find it.
#[derive(Clone, Copy, Debug)]
pub struct Canary {
    /// Its name.
    pub name: &'static str,
    /// The oracle that must find it.
    pub oracle: &'static str,
    /// Where it is.
    pub plant: Plant,
    /// A plan in which it does harm; a swarm of seeds unless given.
    pub story: Option<&'static str>,
}

/// A bug to plant into a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// In the text of the library.
    Lua(&'static [Patch]),
    /// In what an engine is told or wants.
    Engine(EngineBug),
    /// In the world itself.
    World(WorldBug),
}

/// One place in the text of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patch {
    /// What stands there, in one place only.
    pub from: &'static str,
    /// What is put in its place.
    pub to: &'static str,
}

/// A bug in what an engine is told or wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineBug {
    /// An engine never gets this call through, and hears nothing.
    NeverCalls(&'static str),
    /// Silence is taken for the answer that was hoped for.
    SilenceIsConsent,
}

/// A bug in the world itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorldBug {
    /// A failover forgets to say what it lost.
    LossNotNamed,
    /// No worker ever asks for the work of the last partition.
    PartitionForgotten,
    /// An engine sends nothing to anybody before its last batch was answered.
    OneBatchAtATime,
}

/// A canary that was caught.
#[derive(Clone, Debug)]
pub struct Caught {
    /// By which seed; none for its story.
    pub seed: Option<Seed>,
    /// How many plans it took.
    pub tries: u64,
    /// The plan.
    pub plan: Plan,
    /// What the oracle said.
    pub violation: Violation,
}

/// Looks for a plan in which the canary's own oracle finds it: its story, or up to `seeds` seeds.
///
/// # Errors
/// When a run is impossible, or nothing was found.
pub fn hunt(canary: &Canary, seeds: u64) -> Result<Caught, String> {
    if let Some(story) = canary.story {
        let plan: Plan = story.parse().map_err(|error| format!("{}: {error}", canary.name))?;
        return match caught(canary, &plan)? {
            Some(violation) => Ok(Caught { seed: None, tries: 1, plan, violation }),
            None => Err(format!("{} did not notice {} in its story", canary.oracle, canary.name)),
        };
    }
    for number in 0..seeds {
        let seed = Seed::from(number);
        let plan = plan_from_seed(seed);
        if let Some(violation) = caught(canary, &plan)? {
            return Ok(Caught { seed: Some(seed), tries: number + 1, plan, violation });
        }
    }
    Err(format!("{} did not notice {} in {seeds} seeds", canary.oracle, canary.name))
}

/// Whether the canary's oracle speaks up in a plan; the others are not heard.
///
/// # Errors
/// When the run is impossible.
pub fn caught(canary: &Canary, plan: &Plan) -> Result<Option<Violation>, String> {
    let options = RunOptions {
        plant: Some(canary.plant),
        only: Some(canary.oracle),
        ..RunOptions::default()
    };
    let outcome = run(plan, &options)?;
    Ok(outcome.violations.into_iter().find(|found| found.excuse.is_none()))
}

/// The library with its bugs.
///
/// # Errors
/// When a patch does not fit in exactly one place.
pub fn planted(library: &str, plant: Option<Plant>) -> Result<String, String> {
    let Some(Plant::Lua(patches)) = plant else { return Ok(library.to_owned()) };
    patches.iter().try_fold(library.to_owned(), |text, patch| {
        match text.matches(patch.from).count() {
            1 => Ok(text.replace(patch.from, patch.to)),
            found => Err(format!("the library has {found} places like `{}`", patch.from)),
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
    fn every_patch_fits_and_every_story_can_be_read() {
        for canary in CANARIES {
            if let Err(why) = planted(library::SOURCE, Some(canary.plant)) {
                panic!("{}: {why}", canary.name);
            }
            if let Some(Err(why)) = canary.story.map(str::parse::<Plan>) {
                panic!("{}: {why}", canary.name);
            }
        }
    }
}
