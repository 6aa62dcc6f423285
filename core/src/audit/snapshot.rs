//! A keyspace at one moment.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use super::record::{Entry, Execution, Fields, Stored};
use super::subject::{self, Subject};
use crate::id::{AttemptIndex, ExecutionId, FlowId};
use crate::key::{
    AttemptPart, ExecutionPart, FlowPart, IndexPart, Key, PartitionIndex, StreamPart,
};
use crate::partition::Partition;
use crate::time::ServerTime;

/// All live keys at one moment, or those of some partitions: it is filled key by key.
///
/// It can follow a keyspace that changes: [`Snapshot::put`] records which subjects a change
/// concerns, so that only those need to be judged again.
#[derive(Clone, Debug)]
pub struct Snapshot {
    now: ServerTime,
    grace_ms: i64,
    entries: BTreeMap<Key, Entry>,
    foreign_keys: BTreeMap<Vec<u8>, Entry>,
    expiries: BTreeSet<(ServerTime, Key)>,
    /// For each member, the indexes of executions that list it.
    listings: BTreeMap<String, BTreeSet<Key>>,
    /// For each lease, the executions whose current lease it is.
    holders: BTreeMap<String, BTreeSet<ExecutionId>>,
    touched: BTreeSet<Subject>,
}

impl PartialEq for Snapshot {
    fn eq(&self, other: &Self) -> bool {
        (self.now, &self.entries, &self.foreign_keys)
            == (other.now, &other.entries, &other.foreign_keys)
    }
}

impl Snapshot {
    /// An empty keyspace.
    #[must_use]
    pub const fn new(now: ServerTime) -> Self {
        Self {
            now,
            grace_ms: GRACE_MS,
            entries: BTreeMap::new(),
            foreign_keys: BTreeMap::new(),
            expiries: BTreeSet::new(),
            listings: BTreeMap::new(),
            holders: BTreeMap::new(),
            touched: BTreeSet::new(),
        }
    }

    /// Sets or removes the value of a key.
    pub fn put(&mut self, key: &[u8], entry: Option<Entry>) {
        let read = core::str::from_utf8(key).ok().and_then(|text| text.parse::<Key>().ok());
        match (read, entry) {
            (Some(key), entry) => self.replace(key, entry),
            (None, Some(entry)) => {
                self.touched.insert(Subject::ForeignKey(key.to_vec()));
                self.foreign_keys.insert(key.to_vec(), entry);
            }
            (None, None) => drop(self.foreign_keys.remove(key)),
        }
    }

    /// Moves the clock, and removes keys that expired.
    pub fn advance(&mut self, now: ServerTime) {
        self.now = now;
        // A key lives through the very millisecond of its expiry.
        while let Some((at, key)) = self.expiries.first().cloned()
            && at < now
        {
            self.expiries.pop_first();
            self.replace(key, None);
        }
        self.foreign_keys.retain(|_, entry| entry.expires_at.is_none_or(|at| now <= at));
    }

    /// Sets for how long something may be due before an oracle of rest reports it.
    pub fn set_grace_ms(&mut self, grace_ms: i64) {
        self.grace_ms = grace_ms;
    }

    /// Takes the subjects that were concerned by changes since the last call.
    pub fn take_touched(&mut self) -> BTreeSet<Subject> {
        core::mem::take(&mut self.touched)
    }

    fn replace(&mut self, key: Key, entry: Option<Entry>) {
        let old = self.entries.remove(&key);
        if let Some(at) = old.as_ref().and_then(|old| old.expires_at) {
            self.expiries.remove(&(at, key.clone()));
        }
        if let Some(at) = entry.as_ref().and_then(|entry| entry.expires_at) {
            self.expiries.insert((at, key.clone()));
        }
        let stored = [&old, &entry].map(|entry| entry.as_ref().map(|entry| &entry.stored));
        subject::concerned(&key, stored, &mut self.touched);
        self.track_listings(&key, stored);
        self.track_holders(&key, stored);
        if let Some(entry) = entry {
            self.entries.insert(key, entry);
        }
    }

    fn track_listings(&mut self, key: &Key, stored: [Option<&Stored>; 2]) {
        match key {
            Key::Index(_, part) if subject::lists_executions(part) => {}
            _ => return,
        }
        subject::changed_members(stored, |member, is_in| {
            if is_in {
                self.listings.entry(member.into()).or_default().insert(key.clone());
            } else if let Some(indexes) = self.listings.get_mut(member) {
                indexes.remove(key);
                if indexes.is_empty() {
                    self.listings.remove(member);
                }
            }
        });
    }

    fn track_holders(&mut self, key: &Key, stored: [Option<&Stored>; 2]) {
        let Key::Execution(id, ExecutionPart::Core) = key else { return };
        let [was, is] = stored.map(|stored| match stored {
            Some(Stored::Hash(fields)) => {
                Some(Fields::new(fields).text("current_lease_id")).filter(|lease| !lease.is_empty())
            }
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

    /// Whether what was due at this time has been due for longer than the grace period.
    #[must_use]
    pub const fn is_overdue(&self, due_ms: i64) -> bool {
        due_ms.saturating_add(self.grace_ms) < self.now.0
    }

    /// All subjects.
    #[must_use]
    pub fn subjects(&self) -> BTreeSet<Subject> {
        let mut subjects: BTreeSet<_> = self.foreign_keys().map(Subject::foreign_key).collect();
        for (key, entry) in &self.entries {
            subject::concerned(key, [None, Some(&entry.stored)], &mut subjects);
        }
        subjects
    }

    /// The indexes of executions that list a member.
    pub fn indexes_listing(&self, member: &str) -> impl Iterator<Item = &Key> {
        self.listings.get(member).into_iter().flatten()
    }

    /// The executions whose current lease has this id.
    pub fn holders_of(&self, lease: &str) -> impl Iterator<Item = &ExecutionId> {
        self.holders.get(lease).into_iter().flatten()
    }

    /// The value of a key.
    #[must_use]
    pub fn entry(&self, key: &Key) -> Option<&Entry> {
        self.entries.get(key)
    }

    /// The keys of an execution.
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

    /// The keys of an execution, its attempts and its streams.
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

    /// The keys of a flow.
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

    /// All keys of this keyspace, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Entry)> {
        self.entries.iter()
    }

    /// Keys that are not part of this keyspace.
    pub fn foreign_keys(&self) -> impl Iterator<Item = &[u8]> {
        self.foreign_keys.keys().map(Vec::as_slice)
    }

    /// Whether a key exists.
    #[must_use]
    pub fn holds(&self, key: &Key) -> bool {
        self.entries.contains_key(key)
    }

    /// The fields of a hash; none when there is no such hash.
    #[must_use]
    pub fn hash(&self, key: &Key) -> Option<Fields<'_>> {
        match self.entries.get(key).map(|entry| &entry.stored) {
            Some(Stored::Hash(fields)) => Some(Fields::new(fields)),
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

/// The default grace period: twice the longest interval of a scanner.
pub const GRACE_MS: i64 = 120_000;

static EMPTY_SET: BTreeSet<String> = BTreeSet::new();
static EMPTY_ZSET: BTreeMap<String, f64> = BTreeMap::new();
