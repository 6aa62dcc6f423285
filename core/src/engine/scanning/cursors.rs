//! Cursors: where scans stopped in an index, to go on there next time.

use alloc::collections::BTreeMap;

use crate::id::LaneId;
use crate::key::{IndexPart, Key};
use crate::partition::Partition;

/// Which scanner, which of its sources, which index.
pub(super) type CursorKey = (usize, usize, Key);

/// Offsets in sorted sets and cursors of sets. An index without one is read from its front.
#[derive(Debug, Default)]
pub(super) struct Cursors(BTreeMap<Partition, BTreeMap<CursorKey, u64>>);

impl Cursors {
    pub(super) fn get(&self, partition: Partition, key: &CursorKey) -> u64 {
        self.0.get(&partition).and_then(|cursors| cursors.get(key)).copied().unwrap_or(0)
    }

    pub(super) fn set(&mut self, partition: Partition, key: CursorKey, cursor: Option<u64>) {
        match cursor {
            Some(cursor) => {
                self.0.entry(partition).or_default().insert(key, cursor);
            }
            None => self.retain(|of, at| *of != partition || *at != key),
        }
    }

    /// Has a scanner begin at the front of a partition's indexes.
    pub(super) fn restart(&mut self, scanner: usize, partition: Partition) {
        self.retain(|of, (of_scanner, ..)| *of != partition || *of_scanner != scanner);
    }

    /// Forgets the cursors in indexes of other lanes.
    pub(super) fn keep_lanes(&mut self, lanes: &[LaneId]) {
        self.retain(|_, (_, _, index)| {
            !matches!(index, Key::Index(_, IndexPart::Lane(lane, _)) if !lanes.contains(lane))
        });
    }

    fn retain(&mut self, keep: impl Fn(&Partition, &CursorKey) -> bool) {
        self.0.retain(|partition, cursors| {
            cursors.retain(|key, _| keep(partition, key));
            !cursors.is_empty()
        });
    }
}
