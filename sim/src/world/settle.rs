//! The end of the faults: a healthy set is drawn, everything inside it is well again for good, and
//! whatever is outside stays broken.

use std::collections::BTreeSet;

use selvedge_core::audit;
use selvedge_core::id::ExecutionId;
use selvedge_core::state::PublicState;

use super::ledger::Damage;
use super::stream::{Purpose, Ratio};
use super::transport::Parcel;
use super::{Happening, World};
use crate::actor::Errand;
use crate::event::{Actor, What};
use crate::meter::Part;
use crate::oracle::{Unsettled, Waits, runnable, unsettled, unsignalled};

impl World {
    /// Ends all faults, and lets some of those outside the healthy set stay broken.
    pub(crate) fn settle_down(&mut self) {
        for node in &mut self.servers.nodes {
            (node.trouble, node.keys_max) = (None, None);
        }
        for split in std::mem::take(&mut self.splits) {
            self.end(split);
        }
        let moving: Vec<u16> = self.servers.moves.keys().copied().collect();
        for slot in moving {
            self.finish_hand_over(slot);
            self.servers.moves.remove(&slot);
        }
        self.strangers_leave();
        self.links.deaf_until.clear();
        self.links.clogged_until.clear();
        self.links.slow.clear();
        self.disturbed_until_ms = self.now_ms;
        for number in 1..=u8::try_from(self.seats.len()).unwrap_or(u8::MAX) {
            self.heal_engine(number);
        }
        if self.plan.config.permanent {
            self.break_for_good();
        }
    }

    fn heal_engine(&mut self, number: u8) {
        let now_ms = self.now_ms;
        let Some(seat) = self.seat(number) else { return };
        seat.frozen_until = seat.frozen_until.min(now_ms);
        seat.unpushed_until = seat.unpushed_until.min(now_ms);
        if seat.config.filter.namespace.take().is_some() {
            self.kill_engine(number, 10);
        }
        self.start_engine(number);
    }

    /// Damage that never heals: engines that are dead, frozen or deaf, workers that are gone. The
    /// first of each stays well.
    fn break_for_good(&mut self) {
        let engines = u8::try_from(self.plan.config.engines.clamp(1, 7)).unwrap_or(1);
        for number in 2..=engines {
            let actor = Actor::Engine(number);
            let fate = self.chance(Purpose::Faults, actor).below(6);
            let words = match fate {
                0 => {
                    if let Some(seat) = self.seat(number) {
                        seat.gone = true;
                    }
                    self.kill_engine(number, 0);
                    "is dead for good"
                }
                1 => {
                    if let Some(seat) = self.seat(number) {
                        seat.frozen_until = u64::MAX;
                    }
                    "is frozen for good"
                }
                2 => {
                    self.links.deaf_until.insert(actor, u64::MAX);
                    "hears nothing any more"
                }
                _ => continue,
            };
            self.emit(actor, What::Note(words.to_owned()));
        }
        for number in 2..=u8::try_from(self.workers.len()).unwrap_or(1) {
            let actor = Actor::Worker(number);
            if self.chance(Purpose::Faults, actor).chance(Ratio { hits: 1, of: 3 }) {
                self.worker(number).gone = true;
                self.emit(actor, What::Note("is gone for good".to_owned()));
            }
        }
    }

    /// Everything that has not come to rest, by name; with `excusing`, but for what damaged records
    /// explain: that is told with its excuse in the end. A loss explains nothing here, for what a
    /// failover leaves is a state that has been before, and engines go on from any of those.
    pub(crate) fn pending(&mut self, excusing: bool, end_ms: u64) -> Vec<String> {
        let before = self.meter.turn_to(Part::StateOracles);
        self.servers.advance(self.now_ms);
        let ledger = &self.servers.ledger;
        let waits = Waits {
            somebody_works: self.plan.config.workers > 0,
            left_ms: end_ms.saturating_sub(self.now_ms),
        };
        let mut pending = Vec::new();
        self.straggler = None;
        for shard in &self.servers.audited {
            for Unsettled { id, state, excuse } in unsettled(shard, ledger, waits) {
                if excusing && excuse.is_some() {
                    continue;
                }
                pending.push(format!("{id} is {state}"));
                let straggles = excuse.is_none() && !may_wait(&state);
                self.straggler = Some(id).filter(|_| straggles).or(self.straggler.take());
            }
        }
        if pending.is_empty() {
            // All executions have settled; what engines owe may still be on its way.
            let owed = self.servers.audited.iter().flat_map(audit::judge_rest);
            let owed = owed.map(|found| found.to_string());
            let excused =
                |owed: &String| excusing && ledger.damage_excuse(owed, Damage::Lasting).is_some();
            pending.extend(owed.filter(|owed| !excused(owed)));
            let busy = self.busy_callers();
            pending.extend(busy.iter().map(|caller| format!("{caller} is not done yet")));
        }
        self.meter.turn_to(before);
        pending
    }

    /// Who waits for a signal that nobody sends, by name where the plan gave one.
    pub(crate) fn unsignalled(&self) -> Vec<String> {
        self.names_of(self.servers.audited.iter().flat_map(unsignalled))
    }

    /// Who waits for a worker where the plan has none, likewise.
    pub(crate) fn unserved(&self) -> Vec<String> {
        let nobody_works = self.plan.config.workers == 0;
        let shards = self.servers.audited.iter().filter(|_| nobody_works);
        self.names_of(shards.flat_map(runnable))
    }

    fn names_of(&self, ids: impl Iterator<Item = ExecutionId>) -> Vec<String> {
        ids.map(|id| self.names.name_of(&id).map_or(id.to_string(), str::to_owned)).collect()
    }

    /// Who is in the middle of something that the plan told them to do.
    fn busy_callers(&self) -> BTreeSet<Actor> {
        let waiting = self.parcels.values().filter_map(Parcel::awaited_by);
        let pausing = self.heap.items().filter_map(|happening| {
            let Happening::Tick { actor, errand: Errand::Caller(_), .. } = happening else {
                return None;
            };
            Some(*actor)
        });
        waiting.chain(pausing).collect()
    }

    /// Whether somebody whom the last look found on the way still is: as long as that is so, nobody
    /// else needs to be looked at.
    pub(crate) fn has_straggler(&self) -> bool {
        self.straggler.as_ref().is_some_and(|id| {
            let shard = &self.servers.audited[self.servers.owner(id.partition().slot())];
            shard.execution(id).is_some_and(|execution| {
                execution.vector().is_ok_and(|vector| !vector.is_terminal())
                    && execution.core.text("unsealed").is_empty()
                    && !may_wait(execution.core.text("public_state"))
            })
        })
    }
}

/// Whether who is in this state may wait for somebody who never comes.
fn may_wait(public_state: &str) -> bool {
    let waits = [PublicState::Suspended, PublicState::WaitingChildren];
    waits.iter().any(|state| state.as_str() == public_state)
}
