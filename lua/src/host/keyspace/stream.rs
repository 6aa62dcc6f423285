//! Streams: entries in the order of their ids, packed into nodes as the server packs them.
//!
//! The nodes are visible to clients in one way only: approximate trimming drops whole nodes. So
//! each node counts the bytes that its entries take in the server's encoding.

use std::collections::BTreeMap;
use std::fmt;

/// The id of an entry: a time in milliseconds and a running number within it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StreamId {
    pub(crate) ms: u64,
    pub(crate) seq: u64,
}

/// What trimming is to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cutoff {
    /// At most this many entries.
    Length(u64),
    /// Only entries with this id or a later one.
    Id(StreamId),
}

/// A stream value. It outlives its last entry: the last id is never forgotten.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stream {
    /// By the id of the first entry each was opened with.
    nodes: BTreeMap<StreamId, Node>,
    length: u64,
    last_id: StreamId,
}

/// Up to a hundred entries in a row.
#[derive(Clone, Debug)]
struct Node {
    /// The live entries: id, and fields and values in turn.
    entries: Vec<(StreamId, Vec<Vec<u8>>)>,
    /// How many were ever put here; the deleted leave their room unused.
    filled: usize,
    /// The id of the latest entry put here, deleted or not.
    last_id: StreamId,
    /// The field names of the first entry; entries with the same names need not repeat them.
    names: Vec<Vec<u8>>,
    /// What the server's packing takes.
    bytes: usize,
}

/// The server's `stream-node-max-entries`.
const NODE_ENTRIES_MAX: usize = 100;
/// The server's `stream-node-max-bytes`.
const NODE_BYTES_MAX: usize = 4096;

impl StreamId {
    pub(crate) const MIN: Self = Self { ms: 0, seq: 0 };
    pub(crate) const MAX: Self = Self { ms: u64::MAX, seq: u64::MAX };

    /// The id right behind this one, if there is one.
    pub(crate) fn next(self) -> Option<Self> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(Self { ms: self.ms, seq }),
            None => self.ms.checked_add(1).map(|ms| Self { ms, seq: 0 }),
        }
    }

    /// The id right before this one, if there is one.
    pub(crate) fn previous(self) -> Option<Self> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(Self { ms: self.ms, seq }),
            None => self.ms.checked_sub(1).map(|ms| Self { ms, seq: u64::MAX }),
        }
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.ms, self.seq)
    }
}

impl Stream {
    /// Appends an entry. The id must lie behind the last one.
    pub(crate) fn append(&mut self, id: StreamId, fields: Vec<Vec<u8>>) {
        debug_assert!(id > self.last_id);
        let payload: usize = fields.iter().map(Vec::len).sum();
        let mut last = self.nodes.last_entry();
        match &mut last {
            Some(node) if node.get().has_room(payload) => {
                let master = *node.key();
                node.get_mut().push(master, id, fields);
            }
            Some(_) | None => {
                self.nodes.insert(id, Node::opened_with(id, fields));
            }
        }
        self.last_id = id;
        self.length += 1;
    }

    /// Removes one entry and answers whether it was there.
    pub(crate) fn remove(&mut self, id: StreamId) -> bool {
        let Some((&master, node)) = self.nodes.range_mut(..=id).next_back() else {
            return false;
        };
        let Ok(place) = node.entries.binary_search_by_key(&id, |(id, _)| *id) else {
            return false;
        };
        node.entries.remove(place);
        if node.entries.is_empty() {
            self.nodes.remove(&master);
        }
        self.length -= 1;
        true
    }

    /// Removes entries from the front down to the cutoff and answers how many went.
    pub(crate) fn trim_exactly(&mut self, cutoff: Cutoff) -> u64 {
        let mut removed = self.trim_nodes(cutoff, None);
        let Some(mut first) = self.nodes.first_entry() else { return removed };
        let entries = &mut first.get_mut().entries;
        let surplus = match cutoff {
            Cutoff::Length(max) => self.length.saturating_sub(max),
            Cutoff::Id(min) => entries.partition_point(|(id, _)| *id < min) as u64,
        };
        entries.drain(..surplus as usize);
        self.length -= surplus;
        removed += surplus;
        removed
    }

