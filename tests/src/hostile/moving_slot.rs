//! Calls in a slot that moves key by key between two nodes.
//!
//! Some of the keys are on the node that gives the slot away, the rest on the one that receives it.
//! Wherever the border is, and on either node, a call must do what it does in the whole slot, or be
//! refused by an error with nothing written: no answer may be about half of the data.

use std::collections::BTreeMap;

use selvedge_core::call::absent_key;
use selvedge_core::partition;
use selvedge_core::value::Value;
use selvedge_lua::host::{Host, SlotMove};

use crate::hostile::contract::Contract;
use crate::hostile::corpus::Call;
use crate::hostile::generate::perform;
use crate::hostile::keyspace_data::{Entry, KeyspaceData, shorten};
use crate::spec::report::show_reply;

/// Which keys have moved, and what a caller does.
#[derive(Clone, Copy, Debug)]
pub struct Border {
    /// Which keys have moved.
    pub moved: Moved,
    /// Whether the call comes to the node that receives the slot, as after `ASK`.
    pub on_target: bool,
    /// Whether the caller declares a key that never exists, as our own do.
    pub declares_absent_key: bool,
}

/// Which keys of the slot have moved.
#[derive(Clone, Copy, Debug)]
pub enum Moved {
    /// So many, in the order of the keys.
    First(usize),
    /// Those that these bits select.
    Some(u64),
}

impl Border {
    /// Any border: the bits choose.
    #[must_use]
    pub fn drawn(bits: u64) -> Self {
        Self {
            moved: Moved::Some(bits >> 2),
            on_target: bits & 1 == 1,
            declares_absent_key: bits & 2 == 2,
        }
    }

    /// Borders along the whole move, on both nodes, for both kinds of callers.
    #[must_use]
    pub fn along(keys: usize) -> Vec<Self> {
        let step = keys.div_ceil(BORDERS_MAX).max(1);
        let borders = (0..keys).step_by(step).chain([keys]);
        let sides = [(false, false), (false, true), (true, false), (true, true)];
        borders
            .flat_map(|moved| sides.map(|side| (Moved::First(moved), side)))
            .map(|(moved, (on_target, declares_absent_key))| Self {
                moved,
                on_target,
                declares_absent_key,
            })
            .collect()
    }
}

/// A call, and what it does in the whole slot.
pub struct WholeSlot {
    call: Call,
    slot: u16,
    done: Done,
    reads_only: bool,
}

impl WholeSlot {
    /// Carries out a call in the whole slot; none for a call without keys.
    pub fn of(call: &Call, contract: &Contract, host: &mut Host) -> Option<Self> {
        let slot = partition::slot(call.keys.first()?);
        host.clear_slot_moves();
        // Without what has expired.
        call.keyspace.put(host);
        let call = Call { keyspace: KeyspaceData::read(host), ..call.clone() };
        let done = carry_out(&call, &call.keyspace, host, None);
        Some(Self { call, slot, done, reads_only: contract.reads_only })
    }

    /// What is wrong with what the call does at a border, if anything is.
    pub fn judge_at(&self, border: Border, host: &mut Host) -> Option<String> {
        let Self { call, slot, done: whole, reads_only } = self;
        let now_us = call.keyspace.now_us;
        let moved = |moved| KeyspaceData {
            now_us,
            keys: keep(&call.keyspace, |at, key| has_moved(border.moved, *slot, at, key) == moved),
        };
        let (source, target) = (moved(false), moved(true));
        if border.on_target && call.keys.iter().any(|key| source.keys.contains_key(key)) {
            // The other node would not have sent anybody here.
            return None;
        }
        let mut sent = call.clone();
        if border.declares_absent_key && !reads_only {
            sent.keys.extend(call.keys.first().and_then(|key| absent_key(key)));
        }
        let (here, there, slot_move) = if border.on_target {
            (target, source, SlotMove::Importing { from: "node:1".to_owned() })
        } else {
            (source, target, SlotMove::Migrating { to: "node:2".to_owned() })
        };
        let done = carry_out(&sent, &here, host, Some((*slot, slot_move)));
        let reply = shorten(show_reply(&done.reply).as_bytes());
        let told = |what: &str| Some(format!("{what} at {border:?}: {reply}"));
        if let Value::Error(_) = done.reply {
            return done.wrote.then(|| told("an error after a write")).flatten();
        }
        if done.reply != whole.reply {
            let whole = shorten(show_reply(&whole.reply).as_bytes());
            return told(&format!("not the reply of the whole slot, which is {whole},"));
        }
        if there.keys.keys().any(|key| done.after.keys.contains_key(key)) {
            return told("a key is on both nodes");
        }
        let mut merged = done.after;
        merged.keys.extend(there.keys);
        if let Some(key) = whole.after.changed(&merged).first() {
            return told(&format!("{} is not as in the whole slot", shorten(key)));
        }
        (done.published != whole.published).then(|| told("other messages")).flatten()
    }
}

/// What a call did.
struct Done {
    reply: Value,
    after: KeyspaceData,
    published: usize,
    wrote: bool,
}

fn carry_out(
    call: &Call,
    keyspace: &KeyspaceData,
    host: &mut Host,
    slot_move: Option<(u16, SlotMove)>,
) -> Done {
    host.clear_slot_moves();
    keyspace.put(host);
    host.reseed(0);
    if let Some((slot, slot_move)) = slot_move {
        if let SlotMove::Importing { .. } = slot_move {
            host.call(&["ASKING"]);
        }
        host.set_slot_move(slot, Some(slot_move));
    }
    let reply = perform(call, host);
    host.clear_slot_moves();
    let published = host.take_published().len();
    let changed = host.has_written();
    let after = if changed { KeyspaceData::read(host) } else { keyspace.clone() };
    Done { reply, after, published, wrote: changed || published > 0 }
}

/// The keys that `wanted` selects by their place and name.
fn keep(
    keyspace: &KeyspaceData,
    wanted: impl Fn(usize, &[u8]) -> bool,
) -> BTreeMap<Vec<u8>, Entry> {
    let all = keyspace.keys.iter().enumerate();
    let kept = all.filter(|(at, (key, _))| wanted(*at, key));
    kept.map(|(_, (key, entry))| (key.clone(), entry.clone())).collect()
}

fn has_moved(moved: Moved, slot: u16, at: usize, key: &[u8]) -> bool {
    partition::slot(key) == slot
        && match moved {
            Moved::First(count) => at < count,
            Moved::Some(bits) => bits.rotate_right(u32::from(fold(key) % 64)) & 1 == 1,
        }
}

/// A number that depends on all bytes of a key.
fn fold(key: &[u8]) -> u8 {
    key.iter().fold(7, |sum: u8, byte| sum.wrapping_mul(31).wrapping_add(*byte))
}

/// So many borders are enough to separate any two keys of a record.
const BORDERS_MAX: usize = 8;
