//! A keyspace at one moment, and the records in it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use super::subject::{self, Subject};
use crate::error::UnknownWord;
use crate::id::{AttemptIndex, ExecutionId, FlowId};
use crate::key::{
    AttemptPart, ExecutionPart, FlowPart, IndexPart, Key, PartitionIndex, StreamPart,
};
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

impl Entry {
    /// The fields, if it is a hash.
    #[must_use]
    pub fn fields(&self) -> Option<Fields<'_>> {
        match &self.stored {
            Stored::Hash(fields) => Some(Fields(fields)),
            _ => None,
        }
    }

    /// How many members it has, if it is a set or a sorted set.
    #[must_use]
    pub fn members(&self) -> usize {
        match &self.stored {
            Stored::Set(members) => members.len(),
            Stored::Zset(members) => members.len(),
            _ => 0,
        }
    }
}

/// All live keys at one moment, or those of some partitions: it is filled key by key.
///
/// It follows a keyspace that changes: [`Snapshot::put`] notes whom a change concerns, so that
/// only they need to be judged again.
#[derive(Clone, Debug)]
pub struct Snapshot {
    now: ServerTime,
    patience_ms: i64,
    entries: BTreeMap<Key, Entry>,
    strangers: BTreeMap<Vec<u8>, Entry>,
    expiries: BTreeSet<(ServerTime, Key)>,
    /// In which indexes of executions a member stands.
    places: BTreeMap<String, BTreeSet<Key>>,
    /// Whose record of a current lease names this lease.
    holders: BTreeMap<String, BTreeSet<ExecutionId>>,
    touched: BTreeSet<Subject>,
}

impl PartialEq for Snapshot {
    fn eq(&self, other: &Self) -> bool {
        (self.now, &self.entries, &self.strangers) == (other.now, &other.entries, &other.strangers)
    }
}

impl Snapshot {
    /// An empty keyspace.
    #[must_use]
    pub const fn new(now: ServerTime) -> Self {
        Self {
            now,
            patience_ms: PATIENCE_MS,
            entries: BTreeMap::new(),
            strangers: BTreeMap::new(),
            expiries: BTreeSet::new(),
            places: BTreeMap::new(),
            holders: BTreeMap::new(),
            touched: BTreeSet::new(),
        }
    }

    /// Notes what stands under a key now; nothing when it is gone.
    pub fn put(&mut self, key: &[u8], entry: Option<Entry>) {
        let read = core::str::from_utf8(key).ok().and_then(|text| text.parse::<Key>().ok());
        match (read, entry) {
            (Some(key), entry) => self.exchange(key, entry),
            (None, Some(entry)) => {
                self.touched.insert(Subject::Stranger(key.to_vec()));
                self.strangers.insert(key.to_vec(), entry);
            }
            (None, None) => drop(self.strangers.remove(key)),
        }
    }

    /// Moves the clock; what has ended by then is gone.
    pub fn advance(&mut self, now: ServerTime) {
        self.now = now;
        // A key lives through the very millisecond of its expiry.
        while let Some((at, key)) = self.expiries.first().cloned()
            && at < now
        {
            self.expiries.pop_first();
            self.exchange(key, None);
        }
        self.strangers.retain(|_, entry| entry.expires_at.is_none_or(|at| now <= at));
    }

    /// Sets how long something may be due before an oracle of rest calls it forgotten.
    pub fn set_patience_ms(&mut self, patience_ms: i64) {
        self.patience_ms = patience_ms;
    }

    /// Takes everybody whom a change concerned since the last time.
    pub fn take_touched(&mut self) -> BTreeSet<Subject> {
        core::mem::take(&mut self.touched)
    }

    fn exchange(&mut self, key: Key, entry: Option<Entry>) {
        let old = self.entries.remove(&key);
        if let Some(at) = old.as_ref().and_then(|old| old.expires_at) {
            self.expiries.remove(&(at, key.clone()));
        }
        if let Some(at) = entry.as_ref().and_then(|entry| entry.expires_at) {
            self.expiries.insert((at, key.clone()));
        }
        let stored = [&old, &entry].map(|entry| entry.as_ref().map(|entry| &entry.stored));
        subject::concerned(&key, stored, &mut self.touched);
        self.follow_places(&key, stored);
        self.follow_holders(&key, stored);
        if let Some(entry) = entry {
            self.entries.insert(key, entry);
        }
    }

    fn follow_places(&mut self, key: &Key, stored: [Option<&Stored>; 2]) {
        match key {
            Key::Index(_, part) if subject::lists_executions(part) => {}
            _ => return,
        }
        subject::changed_members(stored, |member, is_in| {
            if is_in {
                self.places.entry(member.into()).or_default().insert(key.clone());
            } else if let Some(places) = self.places.get_mut(member) {
                places.remove(key);
                if places.is_empty() {
                    self.places.remove(member);
                }
            }
        });
    }