    /// Removes whole nodes only, as far as the cutoff allows, and no more than `limit` entries.
    pub(crate) fn trim_nodes(&mut self, cutoff: Cutoff, limit: Option<u64>) -> u64 {
        let mut removed = 0;
        while let Some(first) = self.nodes.first_entry() {
            let count = first.get().entries.len() as u64;
            let wanted = match cutoff {
                Cutoff::Length(max) => self.length > max && self.length - count >= max,
                Cutoff::Id(min) => first.get().last_id < min,
            };
            if !wanted || limit.is_some_and(|limit| removed + count > limit) {
                break;
            }
            first.remove();
            self.length -= count;
            removed += count;
        }
        removed
    }

    pub(crate) fn len(&self) -> u64 {
        self.length
    }

    /// The id of the latest entry there ever was.
    pub(crate) fn last_id(&self) -> StreamId {
        self.last_id
    }

    /// The entries with ids from `start` to `end`, both included.
    pub(crate) fn range(
        &self,
        start: StreamId,
        end: StreamId,
    ) -> impl DoubleEndedIterator<Item = (StreamId, &[Vec<u8>])> {
        // The node that could hold the start opens at or before it.
        let first = self.nodes.range(..=start).next_back().map_or(start, |(master, _)| *master);
        let nodes = (first <= end).then(|| self.nodes.range(first..=end));
        nodes
            .into_iter()
            .flatten()
            .flat_map(|(_, node)| node.entries.iter())
            .filter(move |(id, _)| (start..=end).contains(id))
            .map(|(id, fields)| (*id, fields.as_slice()))
    }
}

impl Node {
    /// A listpack: header and end mark, then the master entry (counts, names, end), then entries.
    fn opened_with(id: StreamId, fields: Vec<Vec<u8>>) -> Self {
        let names: Vec<Vec<u8>> = fields.iter().step_by(2).cloned().collect();
        let names_size: usize = names.iter().map(|name| packed_size(name)).sum();
        // Live count, deleted count and end mark take two bytes each: all stay below 128.
        let bytes = 7 + 3 * 2 + packed_int_size(names.len() as i64) + names_size;
        let mut node = Self { entries: Vec::new(), filled: 0, last_id: id, names, bytes };
        node.push(id, id, fields);
        node
    }

    fn has_room(&self, payload: usize) -> bool {
        self.bytes + payload < NODE_BYTES_MAX && self.filled < NODE_ENTRIES_MAX
    }

    fn push(&mut self, master: StreamId, id: StreamId, fields: Vec<Vec<u8>>) {
        let pairs = fields.len() / 2;
        let same_names = fields.iter().step_by(2).eq(self.names.iter());
        // The server packs the differences of ids as signed numbers, wrapping around.
        let ms_gap = id.ms.wrapping_sub(master.ms) as i64;
        let seq_gap = id.seq.wrapping_sub(master.seq) as i64;
        let values: usize = fields.iter().skip(1).step_by(2).map(|part| packed_size(part)).sum();
        self.bytes += 2 + packed_int_size(ms_gap) + packed_int_size(seq_gap) + values;
        if same_names {
            self.bytes += packed_int_size(pairs as i64 + 3);
        } else {
            let names: usize = fields.iter().step_by(2).map(|part| packed_size(part)).sum();
            self.bytes += packed_int_size(pairs as i64) + names;
            self.bytes += packed_int_size(2 * pairs as i64 + 4);
        }
        self.entries.push((id, fields));
        self.last_id = id;
        self.filled += 1;
    }
}

/// The bytes a listpack takes for a string, with the back length behind it.
fn packed_size(text: &[u8]) -> usize {
    if let Some(number) = super::super::number::parse_int(text) {
        return packed_int_size(number);
    }
    let body = match text.len() {
        0..64 => 1 + text.len(),
        64..4096 => 2 + text.len(),
        _ => 5 + text.len(),
    };
    body + back_length_size(body)
}

/// The bytes a listpack takes for a number, with the back length behind it.
fn packed_int_size(number: i64) -> usize {
    let body = match number {
        0..=127 => 1,
        -4096..=4095 => 2,
        -32_768..=32_767 => 3,
        -8_388_608..=8_388_607 => 4,
        -2_147_483_648..=2_147_483_647 => 5,
        _ => 9,
    };
    body + back_length_size(body)
}

fn back_length_size(body: usize) -> usize {
    match body {
        0..=127 => 1,
        128..=16_383 => 2,
        16_384..=2_097_151 => 3,
        2_097_152..=268_435_455 => 4,
        _ => 5,
    }
}
