//! The ledger: every call that wrote something, in the order of its shard, and which of them a
//! failover lost. An excuse has to name one of these.

use std::collections::BTreeSet;

use crate::event::CallId;

/// A call that wrote.
#[derive(Clone, Debug)]
pub struct Commit {
    /// Its number within its shard, from one. Numbers go on after a failover.
    pub number: u64,
    /// The shard.
    pub shard: u8,
    /// The node that acknowledged it.
    pub node: u8,
    /// When.
    pub at_ms: u64,
    /// The call that made it.
    pub call: CallId,
    /// The keys that it may have changed.
    pub keys: BTreeSet<Vec<u8>>,
    /// When it was lost, if it was.
    pub lost_at_ms: Option<u64>,
}

/// Everything that was ever written.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    commits: Vec<Commit>,
    damaged: BTreeSet<Vec<u8>>,
}

impl Ledger {
    /// Notes a commit.
    pub fn add(&mut self, commit: Commit) {
        self.commits.push(commit);
    }

    /// Notes that a key was damaged on purpose: evicted, edited, overwritten.
    pub fn damage(&mut self, key: &[u8]) {
        self.damaged.insert(key.to_vec());
    }

    /// Notes that the commits of a shard from `first` on are lost.
    pub fn lose(&mut self, shard: u8, first: u64, at_ms: u64) {
        for commit in &mut self.commits {
            if commit.shard == shard && commit.number >= first && commit.lost_at_ms.is_none() {
                commit.lost_at_ms = Some(at_ms);
            }
        }
    }

    /// All commits, in the order in which they were made.
    #[must_use]
    pub fn commits(&self) -> &[Commit] {
        &self.commits
    }

    /// All lost commits.
    pub fn lost(&self) -> impl Iterator<Item = &Commit> {
        self.commits.iter().filter(|commit| commit.lost_at_ms.is_some())
    }

    /// A lost commit with a key that contains this text: an execution's or a flow's uuid.
    #[must_use]
    pub fn lost_about(&self, text: &str) -> Option<&Commit> {
        self.lost().find(|commit| commit.keys.iter().any(|key| contains(key, text)))
    }

    /// A key that was damaged on purpose and contains this text.
    #[must_use]
    pub fn damaged_about(&self, text: &str) -> Option<&[u8]> {
        self.damaged.iter().find(|key| contains(key, text)).map(Vec::as_slice)
    }
}

fn contains(key: &[u8], text: &str) -> bool {
    !text.is_empty() && key.windows(text.len()).any(|window| window == text.as_bytes())
}
