//! Stories: short plans written by hand, each about one situation. A sweep repeats a story with a
//! crash of an engine or a caller before and after every call of it that changes something, alone
//! and in pairs. In a story about workers, these die too: at such calls, and before every effect.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::{Actor, CallId, EventKind, function_of};
use crate::failure::Failure;
use crate::fault::Fault;
use crate::plan::{FaultRule, Plan, PlanError};
use crate::runner::{Outcome, RunOptions, run};

/// A plan written by hand.
#[derive(Clone, Copy, Debug)]
pub struct Story {
    /// Its name.
    pub name: &'static str,
    /// The plan; its leading comment says what it is about.
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
    "edge-applied-after-the-skip",
    "lease-lost",
    "chain-with-pushes-lost",
    "flow-cancelled",
    "retry-and-suspend",
    "submitted-in-chunks",
    "waiters",
    "worker-claims-renews-reports",
    "worker-suspends-and-resumes",
    "worker-admitted-and-refused",
    "worker-drained",
    "worker-paused-with-handlers",
    "one-node-of-three-paused",
}

impl Story {
    /// The story of this name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        STORIES.iter().find(|story| story.name == name)
    }

    /// Whether it is about workers, so that a sweep kills them too.
    #[must_use]
    pub fn is_about_workers(&self) -> bool {
        self.name.starts_with("worker-")
    }

    /// Its plan.
    ///
    /// # Errors
    /// The line that cannot be read.
    pub fn plan(&self) -> Result<Plan, PlanError> {
        Plan::parse(self.text)
    }

    /// The leading comment of the plan.
    #[must_use]
    pub fn about(&self) -> String {
        let comment = self.text.lines().take_while(|line| line.starts_with('#'));
        comment.map(|line| line.trim_start_matches('#').trim()).collect::<Vec<_>>().join(" ")
    }
}

/// A point at which an engine, a caller or a worker can crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boundary {
    crash: FaultRule,
    /// The event at which it would crash.
    ordinal: u64,
}

/// The result of a sweep.
#[derive(Clone, Debug, Default)]
pub struct Sweep {
    /// Calls that change something, of engines, callers and, in stories about them, workers.
    pub calls: usize,
    /// Runs with one crash.
    pub singles: usize,
    /// Runs with two crashes.
    pub pairs: usize,
    /// Plans that failed. If the story fails without a crash, only the story itself.
    pub failures: Vec<(Plan, Failure)>,
}

/// Every point before and after a call of an engine or caller, and with `workers` of a worker, that
/// changed something. A crash next to a call that changed nothing is the same as a crash next to
/// the following call.
#[must_use]
#[expect(clippy::wildcard_enum_match_arm, reason = "only two kinds of events matter")]
pub fn boundaries(outcome: &Outcome, workers: bool) -> Vec<Boundary> {
    let mut seen: BTreeMap<(Actor, String), u32> = BTreeMap::new();
    let mut sent: BTreeMap<CallId, (u64, Actor, String, u32)> = BTreeMap::new();
    let mut boundaries = Vec::new();
    for event in outcome.trace.tail() {
        match &event.kind {
            EventKind::Sent { call, argv, .. }
                if matches!(event.actor, Actor::Engine(_) | Actor::Caller(_))
                    || (workers && matches!(event.actor, Actor::Worker(_))) =>
            {
                let Some(function) = function_of(argv) else { continue };
                let verb = function.trim_start_matches("ff_").to_owned();
                let nth = seen.entry((event.actor, verb.clone())).or_default();
                *nth += 1;
                sent.insert(*call, (event.ordinal, event.actor, verb, *nth));
            }
            EventKind::Applied(applied) if !applied.writes.is_empty() => {
                let Some((sent_at, actor, verb, nth)) = sent.get(&applied.call) else { continue };
                for (fault, ordinal) in
                    [(Fault::CrashBeforeSend, *sent_at), (Fault::CrashAfterApply, event.ordinal)]
                {
                    let crash = FaultRule::on(fault, *nth, verb, Some(*actor));
                    boundaries.push(Boundary { crash, ordinal });
                }
            }
            _ => {}
        }
    }
    boundaries
}

