//! Hashes: fields found by name, listed in the order in which they first came.

use std::collections::BTreeMap;

/// A hash value. Listing follows insertion, as the server's compact encoding does.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hash {
    fields: BTreeMap<Vec<u8>, Slot>,
    /// The place of the next new field.
    next_place: u64,
}

#[derive(Clone, Debug)]
struct Slot {
    place: u64,
    value: Vec<u8>,
}

impl Hash {
    /// Sets a field and answers whether it is new. A field set again keeps its place.
    pub(crate) fn set(&mut self, field: &[u8], value: Vec<u8>) -> bool {
        if let Some(slot) = self.fields.get_mut(field) {
            slot.value = value;
            return false;
        }
        self.fields.insert(field.to_vec(), Slot { place: self.next_place, value });
        self.next_place += 1;
        true
    }

    /// Removes a field and answers whether it was there.
    pub(crate) fn remove(&mut self, field: &[u8]) -> bool {
        self.fields.remove(field).is_some()
    }

    pub(crate) fn get(&self, field: &[u8]) -> Option<&[u8]> {
        self.fields.get(field).map(|slot| slot.value.as_slice())
    }

    pub(crate) fn len(&self) -> usize {
        self.fields.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// All fields with their values, in order of insertion.
    pub(crate) fn in_order(&self) -> Vec<(&[u8], &[u8])> {
        let mut slots: Vec<_> = self.fields.iter().collect();
        slots.sort_unstable_by_key(|(_, slot)| slot.place);
        slots.into_iter().map(|(field, slot)| (field.as_slice(), slot.value.as_slice())).collect()
    }

    /// All fields with their values, by name.
    pub(crate) fn sorted(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields.iter().map(|(field, slot)| (field.as_slice(), slot.value.as_slice()))
    }
}
