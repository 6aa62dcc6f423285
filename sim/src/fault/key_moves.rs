//! Slots that move key by key, in steps, with calls in between.

use super::Fault;
use super::timed::FaultEnd;
use crate::canary::{PlantedBug, WorldBug};
use crate::event::{Actor, EventKind};
use crate::world::random_streams::Purpose;
use crate::world::{Scheduled, World};

/// In so many steps the keys of a slot move.
const STEPS: u64 = 6;

impl World {
    /// Starts to move a slot to the next shard, key by key, within this time.
    pub(super) fn begin_key_move(&mut self, slot: u16, duration_ms: u64) {
        let servers = &self.network.servers;
        let from = servers.owner(slot);
        let to = (from + 1) % servers.shards();
        let moves = servers.moves.contains_key(&slot) || servers.key_move(slot).is_some();
        // While a shard has two primaries, it is unclear which of them would give the slot away.
        if moves || from == to || !self.injections.splits.is_empty() {
            return;
        }
        let detail = format!("slot {slot} from shard {from} to {to}");
        self.record_fault(Fault::SlotMovesByKeys, detail);
        self.network.servers.begin_key_move(slot, to);
        for step in 1..=STEPS {
            let at_ms = self.now_ms + duration_ms * step / (STEPS + 1);
            let left = STEPS - step;
            self.schedule(at_ms, Scheduled::FaultEnd(FaultEnd::MigrateKeys(slot, left)));
        }
        let end = self.now_ms + duration_ms;
        self.schedule(end, Scheduled::FaultEnd(FaultEnd::KeyMove(slot)));
    }

    /// Moves some of the keys that are left; all of them in the last step.
    pub(super) fn migrate_keys(&mut self, slot: u16, steps_left: u64) {
        if self.network.servers.key_move(slot).is_none() {
            return;
        }
        let mut left = self.network.servers.keys_left(slot);
        let share = left.len() as u64 / (steps_left + 1);
        let count = if steps_left == 0 { left.len() as u64 } else { share.max(1) };
        let mut keys = Vec::new();
        while !left.is_empty() && (keys.len() as u64) < count {
            let at = self.random(Purpose::Faults, Actor::World).index(left.len());
            keys.push(left.swap_remove(at));
        }
        let stay = self.bug == Some(PlantedBug::World(WorldBug::MovedKeysStay));
        for key in self.network.servers.migrate_keys(slot, &keys, stay) {
            let key = key.escape_ascii().to_string();
            self.emit(Actor::World, EventKind::KeyOnTwoNodes(key));
        }
    }

    /// Moves the keys that are left, and makes the new node the owner.
    pub(crate) fn end_key_move(&mut self, slot: u16) {
        self.migrate_keys(slot, 0);
        self.network.servers.end_key_move(slot, self.now_ms);
    }

    /// Ends all such moves: at the end of the faults, and before a shard gets another primary.
    pub(crate) fn end_key_moves(&mut self) {
        for slot in self.network.servers.moving_slots() {
            self.end_key_move(slot);
        }
    }
}
