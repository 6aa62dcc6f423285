//! The keyspace as the state oracles see it.

use std::collections::BTreeSet;

use selvedge_core::audit::{Entry, Snapshot, Stored};
use selvedge_core::time::ServerTime;

use super::Host;
use super::command::lookup;
use super::keyspace::{self, Data};

impl Host {
    /// Everything that stands there now, for the oracles of [`selvedge_core::audit`].
    #[must_use]
    pub fn audit(&self) -> Snapshot {
        let store = self.store.lock();
        let mut snapshot = Snapshot::new(ServerTime(store.now_ms()));
        for (key, found) in store.keyspace.iter_from(b"", store.now_ms()) {
            snapshot.put(key, Some(entry(found)));
        }
        snapshot
    }

    /// Brings what the oracles see up to date after a call: the clock, and whatever it wrote.
    /// After a flush or [`Host::restore`], ask for [`Host::audit`] again.
    pub fn refresh_audit(&self, snapshot: &mut Snapshot) {
        let store = self.store.lock();
        snapshot.advance(ServerTime(store.now_ms()));
        let written: BTreeSet<&[u8]> = store.writes.iter().flat_map(|argv| keys(argv)).collect();
        for key in written {
            snapshot.put(key, store.keyspace.get(key, store.now_ms()).map(entry));
        }
    }
}

fn entry(found: &keyspace::Entry) -> Entry {
    let stored = match &found.data {
        Data::Text(text) => Stored::Text(text.clone()),
        Data::Hash(hash) => Stored::Hash(
            hash.sorted().map(|(field, value)| (text(field), value.to_vec())).collect(),
        ),
        Data::Set(members) => Stored::Set(members.iter().map(|member| text(member)).collect()),
        Data::Zset(zset) => {
            Stored::Zset(zset.iter().map(|(member, score)| (text(member), score)).collect())
        }
        Data::Stream(stream) => Stored::Stream(usize::try_from(stream.len()).unwrap_or(usize::MAX)),
    };
    Entry { stored, expires_at: found.expires_at_ms.map(ServerTime) }
}

/// The keys that a command names.
fn keys(argv: &[Vec<u8>]) -> Vec<&[u8]> {
    let spec = argv.first().and_then(|name| lookup(name));
    spec.map(|spec| spec.keys(argv)).unwrap_or_default()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
