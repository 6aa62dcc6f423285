//! A keyspace at one moment, and the records in it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use crate::error::UnknownWord;
use crate::id::{ExecutionId, FlowId, LaneId};
use crate::key::{ExecutionPart, FlowPart, IndexPart, Key, LaneIndex, PartitionIndex};
use crate::partition::Partition;
use crate::state::StateVector;
use crate::time::ServerTime;

/// What a key holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Stored {
    /// A string.
    Text(Vec<u8>),
    /// A hash.
    Hash(BTreeMap<String, Vec<u8>>),
    /// A set.
    Set(BTreeSet<String>),
    /// A sorted set: the score of each member.
    Zset(BTreeMap<String, f64>),
    /// A stream; how many entries it has. No oracle looks into one.
    Stream(usize),
}

/// A value with the time at which it ends, if it does.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// What is stored.
    pub stored: Stored,
    /// Until when.
    pub expires_at: Option<ServerTime>,
}

/// All live keys at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    now: ServerTime,
    entries: BTreeMap<Key, Entry>,
    strangers: BTreeMap<Vec<u8>, Entry>,
}

impl Snapshot {
    /// An empty keyspace.
    #[must_use]
    pub const fn new(now: ServerTime) -> Self {
        Self { now, entries: BTreeMap::new(), strangers: BTreeMap::new() }
    }

    /// Notes what stands under a key now; nothing when it is gone.
    pub fn put(&mut self, key: &[u8], entry: Option<Entry>) {
        let read = core::str::from_utf8(key).ok().and_then(|text| text.parse::<Key>().ok());
        match (read, entry) {
            (Some(key), Some(entry)) => drop(self.entries.insert(key, entry)),
            (Some(key), None) => drop(self.entries.remove(&key)),
            (None, Some(entry)) => drop(self.strangers.insert(key.to_vec(), entry)),
            (None, None) => drop(self.strangers.remove(key)),
        }
    }

    /// Moves the clock; what has ended by then is gone.
    pub fn advance(&mut self, now: ServerTime) {
        self.now = now;
        // A key lives through the very millisecond of its expiry.
        self.entries.retain(|_, entry| entry.expires_at.is_none_or(|at| now <= at));
        self.strangers.retain(|_, entry| entry.expires_at.is_none_or(|at| now <= at));
    }

    /// The time by the server's clock.
    #[must_use]
    pub const fn now(&self) -> ServerTime {
        self.now
    }

    /// All keys of ours, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Entry)> {
        self.entries.iter()
    }

    /// Keys that are none of ours.
    pub fn strangers(&self) -> impl Iterator<Item = &[u8]> {
        self.strangers.keys().map(Vec::as_slice)
    }

    /// Whether anything stands under a key.
    #[must_use]
    pub fn holds(&self, key: &Key) -> bool {
        self.entries.contains_key(key)
    }

    /// The fields of a hash; none when there is no such hash.
    #[must_use]
    pub fn hash(&self, key: &Key) -> Option<Fields<'_>> {
        match self.entries.get(key).map(|entry| &entry.stored) {
            Some(Stored::Hash(fields)) => Some(Fields(fields)),
            _ => None,
        }
    }

    /// The members of a set; none when there is no such set.
    #[must_use]
    pub fn set(&self, key: &Key) -> &BTreeSet<String> {
        match self.entries.get(key).map(|entry| &entry.stored) {
            Some(Stored::Set(members)) => members,
            _ => &EMPTY_SET,
        }
    }

    /// The members of a sorted set with their scores; none when there is no such set.
    #[must_use]
    pub fn zset(&self, key: &Key) -> &BTreeMap<String, f64> {
        match self.entries.get(key).map(|entry| &entry.stored) {
            Some(Stored::Zset(members)) => members,
            _ => &EMPTY_ZSET,
        }
    }

    /// A string; none when there is no such string.
    #[must_use]
    pub fn text(&self, key: &Key) -> Option<&[u8]> {
        match self.entries.get(key).map(|entry| &entry.stored) {
            Some(Stored::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// An index of a whole partition, when it is a sorted set.
    #[must_use]
    pub fn index(&self, partition: Partition, index: PartitionIndex) -> &BTreeMap<String, f64> {
        self.zset(&Key::Index(partition, IndexPart::Whole(index)))
    }

    /// An index of a whole partition, when it is a set.
    #[must_use]
    pub fn index_set(&self, partition: Partition, index: PartitionIndex) -> &BTreeSet<String> {
        self.set(&Key::Index(partition, IndexPart::Whole(index)))
    }

    /// All executions that have a record.
    pub fn executions(&self) -> impl Iterator<Item = Execution<'_>> {
        self.entries.keys().filter_map(|key| match key {
            Key::Execution(id, ExecutionPart::Core) => self.execution(id),
            _ => None,
        })
    }

    /// One execution, if it has a record.
    #[must_use]
    pub fn execution<'a>(&'a self, id: &'a ExecutionId) -> Option<Execution<'a>> {
        let core = self.hash(&Key::execution(id).core())?;
        Some(Execution { id, core })
    }

    /// All flows that have a record.
    pub fn flows(&self) -> impl Iterator<Item = (Partition, FlowId, Fields<'_>)> {
        self.entries.keys().filter_map(|key| match key {
            Key::Flow(partition, id, FlowPart::Core) => Some((*partition, *id, self.hash(key)?)),
            _ => None,
        })
    }

    /// All indexes of all lanes.
    pub fn lanes(
        &self,
    ) -> impl Iterator<Item = (Partition, &LaneId, LaneIndex, &BTreeMap<String, f64>)> {
        self.entries.keys().filter_map(|key| match key {
            Key::Index(partition, IndexPart::Lane(lane, index)) => {
                Some((*partition, lane, *index, self.zset(key)))
            }
            _ => None,
        })
    }
}

/// The fields of a hash.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a>(&'a BTreeMap<String, Vec<u8>>);

impl<'a> Fields<'a> {
    /// A field as text; empty when it is missing or no text.
    #[must_use]
    pub fn text(&self, name: &str) -> &'a str {
        self.0.get(name).and_then(|value| core::str::from_utf8(value).ok()).unwrap_or_default()
    }

    /// A field as a number; 0 when it is missing or none. A fraction is cut off.
    #[must_use]
    pub fn number(&self, name: &str) -> i64 {
        let text = self.text(name);
        text.split('.').next().and_then(|whole| whole.parse().ok()).unwrap_or_default()
    }

    /// All fields.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> + use<'a> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_slice()))
    }
}

/// An execution's record.
#[derive(Clone, Copy, Debug)]
pub struct Execution<'a> {
    /// Its id.
    pub id: &'a ExecutionId,
    /// Its fields.
    pub core: Fields<'a>,
}

impl Execution<'_> {
    /// The state vector.
    ///
    /// # Errors
    /// The first field that is no word of its dimension.
    pub fn vector(&self) -> Result<StateVector, UnknownWord> {
        StateVector::read(StateVector::FIELDS.map(|name| self.core.text(name)))
    }

    /// Where it lives.
    #[must_use]
    pub fn partition(&self) -> Partition {
        self.id.partition()
    }

    /// Whether a purge has begun to take it apart.
    #[must_use]
    pub fn is_being_purged(&self) -> bool {
        !self.core.text("purging_since").is_empty()
    }
}

static EMPTY_SET: BTreeSet<String> = BTreeSet::new();
static EMPTY_ZSET: BTreeMap<String, f64> = BTreeMap::new();
