//! Keyspaces that move between simulated nodes: what a node holds while the host serves another
//! one, and what a replica receives.

use super::keyspace::Entry;
use super::{Host, Snapshot};

/// The values of some keys at one moment, missing ones included: enough to bring another keyspace
/// to the same state. Cloning shares nothing.
#[derive(Clone, Debug, Default)]
pub struct KeyCopy {
    entries: Vec<(Vec<u8>, Option<Entry>)>,
}

impl KeyCopy {
    /// The copied keys.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.entries.iter().map(|(key, _)| key.as_slice())
    }
}

impl Snapshot {
    /// Sets the keys of a copy to their copied values.
    pub fn apply(&mut self, copy: &KeyCopy) {
        for (key, entry) in &copy.entries {
            match entry {
                Some(entry) => self.keyspace.insert(key, entry.clone()),
                None => drop(self.keyspace.remove(key, i64::MIN)),
            }
        }
    }

    /// Moves the keys that `goes` selects to another keyspace, as when a slot moves to another
    /// node.
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
    /// Exchanges keyspace and libraries with a snapshot of this host, without copying.
    pub fn swap(&mut self, with: &mut Snapshot) {
        std::mem::swap(&mut self.store.lock().keyspace, &mut with.keyspace);
        self.scripting.swap_libraries(&mut with.libraries);
    }

    /// Copies these keys, expired entries included.
    #[must_use]
    pub fn copy_keys<'a>(&self, keys: impl IntoIterator<Item = &'a [u8]>) -> KeyCopy {
        let store = self.store.lock();
        let entry = |key: &[u8]| store.keyspace.get(key, i64::MIN).cloned();
        KeyCopy { entries: keys.into_iter().map(|key| (key.to_vec(), entry(key))).collect() }
    }
}