    fn follow_holders(&mut self, key: &Key, stored: [Option<&Stored>; 2]) {
        let Key::Execution(id, ExecutionPart::Lease) = key else { return };
        let [was, is] = stored.map(|stored| match stored {
            Some(Stored::Hash(fields)) => Some(Fields(fields).text("lease_id")),
            _ => None,
        });
        if let Some(holders) = was.and_then(|lease| self.holders.get_mut(lease)) {
            holders.remove(id);
        }
        if let Some(lease) = is {
            self.holders.entry(lease.into()).or_default().insert(id.clone());
        }
    }

    /// The time by the server's clock.
    #[must_use]
    pub const fn now(&self) -> ServerTime {
        self.now
    }

    /// Whether what was due at a time has been due for too long.
    #[must_use]
    pub const fn is_forgotten(&self, due_ms: i64) -> bool {
        due_ms.saturating_add(self.patience_ms) < self.now.0
    }

    /// Everybody who can be judged.
    #[must_use]
    pub fn subjects(&self) -> BTreeSet<Subject> {
        let mut subjects: BTreeSet<_> = self.strangers().map(Subject::stranger).collect();
        for (key, entry) in &self.entries {
            subject::concerned(key, [None, Some(&entry.stored)], &mut subjects);
        }
        subjects
    }

    /// The indexes of executions that list a member.
    pub fn places_of(&self, member: &str) -> impl Iterator<Item = &Key> {
        self.places.get(member).into_iter().flatten()
    }

    /// The executions whose current lease has this id.
    pub fn holders_of(&self, lease: &str) -> impl Iterator<Item = &ExecutionId> {
        self.holders.get(lease).into_iter().flatten()
    }

    /// What stands under a key.
    #[must_use]
    pub fn entry(&self, key: &Key) -> Option<&Entry> {
        self.entries.get(key)
    }

    /// The records that an execution has under its own name.
    pub fn of_execution<'a>(
        &'a self,
        id: &'a ExecutionId,
    ) -> impl Iterator<Item = (&'a ExecutionPart, &'a Entry)> {
        let first = Key::Execution(id.clone(), ExecutionPart::Core);
        self.entries.range(first..).map_while(move |(key, entry)| match key {
            Key::Execution(of, part) if of == id => Some((part, entry)),
            _ => None,
        })
    }

    /// All keys that carry the name of an execution.
    pub fn named_after<'a>(
        &'a self,
        id: &'a ExecutionId,
    ) -> impl Iterator<Item = (&'a Key, &'a Entry)> {
        let zero = AttemptIndex(0);
        [
            Key::Execution(id.clone(), ExecutionPart::Core),
            Key::Attempt(id.clone(), zero, AttemptPart::Record),
            Key::Stream(id.clone(), zero, StreamPart::Frames),
        ]
        .into_iter()
        .flat_map(move |first| {
            self.entries.range(first..).take_while(move |(key, _)| match key {
                Key::Execution(of, _) | Key::Attempt(of, ..) | Key::Stream(of, ..) => of == id,
                _ => false,
            })
        })
    }

    /// The records that a flow has under its own name.
    pub fn of_flow(
        &self,
        partition: Partition,
        id: FlowId,
    ) -> impl Iterator<Item = (&FlowPart, &Entry)> {
        let first = Key::Flow(partition, id, FlowPart::Core);
        self.entries.range(first..).map_while(move |(key, entry)| match key {
            Key::Flow(at, of, part) if *at == partition && *of == id => Some((part, entry)),
            _ => None,
        })
    }

    /// The edge group of an execution with its key, if it is in a flow.
    #[must_use]
    pub fn group_of(&self, execution: &Execution<'_>) -> Option<(Key, Option<Fields<'_>>)> {
        let flow = execution.core.text("flow_id").parse::<FlowId>().ok()?;
        let key = Key::flow(execution.partition(), flow).edge_group(execution.id);
        let group = self.hash(&key);
        Some((key, group))
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
        self.entries.iter().filter_map(|(key, entry)| match key {
            Key::Execution(id, ExecutionPart::Core) => {
                entry.fields().map(|core| Execution { id, core })
            }
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
}

/// The fields of a hash.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a>(&'a BTreeMap<String, Vec<u8>>);

impl<'a> Fields<'a> {
    pub(super) const fn new(fields: &'a BTreeMap<String, Vec<u8>>) -> Self {
        Self(fields)
    }

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

/// Priorities outrank creation times by this factor.
const PRIORITY_STEP: f64 = 1_000_000_000_000.0;

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

    /// Its score among the eligible of its lane: the lowest is served first.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a time of this millennium is exact")]
    pub fn place_in_line(&self) -> f64 {
        let priority: f64 = self.core.text("priority").parse().unwrap_or_default();
        self.core.number("created_at") as f64 - priority * PRIORITY_STEP
    }

    /// Whether a purge has begun to take it apart.
    #[must_use]
    pub fn is_being_purged(&self) -> bool {
        !self.core.text("purging_since").is_empty()
    }
}

/// Twice the longest pause between two scans of one kind.
pub const PATIENCE_MS: i64 = 120_000;

static EMPTY_SET: BTreeSet<String> = BTreeSet::new();
static EMPTY_ZSET: BTreeMap<String, f64> = BTreeMap::new();
