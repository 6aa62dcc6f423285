//! Stories: short plans written by hand, each about one thing; and sweeps over them, which let an
//! engine die at every boundary of every call that changes something, alone and in pairs.

use std::collections::{BTreeMap, BTreeSet};

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
pub struct Boundary {
    crash: Rule,
    /// The event at which it would.
    ordinal: u64,
}

/// What a sweep came to.
#[derive(Clone, Debug, Default)]
pub struct Sweep {
    /// Calls of engines that change something.
    pub calls: usize,
    /// Boundaries at which an engine died alone.
    pub singles: usize,
    /// Pairs of boundaries at both of which an engine died.
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
    let mut sent: BTreeMap<CallId, (u64, Actor, String, u32)> = BTreeMap::new();
    let mut boundaries = Vec::new();
    for event in outcome.trace.tail() {
        match &event.what {
            What::Sent { call, argv, .. } if matches!(event.actor, Actor::Engine(_)) => {
                let Some(function) = function_of(argv) else { continue };
                let verb = function.trim_start_matches("ff_").to_owned();
                let nth = seen.entry((event.actor, verb.clone())).or_default();
                *nth += 1;
                sent.insert(*call, (event.ordinal, event.actor, verb, *nth));
            }
            What::Applied(applied) if !applied.writes.is_empty() => {
                let Some((sent_at, actor, verb, nth)) = sent.get(&applied.call) else { continue };
                for (fault, ordinal) in
                    [(Fault::CrashBeforeSend, *sent_at), (Fault::CrashAfterApply, event.ordinal)]
                {
                    let crash = Rule::on(fault, *nth, verb, Some(*actor));
                    boundaries.push(Boundary { crash, ordinal });
                }
            }
            _ => {}
        }
    }
    boundaries
}

/// Runs a story once for every boundary, and for every pair of them if it has few calls. The second
/// of a pair is a boundary of the run in which an engine died at the first, so that calls are among
/// them that nobody makes unless there is something to recover from.
///
/// # Errors
/// When the story cannot be run.
pub fn sweep(
    story: &Plan,
    options: &RunOptions,
    mut progress: impl FnMut(usize, usize),
) -> Result<Sweep, String> {
    let whole = RunOptions { keep_events: Some(usize::MAX), ..options.clone() };
    let brief = RunOptions { keep_events: Some(0), ..options.clone() };
    let calm = run(story, &whole)?;
    if let Some(failure) = Failure::of(&calm) {
        return Ok(Sweep { failures: vec![(story.clone(), failure)], ..Sweep::default() });
    }
    let (firsts, deaths) = (boundaries(&calm), deaths(&calm));
    let mut sweep = Sweep { calls: firsts.len() / 2, singles: firsts.len(), ..Sweep::default() };
    let in_pairs = sweep.calls < PAIRS_BELOW;
    let mut pairs = Vec::new();
    for (done, first) in firsts.iter().enumerate() {
        progress(done, firsts.len());
        let plan = with(story, &[first]);
        let outcome = run(&plan, if in_pairs { &whole } else { &brief })?;
        if let Some(failure) = Failure::of(&outcome) {
            sweep.failures.push((plan, failure));
        } else if in_pairs {
            // Until then, the run was the calm one.
            let death = self::deaths(&outcome).into_iter().find(|death| !deaths.contains(death));
            let Some((death, _)) = death else { continue };
            let later = boundaries(&outcome).into_iter().filter(|second| second.ordinal > death);
            pairs.extend(later.map(|second| (first, second)));
        }
    }
    for (done, (first, second)) in pairs.iter().enumerate() {
        progress(firsts.len() + done, firsts.len() + pairs.len());
        let plan = with(story, &[first, second]);
        let outcome = run(&plan, &brief)?;
        if outcome.unstruck.iter().all(|at| *at < story.faults.len()) {
            sweep.pairs += 1;
        }
        if let Some(failure) = Failure::of(&outcome) {
            sweep.failures.push((plan, failure));
        }
    }
    Ok(sweep)
}

/// A story in which an engine dies at these boundaries too.
fn with(story: &Plan, crashes: &[&Boundary]) -> Plan {
    let mut plan = story.clone();
    plan.faults.extend(crashes.iter().map(|boundary| boundary.crash.clone()));
    plan
}

/// When somebody died, and who.
fn deaths(outcome: &Outcome) -> BTreeSet<(u64, Actor)> {
    let died = outcome.trace.tail().filter(|event| matches!(event.what, What::Died));
    died.map(|event| (event.ordinal, event.actor)).collect()
}

/// Stories with fewer calls than this are swept in pairs too.
pub const PAIRS_BELOW: usize = 60;
