//! Slots that move key by key between two nodes of a cluster, as `CLUSTER SETSLOT` and `MIGRATE`
//! move them: what each node answers meanwhile.
//!
//! The node that gives a slot away serves calls whose keys it all has, sends a client to the other
//! node when it has none of them (`ASK`), and refuses it when it has some (`TRYAGAIN`). The node
//! that receives the slot serves only clients that say `ASKING`, and refuses those with several
//! keys of which one is missing. That is judged by the keys that a command declares. Inside a
//! script every command is judged again, by its own keys, and fails where a client would be sent
//! elsewhere or refused. So with one key per command, a script on the receiving node takes what has
//! not arrived yet for missing.

use std::collections::BTreeMap;

use selvedge_core::value::Value;

use super::dispatch::keys_of;
use super::keyspace::Keyspace;
use super::{Host, Snapshot};

/// What a node does with a slot that moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlotMove {
    /// It owns the slot, and gives its keys to the node at this address.
    Migrating {
        /// Where clients are sent for keys that are not here.
        to: String,
    },
    /// It receives the keys of a slot that the node at this address owns.
    Importing {
        /// Where clients are sent that do not say `ASKING`.
        from: String,
    },
}

/// The slots of a node that move.
#[derive(Clone, Debug, Default)]
pub(crate) struct SlotMoves {
    by_slot: BTreeMap<u16, SlotMove>,
}

impl SlotMoves {
    /// The error of a command with these keys, all of one slot, if it may not run here.
    pub(crate) fn refusal(
        &self,
        slot: u16,
        keys: &[&[u8]],
        asking: bool,
        has: impl Fn(&[u8]) -> bool,
    ) -> Option<String> {
        let missing = || keys.iter().filter(|key| !has(key)).count();
        match self.by_slot.get(&slot)? {
            SlotMove::Migrating { to } => match missing() {
                0 => None,
                all if all == keys.len() => Some(format!("ASK {slot} {to}")),
                _ => Some(TRY_AGAIN.to_owned()),
            },
            SlotMove::Importing { from } if !asking => Some(format!("MOVED {slot} {from}")),
            SlotMove::Importing { .. } => {
                let several = keys.iter().any(|key| *key != keys[0]);
                (several && missing() > 0).then(|| TRY_AGAIN.to_owned())
            }
        }
    }

    /// The error of a command that is queued in a transaction: only who owns the slot is judged,
    /// the rest when the transaction is carried out.
    pub(crate) fn refusal_of_queued(&self, slot: u16, asking: bool) -> Option<String> {
        match self.by_slot.get(&slot)? {
            SlotMove::Importing { from } if !asking => Some(format!("MOVED {slot} {from}")),
            SlotMove::Migrating { .. } | SlotMove::Importing { .. } => None,
        }
    }
}

impl Host {
    /// Lets a slot move from now on, or ends that. Has no effect on a host that is not part of a
    /// cluster.
    pub fn set_slot_move(&mut self, slot: u16, slot_move: Option<SlotMove>) {
        let moves = &mut self.store.lock().slot_moves.by_slot;
        match slot_move {
            Some(slot_move) => moves.insert(slot, slot_move),
            None => moves.remove(&slot),
        };
    }

    /// Ends the moves of all slots.
    pub fn clear_slot_moves(&mut self) {
        self.store.lock().slot_moves.by_slot.clear();
    }

    /// The error of a client that sends this command, or has said `ASKING` before, if it may not
    /// run here because its slot moves. Nothing is carried out.
    pub fn refusal_of_move(&mut self, argv: &[Vec<u8>], asking: bool) -> Option<String> {
        let mut store = self.store.lock();
        let before = std::mem::replace(&mut store.asking, asking);
        let judged = store.judge_keys(&keys_of(argv));
        store.asking = before;
        match judged {
            Err(Value::Error(text)) => Some(text),
            Err(_) | Ok(()) => None,
        }
    }

    /// Moves keys to the keyspace of another node, as `MIGRATE` does; see [`Snapshot::migrate`].
    pub fn migrate(&mut self, to: &mut Snapshot, keys: &[Vec<u8>]) -> Vec<Vec<u8>> {
        migrate(&mut self.store.lock().keyspace, &mut to.keyspace, keys)
    }
}

impl Snapshot {
    /// Moves keys to another keyspace, with their expiries. Keys that are there already stay on
    /// both sides and are returned: a server answers `BUSYKEY`.
    pub fn migrate(&mut self, to: &mut Self, keys: &[Vec<u8>]) -> Vec<Vec<u8>> {
        migrate(&mut self.keyspace, &mut to.keyspace, keys)
    }

    /// The keys of a slot, in order, with those that have expired.
    #[must_use]
    pub fn keys_in_slot(&self, slot: u16) -> Vec<Vec<u8>> {
        let keys = self.keyspace.sorted(i64::MIN).map(|(key, _)| key);
        keys.filter(|key| selvedge_core::partition::slot(key) == slot).cloned().collect()
    }
}

fn migrate(from: &mut Keyspace, to: &mut Keyspace, keys: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut busy = Vec::new();
    for key in keys {
        if to.get(key, i64::MIN).is_some() {
            busy.push(key.clone());
        } else if let Some(entry) = from.remove(key, i64::MIN) {
            to.insert(key, entry);
        }
    }
    busy
}

const TRY_AGAIN: &str = "TRYAGAIN Multiple keys request during rehashing of slot";
