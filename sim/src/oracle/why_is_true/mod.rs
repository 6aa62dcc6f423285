//! `WhyIsTrue`: at random moments an execution is explained as `selvedge why` would, from what its
//! reads return. Then the answer is compared with what happens.
//!
//! Who: when the execution changes its state for the first time after that, the answer must have
//! named whoever did it; a client that cancels or replays, and what follows from that, are outside
//! of what it can know. When: what an engine does by some time is done by then, as long as nothing
//! kept engines from it. The time starts again after a fault that could.

mod asking;
mod deeds;
mod promises;

use std::collections::{BTreeMap, BTreeSet};

use selvedge_core::engine::EngineConfig;
use selvedge_core::explain::{DueBy, Explanation};
use selvedge_core::id::ExecutionId;

use super::call::Call;
use super::{Changes, Checker, Class, Findings, Oracle, RunEnd, View};
use crate::event::{Actor, Event, EventKind};
use crate::plan::Seed;
use crate::search::{Draws, Span};
use crate::world::engines::engine_config;
use promises::Promise;

pub(super) const ORACLE: Oracle = Oracle {
    name: "WhyIsTrue",
    statement: "what `why` says must happen next, by whom and by when, is what happens",
    class: Class::Liveness,
    checker: || Box::<WhyIsTrue>::default(),
};

/// How long until the next question.
const ASK_EVERY: Span = Span { from: 100, to: 1_500 };

#[derive(Default)]
struct WhyIsTrue {
    /// A stream of its own: the questions change nothing else in a run.
    draws: Option<Draws>,
    /// The configuration of the engines.
    engine: Option<EngineConfig>,
    next_ms: u64,
    /// Executions that have not ended.
    open: BTreeSet<ExecutionId>,
    /// Since when engines and workers are up.
    up_since: BTreeMap<Actor, u64>,
    /// When the last engine died.
    engine_died_ms: u64,
    /// By how much the clock of each shard is ahead of virtual time.
    clocks: BTreeMap<usize, i64>,
    /// The last answer about an execution, until that changes its state.
    answers: BTreeMap<ExecutionId, Answer>,
    promises: BTreeSet<Promise>,
}

/// What was said about an execution.
struct Answer {
    at_ms: u64,
    why: Explanation,
    /// Whether a cancel of its flow had reached it, so that nothing else may.
    is_cancelled: bool,
}

impl Checker for WhyIsTrue {
    fn on_event(
        &mut self,
        event: &Event,
        changes: &Changes,
        view: &View<'_>,
        findings: &mut Findings,
    ) {
        self.keep_promises(view, findings);
        #[expect(clippy::wildcard_enum_match_arm, reason = "the others say nothing about who runs")]
        match &event.kind {
            EventKind::Started => drop(self.up_since.insert(event.actor, event.at_ms)),
            EventKind::Died => self.died(event),
            EventKind::CommitsLost { .. } => self.start_again(view),
            EventKind::Applied(applied) => {
                self.note_clock(applied, view);
                for change in &changes.executions {
                    self.judge(event, applied, change, view, findings);
                    match &change.is {
                        Some(is) if !is.is_terminal() => drop(self.open.insert(change.of.clone())),
                        Some(_) | None => drop(self.open.remove(&change.of)),
                    }
                }
            }
            _ => {}
        }
        if event.at_ms >= self.next_ms {
            self.ask_one(view);
        }
    }

    fn on_end(&mut self, _: RunEnd, view: &View<'_>, findings: &mut Findings) {
        self.keep_promises(view, findings);
    }
}

impl WhyIsTrue {
    fn died(&mut self, event: &Event) {
        self.up_since.remove(&event.actor);
        if matches!(event.actor, Actor::Engine(_)) {
            self.engine_died_ms = event.at_ms;
        }
    }

    /// After a loss the store is in an older state: nothing that was said is about that.
    fn start_again(&mut self, view: &View<'_>) {
        self.answers.clear();
        self.promises.clear();
        let all = view.shards.iter().flat_map(|shard| shard.executions());
        let open = all.filter(|one| one.vector().is_ok_and(|vector| !vector.is_terminal()));
        self.open = open.map(|one| one.id.clone()).collect();
    }

    fn note_clock(&mut self, applied: &crate::event::Applied, view: &View<'_>) {
        let about = Call::of(applied).and_then(|call| call.execution());
        if let (false, Some(id)) = (applied.superseded, about) {
            let clock_ms = (applied.server_time_us / 1_000).cast_signed();
            let shard = shard_of(&id, view);
            self.clocks.insert(shard, clock_ms - view.now_ms.cast_signed());
        }
    }

    /// Asks about an execution that has not ended, and keeps the answer.
    fn ask_one(&mut self, view: &View<'_>) {
        let draws = self.draws.get_or_insert_with(|| stream(view.config.seed));
        self.next_ms = view.now_ms + draws.within(ASK_EVERY);
        if self.up_since.is_empty() {
            return;
        }
        let at = draws.index(self.open.len());
        let Some(id) = self.open.iter().nth(at).cloned() else { return };
        let Some(ahead_ms) = self.clocks.get(&shard_of(&id, view)).copied() else { return };
        let engine = self.engine.get_or_insert_with(|| engine_config(view.config)).clone();
        let now_ms = view.now_ms.cast_signed() + ahead_ms;
        let Some(why) = self.explain(&id, now_ms, &engine, view) else { return };
        for wait in why.waits.iter().chain(&why.limits) {
            self.promises.extend(Promise::of(&id, wait, ahead_ms, &engine, view));
        }
        let is_cancelled = asking::is_cancelled(&id, view);
        self.answers.insert(id, Answer { at_ms: view.now_ms, why, is_cancelled });
    }

    /// Judges the promises whose time is over.
    fn keep_promises(&mut self, view: &View<'_>, findings: &mut Findings) {
        while self.promises.first().is_some_and(|promise| promise.until_ms < view.now_ms) {
            let Some(promise) = self.promises.pop_first() else { return };
            let ahead_ms = self.clocks.get(&shard_of(&promise.of, view)).copied().unwrap_or(0);
            if !promise.is_open(view) {
                continue;
            }
            match promise.later(ahead_ms, view) {
                Some(later) => drop(self.promises.insert(later)),
                None => promise.report(view, findings),
            }
        }
    }
}

/// The stream of the questions of a seed.
fn stream(seed: Seed) -> Draws {
    let mut key = [0xa5; 32];
    key[..20].copy_from_slice(seed.bytes());
    Draws::from_key(key)
}

fn shard_of(id: &ExecutionId, view: &View<'_>) -> usize {
    (view.owners)(id.partition().slot()).min(view.shards.len() - 1)
}

/// When something is due, if a time was said.
const fn time_of(by: DueBy) -> Option<i64> {
    match by {
        DueBy::Time(at) | DueBy::Overdue(at) => Some(at.0),
        DueBy::Unknown => None,
    }
}
