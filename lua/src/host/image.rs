//! Keyspaces that change places: what a simulated node holds while another one is served, and
//! what a replica is told.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_core::audit;
use selvedge_core::time::ServerTime;

use super::command::lookup;
use super::keyspace::{Data, Entry};
use super::{Host, Snapshot};

/// What stood under some keys at one moment, or that nothing did: enough to bring another
/// keyspace to the same point. Cloning shares nothing.
#[derive(Clone, Debug, Default)]
pub struct Image {
    entries: Vec<(Vec<u8>, Option<Entry>)>,
}

impl Image {
    /// The keys that it speaks of.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.entries.iter().map(|(key, _)| key.as_slice())
    }
}

impl Snapshot {
    /// Brings the keys of an image to what they were in it.
    pub fn apply(&mut self, image: &Image) {
        for (key, entry) in &image.entries {
            match entry {
                Some(entry) => self.keyspace.insert(key, entry.clone()),
                None => drop(self.keyspace.remove(key, i64::MIN)),
            }
        }
    }

    /// Moves the keys that `goes` picks to another keyspace, as a slot that changes its owner.
    pub fn hand_over(&mut self, to: &mut Self, goes: impl Fn(&[u8]) -> bool) {
        let keys: Vec<Vec<u8>> = self
            .keyspace
            .sorted(i64::MIN)
            .map(|(key, _)| key.clone())
            .filter(|key| goes(key))
            .collect();
        for key in keys {
            if let Some(entry) = self.keyspace.remove(&key, i64::MIN) {
                to.keyspace.insert(&key, entry);
            }
        }
    }

    /// Forgets all keys.
    pub fn clear_keys(&mut self) {
        self.keyspace.clear();
    }

    /// Forgets all libraries.
    pub fn clear_libraries(&mut self) {
        self.libraries.clear();
    }

    /// Takes over the libraries of another one.
    pub fn take_libraries(&mut self, from: &Self) {
        self.libraries = from.libraries.clone();
    }
}

impl Host {
    /// Exchanges keyspace and libraries with a snapshot of this very host, without copying.
    pub fn swap(&mut self, with: &mut Snapshot) {
        std::mem::swap(&mut self.store.lock().keyspace, &mut with.keyspace);
        self.scripting.swap_libraries(&mut with.libraries);
    }

    /// What stands under these keys now, dead entries included.
    #[must_use]
    pub fn image<'a>(&self, keys: impl IntoIterator<Item = &'a [u8]>) -> Image {
        let store = self.store.lock();
        let entry = |key: &[u8]| store.keyspace.get(key, i64::MIN).cloned();
        Image { entries: keys.into_iter().map(|key| (key.to_vec(), entry(key))).collect() }
    }

    /// What stands under a key now, as the oracles read it.
    #[must_use]
    pub fn entry(&self, key: &[u8]) -> Option<audit::Entry> {
        let store = self.store.lock();
        store.keyspace.get(key, store.now_ms()).map(audited)
    }

    /// Everything there is now, as the oracles read it.
    #[must_use]
    pub fn audited(&self) -> audit::Snapshot {
        let store = self.store.lock();
        let mut snapshot = audit::Snapshot::new(ServerTime(store.now_ms()));
        for (key, entry) in store.keyspace.sorted(store.now_ms()) {
            snapshot.put(key, Some(audited(entry)));
        }
        snapshot
    }

    /// The keys that the last call changed.
    #[must_use]
    pub fn last_written_keys(&self) -> BTreeSet<Vec<u8>> {
        let store = self.store.lock();
        let keys = |argv: &[Vec<u8>]| -> Vec<Vec<u8>> {
            let spec = argv.first().and_then(|name| lookup(name));
            spec.iter().flat_map(|spec| spec.keys(argv)).map(<[u8]>::to_vec).collect()
        };
        store.writes.iter().flat_map(|argv| keys(argv)).collect()
    }

    /// Brings what the oracles read up to date after a call: the clock, and whatever it changed.
    /// After a flush or [`Host::restore`], ask for [`Host::audited`] again.
    pub fn refresh(&self, snapshot: &mut audit::Snapshot) {
        let now_ms = self.store.lock().now_ms();
        snapshot.advance(ServerTime(now_ms));
        for key in self.last_written_keys() {
            snapshot.put(&key, self.entry(&key));
        }
    }
}

fn audited(entry: &Entry) -> audit::Entry {
    let stored = match &entry.data {
        Data::Text(text) => audit::Stored::Text(text.clone()),
        Data::Hash(hash) => audit::Stored::Hash(
            hash.sorted().map(|(field, value)| (lossy(field), value.to_vec())).collect(),
        ),
        Data::Set(set) => {
            audit::Stored::Set(set.iter().map(|member| lossy(member)).collect::<BTreeSet<_>>())
        }
        Data::Zset(zset) => audit::Stored::Zset(
            zset.iter().map(|(member, score)| (lossy(member), score)).collect::<BTreeMap<_, _>>(),
        ),
        Data::Stream(stream) => {
            audit::Stored::Stream(usize::try_from(stream.len()).unwrap_or(usize::MAX))
        }
    };
    audit::Entry { stored, expires_at: entry.expires_at_ms.map(ServerTime) }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
