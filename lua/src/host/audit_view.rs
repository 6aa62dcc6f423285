//! The keyspace as the state oracles read it.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_core::audit;
use selvedge_core::time::ServerTime;

use super::Host;
use super::command::lookup;
use super::keyspace::{Data, Entry};

impl Host {
    /// The value of a key now, as the oracles read it.
    #[must_use]
    pub fn entry(&self, key: &[u8]) -> Option<audit::Entry> {
        let store = self.store.lock();
        store.keyspace.get(key, store.now_ms()).map(audited)
    }

    /// The whole keyspace now, as the oracles read it.
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

    /// Brings a snapshot up to date after a call: the clock, and what the call changed. After a
    /// flush or [`Host::restore`], take [`Host::audited`] again.
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
