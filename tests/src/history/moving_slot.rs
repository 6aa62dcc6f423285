//! [`MovingSlot`]: a second node beside the host, to which the slot of a call moves key by key
//! while the call is made.

use selvedge_core::call::without_absent_key;
use selvedge_core::partition;
use selvedge_core::value::Value;
use selvedge_lua::host::{Host, SlotMove, Snapshot};
use selvedge_sim::search::Draws;

/// The other node of a cluster of two.
pub(super) struct MovingSlot {
    /// The library, and the keys that have moved there.
    other: Snapshot,
    draws: Draws,
}

impl MovingSlot {
    /// A node with the library of the host.
    pub(super) fn beside(host: &Host, seed: u64) -> Self {
        let mut other = host.snapshot();
        other.clear_keys();
        Self { other, draws: Draws::seeded(seed, 1) }
    }

    /// Carries out a call. Now and then its slot moves meanwhile, and the call is repeated as long
    /// as it is refused. Afterwards the host has all keys.
    ///
    /// # Errors
    /// When a refused call has written something, or a key is on both nodes.
    pub(super) fn call(&mut self, host: &mut Host, command: &[Vec<u8>]) -> Result<Value, String> {
        let Some(slot) = slot_of(command).filter(|_| self.draws.percent(MOVES_PERCENT)) else {
            return Ok(host.call(command));
        };
        // Other clients declare the keys of the contract, and no other.
        let foreign = without_absent_key(command).filter(|_| self.draws.percent(50));
        let sent = foreign.as_deref().unwrap_or(command);
        let mut left = host.snapshot().keys_in_slot(slot);
        let mut answer = None;
        while answer.is_none() && !left.is_empty() {
            answer = self.ask(host, slot, sent)?;
            let batch = (0..=self.draws.index(AT_ONCE_MAX)).filter_map(|_| {
                let at = self.draws.index(left.len());
                (at < left.len()).then(|| left.swap_remove(at))
            });
            let batch: Vec<_> = batch.collect();
            self.migrate(host, &batch)?;
        }
        let left = host.snapshot().keys_in_slot(slot);
        self.migrate(host, &left)?;
        // Other slots have stayed: the keys come back to them, as if the nodes had changed names.
        host.swap(&mut self.other);
        let all = host.snapshot().keys_in_slot(slot);
        host.migrate(&mut self.other, &all);
        host.swap(&mut self.other);
        Ok(answer.unwrap_or_else(|| host.call(command)))
    }

    /// The answer of the node that has the slot, or of the other one if that sends us there; none
    /// if it must be tried again.
    fn ask(
        &mut self,
        host: &mut Host,
        slot: u16,
        sent: &[Vec<u8>],
    ) -> Result<Option<Value>, String> {
        host.set_slot_move(slot, Some(SlotMove::Migrating { to: "node:2".to_owned() }));
        let mut reply = host.call(sent);
        host.clear_slot_moves();
        if matches!(&reply, Value::Error(text) if text.starts_with("ASK ")) {
            host.swap(&mut self.other);
            host.set_slot_move(slot, Some(SlotMove::Importing { from: "node:1".to_owned() }));
            host.call(&["ASKING"]);
            reply = host.call(sent);
            host.clear_slot_moves();
            host.swap(&mut self.other);
        }
        let Value::Error(text) = &reply else { return Ok(Some(reply)) };
        if host.has_written() {
            return Err(format!("refused after a write, while the slot moves: {text}"));
        }
        let moves = text.starts_with("TRYAGAIN") || text.contains("non local key");
        Ok((!moves).then_some(reply))
    }

    fn migrate(&mut self, host: &mut Host, keys: &[Vec<u8>]) -> Result<(), String> {
        match host.migrate(&mut self.other, keys).first() {
            Some(key) => Err(format!("BUSYKEY: both nodes have {}", key.escape_ascii())),
            None => Ok(()),
        }
    }
}

/// The slot of a call of a function, if it has keys.
fn slot_of(command: &[Vec<u8>]) -> Option<u16> {
    let [verb, _, count, key, ..] = command else { return None };
    (verb == b"FCALL" && count != b"0").then(|| partition::slot(key))
}

/// So many calls of a hundred are made while their slot moves.
const MOVES_PERCENT: u64 = 25;

/// The most keys that move between two tries.
const AT_ONCE_MAX: usize = 8;
