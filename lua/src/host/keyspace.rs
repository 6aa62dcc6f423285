//! The keyspace: every key with its typed value and its expiry.
//!
//! Nothing here reads a clock: the caller passes the time. An expired key counts as missing; it is
//! removed when something writes there. A clone is a snapshot, and [`Keyspace::digest`] depends on
//! the content only, not on its history.

mod hash;
mod stream;
mod zset;

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

use foldhash::fast::FixedState;
use sha2::{Digest as _, Sha256};

pub(crate) use hash::Hash;
pub(crate) use stream::{Cutoff, Stream, StreamId};
pub(crate) use zset::{LexBound, LexRange, ScoreRange, Zset};

/// A plain string value.
pub(crate) type Text = Vec<u8>;

/// A set value. Ordered by member, so that draws and scans do not depend on the history.
pub(crate) type Set = BTreeSet<Vec<u8>>;

/// What a key holds.
#[derive(Clone, Debug)]
pub(crate) enum Data {
    Text(Text),
    Hash(Hash),
    Set(Set),
    Zset(Zset),
    Stream(Stream),
}

/// A value with the time at which it ends, if it does.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) data: Data,
    pub(crate) expires_at_ms: Option<i64>,
}

/// All keys. Cloning gives a snapshot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keyspace {
    /// Looked up many times in each call, and rarely listed. The order of the map is never visible,
    /// and its hash needs no secret seed: an in-process host has no hostile clients.
    entries: HashMap<Vec<u8>, Entry, FixedState>,
}

/// One of the five types a key can hold, so that a command can ask for the one it works on.
pub(crate) trait Kind: Sized {
    fn of(data: &Data) -> Option<&Self>;
    fn of_mut(data: &mut Data) -> Option<&mut Self>;
    fn into_data(self) -> Data;
}

macro_rules! kind {
    ($type:ty, $variant:ident) => {
        impl Kind for $type {
            fn of(data: &Data) -> Option<&Self> {
                if let Data::$variant(inner) = data { Some(inner) } else { None }
            }
            fn of_mut(data: &mut Data) -> Option<&mut Self> {
                if let Data::$variant(inner) = data { Some(inner) } else { None }
            }
            fn into_data(self) -> Data {
                Data::$variant(self)
            }
        }
    };
}

kind!(Text, Text);
kind!(Hash, Hash);
kind!(Set, Set);
kind!(Zset, Zset);
kind!(Stream, Stream);

impl Keyspace {
    /// Stores a value, over whatever was there.
    pub(crate) fn insert(&mut self, key: &[u8], entry: Entry) {
        self.entries.insert(key.to_vec(), entry);
    }

    /// Removes a key and answers what it held, if it was still alive.
    pub(crate) fn remove(&mut self, key: &[u8], now_ms: i64) -> Option<Entry> {
        self.entries.remove(key).filter(|entry| entry.alive(now_ms))
    }

    /// Removes everything.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }

    /// The live entry under a key, for changing it. A dead one is dropped on the way.
    pub(crate) fn get_mut(&mut self, key: &[u8], now_ms: i64) -> Option<&mut Entry> {
        if !self.entries.get(key)?.alive(now_ms) {
            self.entries.remove(key);
            return None;
        }
        self.entries.get_mut(key)
    }

    /// The live entry under a key.
    pub(crate) fn get(&self, key: &[u8], now_ms: i64) -> Option<&Entry> {
        self.entries.get(key).filter(|entry| entry.alive(now_ms))
    }

    /// All live keys, in order.
    pub(crate) fn sorted(&self, now_ms: i64) -> impl Iterator<Item = (&Vec<u8>, &Entry)> {
        let mut live: Vec<_> =
            self.entries.iter().filter(|(_, entry)| entry.alive(now_ms)).collect();
        live.sort_unstable_by_key(|(key, _)| *key);
        live.into_iter()
    }

