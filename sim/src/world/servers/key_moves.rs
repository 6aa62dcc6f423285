//! Slots that move key by key: until all keys have moved, both nodes serve what they have, as the
//! host says.
//!
//! The oracles' copy of such a slot is that of its owner, with the keys of both nodes.

use selvedge_core::partition::slot as slot_of;
use selvedge_lua::host::SlotMove;

use super::Servers;

/// A slot that moves key by key from one shard to another.
#[derive(Clone, Copy, Debug)]
pub struct KeyMove {
    /// The shard that owns the slot until the end.
    pub from: usize,
    /// The shard that receives it.
    pub to: usize,
}

impl Servers {
    /// Where a slot moves key by key, if it does.
    #[must_use]
    pub fn key_move(&self, slot: u16) -> Option<KeyMove> {
        self.key_moves.get(&slot).copied()
    }

    /// The slots that move key by key.
    #[must_use]
    pub fn moving_slots(&self) -> Vec<u16> {
        self.key_moves.keys().copied().collect()
    }

    /// Lets a slot move to another shard.
    pub fn begin_key_move(&mut self, slot: u16, to: usize) {
        let from = self.owner(slot);
        self.key_moves.insert(slot, KeyMove { from, to });
    }

    /// The keys of a moving slot that its owner still has.
    #[must_use]
    pub fn keys_left(&mut self, slot: u16) -> Vec<Vec<u8>> {
        self.switch_to(self.primaries[self.owner(slot)]);
        self.host.snapshot().keys_in_slot(slot)
    }

    /// Moves some keys of a moving slot. Returns those that the new node had already. With `stay`,
    /// a planted bug, the old node keeps them.
    pub fn migrate_keys(&mut self, slot: u16, keys: &[Vec<u8>], stay: bool) -> Vec<Vec<u8>> {
        let Some(KeyMove { from, to }) = self.key_move(slot) else { return Vec::new() };
        // No node is current while keys are moved.
        self.host.swap(&mut self.nodes[self.current].data);
        let (source, target) = (self.primaries[from], self.primaries[to]);
        let mut busy = Vec::new();
        if let Ok([source, target]) = self.nodes.get_disjoint_mut([source, target]) {
            let kept = stay.then(|| source.data.clone());
            busy = source.data.migrate(&mut target.data, keys);
            if let Some(kept) = kept {
                source.data = kept;
            }
        }
        self.host.swap(&mut self.nodes[self.current].data);
        for shard in [from, to] {
            let head = self.heads[shard];
            self.replicas[shard].catch_up(head);
        }
        if let Ok([source, target]) = self.replicas.get_disjoint_mut([from, to]) {
            source.data.migrate(&mut target.data, keys);
        }
        busy
    }

    /// Makes the new node the owner of a slot whose keys have moved.
    pub fn end_key_move(&mut self, slot: u16, now_ms: u64) {
        let Some(KeyMove { from, to }) = self.key_moves.remove(&slot) else { return };
        self.owners[usize::from(slot)] = u8::try_from(to).unwrap_or(0);
        self.refresh_all(from, now_ms);
        self.refresh_all(to, now_ms);
    }

    /// The error of a node for a command that it may not run, because its slot moves.
    pub fn refusal_of_move(
        &mut self,
        node: usize,
        argv: &[Vec<u8>],
        asking: bool,
        now_ms: u64,
    ) -> Option<String> {
        self.switch_to(node);
        let clock_ms = self.clock_ms(node, now_ms);
        self.host.set_now_us(clock_ms * 1000);
        self.announce_moves(node);
        self.host.refusal_of_move(argv, asking)
    }

    /// Tells the host which slots move away from, or to, the node that it stands for.
    pub(super) fn announce_moves(&mut self, node: usize) {
        if self.key_moves.is_empty() && !self.moves_announced {
            return;
        }
        self.moves_announced = !self.key_moves.is_empty();
        self.host.clear_slot_moves();
        for (slot, KeyMove { from, to }) in &self.key_moves {
            if node == self.primaries[*from] {
                let to = address(self.primaries[*to]);
                self.host.set_slot_move(*slot, Some(SlotMove::Migrating { to }));
            } else if node == self.primaries[*to] {
                let from = address(self.primaries[*from]);
                self.host.set_slot_move(*slot, Some(SlotMove::Importing { from }));
            }
        }
    }

    /// Corrects the oracles' copy of a shard that was read from its primary: keys that have left it
    /// in a slot that still moves are its own, and those that have arrived are not yet.
    pub(super) fn follow_key_moves(&mut self, shard: usize) {
        for (slot, KeyMove { from, to }) in self.key_moves.clone() {
            if from != shard && to != shard {
                continue;
            }
            self.switch_to(self.primaries[to]);
            for key in self.host.snapshot().keys_in_slot(slot) {
                let entry = if from == shard { self.host.entry(&key) } else { None };
                self.audited[shard].put(&key, entry);
            }
        }
        self.switch_to(self.primaries[shard]);
    }

    /// The shard in whose copy the oracles find a key that a node of this shard has written.
    pub(super) fn audited_at(&self, key: &[u8], shard: usize) -> usize {
        if self.key_moves.is_empty() {
            return shard;
        }
        self.key_move(slot_of(key)).map_or(shard, |step| step.from)
    }
}

fn address(node: usize) -> String {
    format!("node-{}", node + 1)
}