/// The death of a worker before each of its effects: sends, starts, cancels and answers.
fn deaths_at_effects(outcome: &Outcome) -> Vec<Boundary> {
    let mut effects: BTreeMap<Actor, i64> = BTreeMap::new();
    for event in outcome.trace.tail().filter(|event| matches!(event.actor, Actor::Worker(_))) {
        if matches!(event.kind, EventKind::Sent { .. } | EventKind::Handler { .. }) {
            *effects.entry(event.actor).or_default() += 1;
        }
    }
    let mut boundaries = Vec::new();
    for (worker, effects) in effects {
        for amount in 1..=effects.min(EFFECTS_MAX) {
            let (to, amount) = (Some(worker), Some(amount));
            let crash = FaultRule { to, amount, ..FaultRule::at(Fault::WorkerDies, 0) };
            // Where it dies is known when it has died.
            boundaries.push(Boundary { crash, ordinal: 0 });
        }
    }
    boundaries
}

/// Runs a story once for every boundary, and for every pair of boundaries if it has few calls. The
/// second boundary of a pair is taken from the run with the first crash, so it may be in a call
/// that is only made for recovery.
///
/// # Errors
/// When the story cannot be run.
pub fn sweep(
    story: &Plan,
    workers: bool,
    options: &RunOptions,
    mut progress: impl FnMut(usize, usize),
) -> Result<Sweep, String> {
    let whole = RunOptions { keep_events: Some(usize::MAX), ..options.clone() };
    let brief = RunOptions { keep_events: Some(0), ..options.clone() };
    let calm = run(story, &whole)?;
    if let Some(failure) = Failure::of(&calm) {
        return Ok(Sweep { failures: vec![(story.clone(), failure)], ..Sweep::default() });
    }
    let (mut firsts, deaths) = (boundaries(&calm, workers), deaths(&calm));
    let calls = firsts.len() / 2;
    if workers {
        firsts.extend(deaths_at_effects(&calm));
    }
    let mut sweep = Sweep { calls, singles: firsts.len(), ..Sweep::default() };
    let in_pairs = sweep.calls < PAIRS_BELOW;
    let mut pairs = Vec::new();
    for (done, first) in firsts.iter().enumerate() {
        progress(done, firsts.len());
        let plan = with(story, &[first]);
        let outcome = run(&plan, if in_pairs { &whole } else { &brief })?;
        if let Some(failure) = Failure::of(&outcome) {
            sweep.failures.push((plan, failure));
        } else if in_pairs && first.ordinal > 0 {
            // Up to the crash, the run is the same as the one without crashes.
            let death = self::deaths(&outcome).into_iter().find(|death| !deaths.contains(death));
            let Some((death, _)) = death else { continue };
            let seconds = boundaries(&outcome, workers).into_iter();
            let later = seconds.filter(|second| second.ordinal > death);
            pairs.extend(later.map(|second| (first, second)));
        }
    }
    for (done, (first, second)) in pairs.iter().enumerate() {
        progress(firsts.len() + done, firsts.len() + pairs.len());
        let plan = with(story, &[first, second]);
        let outcome = run(&plan, &brief)?;
        if outcome.unused_faults.iter().all(|at| *at < story.faults.len()) {
            sweep.pairs += 1;
        }
        if let Some(failure) = Failure::of(&outcome) {
            sweep.failures.push((plan, failure));
        }
    }
    Ok(sweep)
}

/// A story with crashes at these boundaries.
fn with(story: &Plan, crashes: &[&Boundary]) -> Plan {
    let mut plan = story.clone();
    plan.faults.extend(crashes.iter().map(|boundary| boundary.crash.clone()));
    plan
}

/// When an actor died, and which.
fn deaths(outcome: &Outcome) -> BTreeSet<(u64, Actor)> {
    let died = outcome.trace.tail().filter(|event| matches!(event.kind, EventKind::Died));
    died.map(|event| (event.ordinal, event.actor)).collect()
}

/// A worker dies before each of so many effects.
const EFFECTS_MAX: i64 = 80;

/// Stories with fewer calls than this are also swept in pairs.
pub const PAIRS_BELOW: usize = 60;
