//! The ledger: every call that wrote something, and which of them a failover lost. An excuse has
//! to name one of these.

use std::collections::BTreeSet;

use crate::event::CallId;

/// A call that wrote.
#[derive(Clone, Debug)]
pub struct Commit {
    /// Its number within its shard, from one. Numbers go on after a failover.
    pub number: u64,
    /// The shard, from 0.
    pub shard: u8,
    /// The node that acknowledged it, from 1.
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

    /// Notes that these commits are lost; answers the numbers of the first and the last of them.
    pub fn lose(&mut self, now_ms: u64, which: impl Fn(&Commit) -> bool) -> Option<(u64, u64)> {
        let mut lost: Option<(u64, u64)> = None;
        for commit in self.commits.iter_mut().filter(|commit| commit.lost_at_ms.is_none()) {
            if which(commit) {
                commit.lost_at_ms = Some(now_ms);
                lost = Some((lost.map_or(commit.number, |(first, _)| first), commit.number));
            }
        }
        lost
    }

    /// Forgets that anything was lost: a bug to be planted.
    pub(crate) fn conceal_losses(&mut self) {
        for commit in &mut self.commits {
            commit.lost_at_ms = None;
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

    /// Why something about this subject may be wrong: a key of it was damaged on purpose.
    #[must_use]
    pub fn damage_excuse(&self, subject: &str) -> Option<String> {
        let key = uuids(subject).find_map(|uuid| self.damaged_about(uuid));
        let whole = || self.damaged.iter().find(|key| contains(subject.as_bytes(), &lossy(key)));
        let key = key.or_else(|| whole().map(Vec::as_slice));
        key.map(|key| format!("damaged on purpose: {}", key.escape_ascii()))
    }

    /// Why something about this subject may have stopped: a commit about it was lost.
    #[must_use]
    pub fn loss_excuse(&self, subject: &str) -> Option<String> {
        let lost = uuids(subject).find_map(|uuid| self.lost_about(uuid))?;
        Some(format!("commit {} of node-{} was lost", lost.number, lost.node))
    }

    /// All keys that were damaged on purpose.
    pub fn damaged(&self) -> impl Iterator<Item = &[u8]> {
        self.damaged.iter().map(Vec::as_slice)
    }
}

fn lossy(key: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(key)
}

/// The uuids in a text, by their form.
fn uuids(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_ascii_hexdigit() && letter != '-')
        .filter(|word| word.len() == 36)
}

fn contains(key: &[u8], text: &str) -> bool {
    !text.is_empty() && key.windows(text.len()).any(|window| window == text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_commit_is_found_by_what_it_was_about() {
        let mut ledger = Ledger::default();
        for number in 1..=3 {
            let keys = [format!("ff:exec:{{fp:0}}:e{number}:core").into_bytes()].into();
            let commit =
                Commit { number, shard: 0, node: 1, at_ms: 5, call: 7, keys, lost_at_ms: None };
            ledger.add(commit);
        }
        assert_eq!(ledger.lose(9, |commit| commit.number >= 2), Some((2, 3)));
        assert_eq!(ledger.lose(9, |commit| commit.number >= 2), None, "lost once");
        assert_eq!(ledger.lost_about("e2").map(|commit| commit.number), Some(2));
        assert!(ledger.lost_about("e1").is_none());
    }
}
