//! Stories: short plans written by hand, each about one thing; and sweeps over them, which let an
//! engine die at every boundary of every call that changes something, alone and in pairs.

use std::collections::BTreeMap;

use crate::event::{Actor, CallId, What, function_of};
use crate::failure::Failure;
use crate::fault::Fault;
use crate::plan::{Plan, PlanError, Rule};
use crate::runner::{Outcome, RunOptions, run};

/// A plan written by hand.
#[derive(Clone, Copy, Debug)]
pub struct Story {
    /// Its name.
    pub name: &'static str,
    /// The plan; its first lines say what it is about.
    pub text: &'static str,
}

macro_rules! stories {
    ($( $name:literal ),+ $(,)?) => {
        /// All stories.
        pub const STORIES: &[Story] = &[$(
            Story { name: $name, text: include_str!(concat!("../stories/", $name, ".plan")) },
        )+];
    };
}

stories! {
    "siblings-cancelled",
    "siblings-cancelled-reply-lost",
    "siblings-cancelled-two-engines",
    "siblings-cancelled-replayed-child",
    "replayed-child-while-a-clock-steps-back",
    "sibling-completes-at-once",
    "siblings-beyond-a-batch",
    "siblings-beside-poison",
    "quorum-cannot-be-met",
    "edge-applied-after-the-verdict",
    "lease-lost",
    "chain-with-pushes-lost",
    "flow-cancelled",
    "retry-and-suspend",
}

impl Story {
    /// The story of this name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        STORIES.iter().find(|story| story.name == name)
    }

    /// Its plan.
    ///
    /// # Errors
    /// The line that cannot be read.
    pub fn plan(&self) -> Result<Plan, PlanError> {
        Plan::parse(self.text)
    }

    /// What it is about: its leading comment.
    #[must_use]
    pub fn about(&self) -> String {
        let comment = self.text.lines().take_while(|line| line.starts_with('#'));
        comment.map(|line| line.trim_start_matches('#').trim()).collect::<Vec<_>>().join(" ")
    }
}

/// One place where an engine can die.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boundary(Rule);

/// What a sweep came to.
#[derive(Clone, Debug, Default)]
pub struct Sweep {
    /// Calls of engines that change something.
    pub calls: usize,
    /// Boundaries at which an engine died alone.
    pub singles: usize,
    /// Pairs of boundaries.
    pub pairs: usize,
    /// Plans that failed, with what failed; only the story where it fails by itself.
    pub failures: Vec<(Plan, Failure)>,
}

/// Every boundary of a run: before and after each call of an engine that changed something. A call
/// that changed nothing has no inside to die in: dying beside it is dying beside the next one.
#[must_use]
#[expect(clippy::wildcard_enum_match_arm, reason = "two kinds of events are of interest")]
pub fn boundaries(outcome: &Outcome) -> Vec<Boundary> {
    let mut seen: BTreeMap<(Actor, String), u32> = BTreeMap::new();
    let mut sent: BTreeMap<CallId, (Actor, String, u32)> = BTreeMap::new();
    let mut boundaries = Vec::new();
    for event in outcome.trace.tail() {
        match &event.what {
            What::Sent { call, argv, .. } if matches!(event.actor, Actor::Engine(_)) => {
                let Some(function) = function_of(argv) else { continue };
                let verb = function.trim_start_matches("ff_").to_owned();
                let nth = seen.entry((event.actor, verb.clone())).or_default();
                *nth += 1;
                sent.insert(*call, (event.actor, verb, *nth));
            }
            What::Applied(applied) if !applied.writes.is_empty() => {
                let Some((actor, verb, nth)) = sent.get(&applied.call) else { continue };
                for fault in [Fault::CrashBeforeSend, Fault::CrashAfterApply] {
                    boundaries.push(Boundary(Rule::on(fault, *nth, verb, Some(*actor))));
                }
            }
            _ => {}
        }
    }
    boundaries
}

/// Runs a story once for every boundary, and for every pair of them if it has few calls.
///
/// # Errors
/// When the story cannot be run.
pub fn sweep(
    story: &Plan,
    options: &RunOptions,
    mut progress: impl FnMut(usize, usize),
) -> Result<Sweep, String> {
    let options = RunOptions { keep_events: Some(usize::MAX), ..options.clone() };
    let calm = run(story, &options)?;
    if let Some(failure) = Failure::of(&calm) {
        return Ok(Sweep { failures: vec![(story.clone(), failure)], ..Sweep::default() });
    }
    let boundaries = boundaries(&calm);
    let mut sweep = Sweep { calls: boundaries.len() / 2, ..Sweep::default() };
    let mut plans: Vec<Vec<&Boundary>> = boundaries.iter().map(|one| vec![one]).collect();
    sweep.singles = plans.len();
    if sweep.calls < PAIRS_BELOW {
        for (at, first) in boundaries.iter().enumerate() {
            plans.extend(boundaries[at + 1..].iter().map(|second| vec![first, second]));
        }
        sweep.pairs = plans.len() - sweep.singles;
    }
    let options = RunOptions { keep_events: Some(0), ..options };
    for (done, crashes) in plans.iter().enumerate() {
        progress(done, plans.len());
        let mut plan = story.clone();
        plan.faults.extend(crashes.iter().map(|boundary| boundary.0.clone()));
        let outcome = run(&plan, &options)?;
        if let Some(failure) = Failure::of(&outcome) {
            sweep.failures.push((plan, failure));
        }
    }
    Ok(sweep)
}

/// Stories with fewer calls than this are swept in pairs too.
pub const PAIRS_BELOW: usize = 60;
