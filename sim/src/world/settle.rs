//! The end of the faults: everything is repaired, except for engines and workers that stay broken
//! for the rest of the run. Also: what has not come to rest.

use std::collections::BTreeSet;

use selvedge_core::audit;
use selvedge_core::id::ExecutionId;
use selvedge_core::state::PublicState;

use super::World;
use super::commit_log::Damage;
use super::random_streams::Purpose;
use crate::event::{Actor, EventKind};
use crate::oracle::{Unsettled, Waits, runnable, unsettled, unsignalled};
use crate::profile::Part;
use crate::search::Ratio;

impl World {
    /// Ends all faults. If the plan says so, some engines and workers stay broken.
    pub(crate) fn end_all_faults(&mut self) {
        for node in &mut self.network.servers.nodes {
            (node.outage, node.keys_max) = (None, None);
        }
        for split in std::mem::take(&mut self.injections.splits) {
            self.end_fault(split);
        }
        let moving: Vec<u16> = self.network.servers.moves.keys().copied().collect();
        for slot in moving {
            self.finish_hand_over(slot);
            self.network.servers.moves.remove(&slot);
        }
        self.end_key_moves();
        self.remove_foreign_keys();
        self.network.links.replies_cut_until.clear();
        self.network.links.pushes_silent_until =
            self.network.links.pushes_silent_until.min(self.now_ms);
        self.network.links.clogged_until.clear();
        self.network.links.speed_up(self.now_ms);
        self.injections.end(self.now_ms);
        for number in 1..=u8::try_from(self.engine_processes.len()).unwrap_or(u8::MAX) {
            self.heal_engine(number);
        }
        for number in 1..=u8::try_from(self.clients.workers.len()).unwrap_or(u8::MAX) {
            self.heal_worker(number);
        }
        if self.plan.config.permanent {
            self.break_permanently();
        }
    }

    fn heal_engine(&mut self, number: u8) {
        let now_ms = self.now_ms;
        let Some(engine_process) = self.engine_process(number) else { return };
        engine_process.frozen_until = engine_process.frozen_until.min(now_ms);
        engine_process.unpushed_until = engine_process.unpushed_until.min(now_ms);
        if engine_process.config.filter.namespace.take().is_some() {
            self.kill_engine(number, 10);
        }
        self.start_engine(number);
    }

    /// Breaks some engines and workers permanently: dead, frozen, cut off or gone. The first of
    /// each stays healthy.
    fn break_permanently(&mut self) {
        let engines = u8::try_from(self.plan.config.engines.clamp(1, 7)).unwrap_or(1);
        for number in 2..=engines {
            let actor = Actor::Engine(number);
            let fate = self.random(Purpose::Faults, actor).below(6);
            let words = match fate {
                0 => {
                    if let Some(engine_process) = self.engine_process(number) {
                        engine_process.gone = true;
                    }
                    self.kill_engine(number, 0);
                    "is dead for good"
                }
                1 => {
                    if let Some(engine_process) = self.engine_process(number) {
                        engine_process.frozen_until = u64::MAX;
                    }
                    "is frozen for good"
                }
                2 => {
                    self.network.links.replies_cut_until.insert(actor, u64::MAX);
                    "hears nothing any more"
                }
                _ => continue,
            };
            self.emit(actor, EventKind::Note(words.to_owned()));
        }
        for number in 2..=u8::try_from(self.clients.workers.len()).unwrap_or(1) {
            let actor = Actor::Worker(number);
            if self.random(Purpose::Faults, actor).chance(Ratio { hits: 1, of: 3 }) {
                self.worker(number).gone = true;
                self.emit(actor, EventKind::Note("is gone for good".to_owned()));
                self.emit(actor, EventKind::Died);
            }
        }
    }

    /// Everything that has not come to rest. With `excusing`, executions with damaged records are
    /// left out; they are reported with an excuse at the end. Lost commits are no excuse here:
    /// after a failover engines must go on from the older state.
    pub(crate) fn pending(&mut self, excusing: bool, end_ms: u64) -> Vec<String> {
        let before = self.profiler.enter(Part::StateOracles);
        self.network.servers.advance(self.now_ms);
        let commit_log = &self.network.servers.commit_log;
        let waits = Waits {
            has_workers: self.plan.config.workers > 0,
            left_ms: end_ms.saturating_sub(self.now_ms),
        };
        let mut pending = Vec::new();
        self.straggler = None;
        for shard in &self.network.servers.audited {
            for Unsettled { id, state, excuse } in unsettled(shard, commit_log, waits) {
                if excusing && excuse.is_some() {
                    continue;
                }
                pending.push(format!("{id} is {state}"));
                let straggles = excuse.is_none() && !may_wait(&state);
                self.straggler = Some(id).filter(|_| straggles).or(self.straggler.take());
            }
        }
        if pending.is_empty() {
            // All executions have settled; engines may still have cancels to make.
            let left = self.network.servers.audited.iter().flat_map(audit::judge_rest);
            let left = left.map(|found| found.to_string());
            let excused = |left: &String| {
                excusing && commit_log.damage_excuse(left, Damage::Lasting).is_some()
            };
            pending.extend(left.filter(|left| !excused(left)));
            let busy = self.busy_callers();
            pending.extend(busy.iter().map(|caller| format!("{caller} is not done yet")));
        }
        self.profiler.enter(before);
        pending
    }

    /// Executions that wait for a signal that is never sent, by name where the plan gives one.
    pub(crate) fn unsignalled(&self) -> Vec<String> {
        self.names_of(self.network.servers.audited.iter().flat_map(unsignalled))
    }

    /// Executions that wait for a worker in a plan without workers, by name where the plan gives
    /// one.
    pub(crate) fn unserved(&self) -> Vec<String> {
        let no_workers = self.plan.config.workers == 0;
        let shards = self.network.servers.audited.iter().filter(|_| no_workers);
        self.names_of(shards.flat_map(runnable))
    }

    fn names_of(&self, ids: impl Iterator<Item = ExecutionId>) -> Vec<String> {
        ids.map(|id| self.clients.names.name_of(&id).map_or(id.to_string(), str::to_owned))
            .collect()
    }

    /// Clients that have not finished an action of the plan.
    fn busy_callers(&self) -> BTreeSet<Actor> {
        let busy = self.clients.callers.iter().filter(|(_, caller)| caller.is_busy());
        busy.map(|(actor, _)| *actor).collect()
    }

    /// Whether the execution that the last check found unsettled still is. While it is, there is no
    /// need to check the others.
    pub(crate) fn has_straggler(&self) -> bool {
        self.straggler.as_ref().is_some_and(|id| {
            let shard =
                &self.network.servers.audited[self.network.servers.owner(id.partition().slot())];
            shard.execution(id).is_some_and(|execution| {
                execution.vector().is_ok_and(|vector| !vector.is_terminal())
                    && execution.core.text("unsealed").is_empty()
                    && !may_wait(execution.core.text("public_state"))
            })
        })
    }
}

/// Whether an execution in this state may have to wait forever.
fn may_wait(public_state: &str) -> bool {
    let waits = [PublicState::Suspended, PublicState::WaitingChildren];
    waits.iter().any(|state| state.as_str() == public_state)
}
