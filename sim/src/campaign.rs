//! Many seeds: what failed, what was injected, what was reached, and what was excused.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::failure::Failure;
use crate::fault::{Fault, FaultCounts};
use crate::mark::Marks;
use crate::plan::{Plan, Seed, lite_plan_from_seed, plan_from_seed};
use crate::runner::{Outcome, RunOptions, Verdict, run};

/// Which worlds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Any world that a seed deals.
    Swarm,
    /// Small worlds in which only engines die: quick, while editing.
    Lite,
}

impl Mode {
    /// What a command line must say besides the seed to mean the same world.
    #[must_use]
    pub const fn flag(self) -> &'static str {
        match self {
            Self::Swarm => "",
            Self::Lite => " --lite",
        }
    }

    /// The command that runs the world of a seed again.
    #[must_use]
    pub fn replay(self, seed: Seed) -> String {
        format!("cargo sim replay {seed}{}", self.flag())
    }

    /// The plan of a seed.
    #[must_use]
    pub fn plan(self, seed: Seed) -> Plan {
        match self {
            Self::Swarm => plan_from_seed(seed),
            Self::Lite => lite_plan_from_seed(seed),
        }
    }
}

/// What many seeds came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Campaign {
    /// How many seeds were run.
    pub seeds: u64,
    /// Seeds that failed.
    pub failed: BTreeMap<Seed, Failure>,
    /// Seeds in which something was excused: what, and by what proof.
    pub excused: BTreeMap<Seed, String>,
    /// Seeds whose plan could not be run, and why.
    pub broken: BTreeMap<Seed, String>,
    /// Seeds that panicked, and with which words.
    pub panicked: BTreeMap<Seed, String>,
    /// Seeds of which two runs differed.
    pub nondeterministic: BTreeSet<Seed>,
    /// Faults injected, by kind.
    pub faults: FaultCounts,
    /// Marks hit.
    pub marks: Marks,
    /// Store calls.
    pub calls: u64,
    /// Virtual milliseconds.
    pub elapsed_ms: u64,
}

impl Campaign {
    /// Kinds of faults that were never injected.
    #[must_use]
    pub fn missing_faults(&self) -> Vec<Fault> {
        let never = |fault: &&Fault| self.faults.get(fault).copied().unwrap_or(0) == 0;
        Fault::ALL.iter().filter(never).copied().collect()
    }

    /// Whether more was excused than tests anything: two in a hundred.
    #[must_use]
    pub fn excuses_too_much(&self) -> bool {
        self.excused.len() as u64 * 50 > self.seeds
    }

    fn add(&mut self, seed: Seed, ran: Result<Ran, String>) {
        self.seeds += 1;
        let (outcome, again) = match ran {
            Ok((Ok(outcome), again)) => (outcome, again),
            Ok((Err(why), _)) => return drop(self.broken.insert(seed, why)),
            Err(words) => return drop(self.panicked.insert(seed, words)),
        };
        if again == Some(false) {
            self.nondeterministic.insert(seed);
        }
        if outcome.verdict == Verdict::Excused {
            let excuses = outcome.violations.iter().filter_map(|found| {
                let (oracle, subject) = (found.oracle, &found.subject);
                found.excuse.as_ref().map(|excuse| format!("{oracle} {subject}: {excuse}"))
            });
            self.excused.insert(seed, excuses.take(1).collect());
        }
        if let Some(failure) = Failure::of(&outcome) {
            self.failed.insert(seed, failure);
        }
        for (fault, count) in &outcome.counters.faults {
            *self.faults.entry(*fault).or_default() += count;
        }
        for (mark, count) in outcome.marks {
            *self.marks.entry(mark).or_default() += count;
        }
        self.calls += outcome.counters.calls;
        self.elapsed_ms += outcome.elapsed_ms;
    }
}

/// Runs seeds on `jobs` threads; one in sixteen twice. `progress` is told after every seed.
#[must_use]
pub fn campaign(
    mode: Mode,
    first: Seed,
    seeds: u64,
    jobs: usize,
    options: &RunOptions,
    progress: impl Fn(&Campaign) + Sync,
) -> Campaign {
    let next = AtomicU64::new(0);
    let campaign = Mutex::new(Campaign::default());
    thread::scope(|scope| {
        for _ in 0..threads(jobs, seeds) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= seeds {
                        return;
                    }
                    let seed = first.plus(at);
                    let ran = caught(|| {
                        let plan = mode.plan(seed);
                        let outcome = run(&plan, options);
                        let again = at.is_multiple_of(DOUBLED_ONE_IN).then(|| {
                            let other = run(&plan, options);
                            matches!((&outcome, &other), (Ok(one), Ok(two)) if is_same(one, two))
                        });
                        (outcome, again)
                    });
                    let mut campaign = campaign.lock().unwrap_or_else(PoisonError::into_inner);
                    campaign.add(seed, ran);
                    progress(&campaign);
                }
            });
        }
    });
    campaign.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// How many threads are worth it: one that gets no seed only costs.
fn threads(jobs: usize, seeds: u64) -> usize {
    jobs.min(usize::try_from(seeds).unwrap_or(usize::MAX)).clamp(1, THREADS_MAX)
}

/// What a seed came to, and whether a second run was the same.
type Ran = (Result<Outcome, String>, Option<bool>);

/// What somebody comes to, or the words with which he panics: one seed must not take the others
/// along.
fn caught<T>(what: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(what)).map_err(|payload: Box<dyn Any + Send>| {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
        text.unwrap_or("without words").to_owned()
    })
}

/// Whether two runs are the same in every event, every draw and the keyspace they left.
#[must_use]
pub fn is_same(one: &Outcome, two: &Outcome) -> bool {
    (one.trace.hash(), one.digest, &one.draws) == (two.trace.hash(), two.digest, &two.draws)
}

/// More threads than any machine has cores.
const THREADS_MAX: usize = 1_024;
/// One seed in so many is run twice.
const DOUBLED_ONE_IN: u64 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_kept_with_its_seed_and_its_words() {
        let mut campaign = Campaign::default();
        campaign.add(7.into(), caught(|| panic!("at {}", 3)));
        campaign.add(9.into(), caught(|| panic!("just so")));
        let panicked = [(7, "at 3"), (9, "just so")];
        let panicked = panicked.map(|(seed, words)| (Seed::from(seed), words.to_owned()));
        assert_eq!((campaign.seeds, campaign.panicked), (2, BTreeMap::from(panicked)));
    }

    #[test]
    fn no_more_threads_are_started_than_have_something_to_do() {
        assert_eq!(threads(99_999_999, 3), 3);
        assert_eq!(threads(99_999_999, 1_000_000), THREADS_MAX);
        assert_eq!((threads(0, 5), threads(4, 0)), (1, 1));
    }

    #[test]
    fn a_replay_is_of_the_same_kind_of_world() {
        assert_eq!(Mode::Lite.replay(Seed::from(7)), "cargo sim replay 7 --lite");
        assert_eq!(Mode::Swarm.replay(Seed::from(7)), "cargo sim replay 7");
    }
}
