//! Hashes: fields found by name, listed in the order in which they first came.

use std::collections::BTreeMap;

/// Up to so many fields it is quicker to look at each of them than to keep them in order.
const FEW_MAX: usize = 64;

/// A hash value. Listing follows insertion, as the server's compact encoding does.
#[derive(Clone, Debug)]
pub(crate) enum Hash {
    /// Fields with their values, as they came.
    Few(Vec<(Vec<u8>, Vec<u8>)>),
    /// Fields by name, each with its place, and the place of the next new one.
    Many(BTreeMap<Vec<u8>, Slot>, u64),
}

#[derive(Clone, Debug)]
pub(crate) struct Slot {
    place: u64,
    value: Vec<u8>,
}

impl Default for Hash {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl Hash {
    /// Sets a field and answers whether it is new. A field set again keeps its place.
    pub(crate) fn set(&mut self, field: &[u8], value: Vec<u8>) -> bool {
        if let Some(stored) = self.get_mut(field) {
            *stored = value;
            return false;
        }
        match self {
            Self::Few(fields) if fields.len() < FEW_MAX => fields.push((field.to_vec(), value)),
            Self::Few(fields) => {
                let fields = std::mem::take(fields);
                *self = Self::Many(BTreeMap::new(), 0);
                for (field, value) in fields {
                    self.append(field, value);
                }
                self.append(field.to_vec(), value);
            }
            Self::Many(..) => self.append(field.to_vec(), value),
        }
        true
    }

    /// Puts a new field behind many others.
    fn append(&mut self, field: Vec<u8>, value: Vec<u8>) {
        if let Self::Many(fields, next_place) = self {
            fields.insert(field, Slot { place: *next_place, value });
            *next_place += 1;
        }
    }

    /// Removes a field and answers whether it was there.
    pub(crate) fn remove(&mut self, field: &[u8]) -> bool {
        match self {
            Self::Few(fields) => {
                let place = fields.iter().position(|(name, _)| name == field);
                place.map(|place| fields.remove(place)).is_some()
            }
            Self::Many(fields, _) => fields.remove(field).is_some(),
        }
    }

    fn get_mut(&mut self, field: &[u8]) -> Option<&mut Vec<u8>> {
        match self {
            Self::Few(fields) => {
                fields.iter_mut().find(|(name, _)| name == field).map(|(_, value)| value)
            }
            Self::Many(fields, _) => fields.get_mut(field).map(|slot| &mut slot.value),
        }
    }

    pub(crate) fn get(&self, field: &[u8]) -> Option<&[u8]> {
        match self {
            Self::Few(fields) => {
                fields.iter().find(|(name, _)| name == field).map(|(_, value)| value.as_slice())
            }
            Self::Many(fields, _) => fields.get(field).map(|slot| slot.value.as_slice()),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Few(fields) => fields.len(),
            Self::Many(fields, _) => fields.len(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All fields with their values, in order of insertion.
    pub(crate) fn in_order(&self) -> Vec<(&[u8], &[u8])> {
        match self {
            Self::Few(fields) => {
                fields.iter().map(|(field, value)| (field.as_slice(), value.as_slice())).collect()
            }
            Self::Many(fields, _) => {
                let mut slots: Vec<_> = fields.iter().collect();
                slots.sort_unstable_by_key(|(_, slot)| slot.place);
                slots.into_iter().map(|(field, slot)| (&field[..], &slot.value[..])).collect()
            }
        }
    }

    /// All fields with their values, by name.
    pub(crate) fn sorted(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut pairs = self.in_order();
        pairs.sort_unstable_by_key(|(field, _)| *field);
        pairs.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_fields_and_many_are_listed_as_they_came() {
        for count in [3, FEW_MAX, FEW_MAX + 1, 3 * FEW_MAX] {
            let mut hash = Hash::default();
            let names: Vec<String> =
                (0..count).map(|at| format!("{}", (at * 37) % 1_009)).collect();
            for name in &names {
                assert!(hash.set(name.as_bytes(), b"old".to_vec()));
            }
            assert!(!hash.set(names[1].as_bytes(), b"new".to_vec()));
            assert_eq!(hash.get(names[1].as_bytes()), Some(&b"new"[..]));
            assert!(hash.remove(names[0].as_bytes()) && !hash.remove(names[0].as_bytes()));
            assert!(hash.set(names[0].as_bytes(), b"late".to_vec()));
            let mut order: Vec<&[u8]> = names[1..].iter().map(|name| name.as_bytes()).collect();
            order.push(names[0].as_bytes());
            assert_eq!(hash.in_order().iter().map(|(field, _)| *field).collect::<Vec<_>>(), order);
            order.sort_unstable();
            assert_eq!(hash.sorted().map(|(field, _)| field).collect::<Vec<_>>(), order);
            assert_eq!((hash.len(), hash.is_empty()), (count, false));
        }
    }
}