    /// How many keys there are, dead ones included that nothing has touched since: that is what
    /// a server counts too.
    pub(crate) fn len(&self, now_ms: i64) -> usize {
        self.entries.values().filter(|entry| entry.alive(now_ms)).count()
    }

    /// How many entries there are, whether they are alive or not.
    pub(crate) fn count(&self) -> usize {
        self.entries.len()
    }

    /// A digest of the whole live content: equal exactly for equal types, values and expiries.
    pub(crate) fn digest(&self, now_ms: i64) -> [u8; 32] {
        let mut hasher = Sha256::new();
        self.visit_bytes(now_ms, |bytes| {
            // The length before each piece makes the sequence of bytes unambiguous.
            hasher.update((bytes.len() as u64).to_be_bytes());
            hasher.update(bytes);
        });
        hasher.finalize().into()
    }

    /// Passes the whole live content to `each` in pieces, always in the same order.
    pub(crate) fn visit_bytes(&self, now_ms: i64, mut each: impl FnMut(&[u8])) {
        for (key, entry) in self.sorted(now_ms) {
            each(key);
            each(entry.data.type_name().as_bytes());
            each(&entry.expires_at_ms.unwrap_or(-1).to_be_bytes());
            let parts = entry.data.parts();
            each(&(parts.len() as u64).to_be_bytes());
            for part in parts {
                each(&part);
            }
        }
    }

    /// A readable listing of the whole live content, equal exactly when the digests are equal.
    pub(crate) fn dump(&self, now_ms: i64) -> String {
        let mut text = String::new();
        for (key, entry) in self.sorted(now_ms) {
            let _ = write!(text, "{} \"{}\"", entry.data.type_name(), key.escape_ascii());
            if let Some(at_ms) = entry.expires_at_ms {
                let _ = write!(text, " until {at_ms}");
            }
            text.push('\n');
            for part in entry.data.parts() {
                let _ = writeln!(text, "  \"{}\"", part.escape_ascii());
            }
        }
        text
    }
}

impl Entry {
    /// An entry without an expiry.
    pub(crate) fn lasting(data: Data) -> Self {
        Self { data, expires_at_ms: None }
    }

    /// A key is still alive in the millisecond of its expiry, as on the server.
    pub(crate) fn alive(&self, now_ms: i64) -> bool {
        self.expires_at_ms.is_none_or(|at_ms| now_ms <= at_ms)
    }
}

impl Data {
    /// The type as the TYPE command names it.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Data::Text(_) => "string",
            Data::Hash(_) => "hash",
            Data::Set(_) => "set",
            Data::Zset(_) => "zset",
            Data::Stream(_) => "stream",
        }
    }

    /// Whether this is a collection with nothing left in it. Streams stay even when empty.
    pub(crate) fn is_drained(&self) -> bool {
        match self {
            Data::Hash(hash) => hash.is_empty(),
            Data::Set(set) => set.is_empty(),
            Data::Zset(zset) => zset.is_empty(),
            Data::Text(_) | Data::Stream(_) => false,
        }
    }

    /// The content as a flat list in canonical order.
    fn parts(&self) -> Vec<Vec<u8>> {
        match self {
            Data::Text(text) => vec![text.clone()],
            Data::Hash(hash) => {
                hash.sorted().flat_map(|(field, value)| [field.to_vec(), value.to_vec()]).collect()
            }
            Data::Set(set) => set.iter().cloned().collect(),
            Data::Zset(zset) => zset
                .iter()
                .flat_map(|(member, score)| [member.to_vec(), format!("{score:?}").into_bytes()])
                .collect(),
            Data::Stream(stream) => {
                let mut parts = vec![format!("last {}", stream.last_id()).into_bytes()];
                for (id, fields) in stream.range(StreamId::MIN, StreamId::MAX) {
                    // The number of fields, or an id could pass for a field of the entry before.
                    parts.push(format!("{id} {}", fields.len()).into_bytes());
                    parts.extend(fields.iter().cloned());
                }
                parts
            }
        }
    }
}
