//! Every call that wrote something, and which of them a failover lost. An excuse has to name a lost
//! commit or a damaged key.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::CallId;
use crate::format;

/// A call that wrote something.
#[derive(Clone, Debug)]
pub struct Commit {
    /// Its number within its shard, from 1. Numbering continues after a failover.
    pub number: u64,
    /// The shard, from 0.
    pub shard: u8,
    /// The node that acknowledged it, from 1.
    pub node: u8,
    /// When.
    pub at_ms: u64,
    /// The call that made it.
    pub call: CallId,
    /// The keys that it wrote.
    pub keys: BTreeSet<Vec<u8>>,
    /// When it was lost, if it was.
    pub lost_at_ms: Option<u64>,
}

/// Whether damage can be repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Damage {
    /// Engines repair it, or the fault itself ends: at the end of the run it excuses nothing.
    Passing,
    /// It cannot be repaired.
    Lasting,
}

/// All commits, and all damaged keys.
#[derive(Clone, Debug, Default)]
pub struct CommitLog {
    commits: Vec<Commit>,
    damaged: BTreeMap<Vec<u8>, Damage>,
}

impl CommitLog {
    /// Records a commit.
    pub fn add(&mut self, commit: Commit) {
        self.commits.push(commit);
    }

    /// Records that a fault damaged a key: evicted, edited or overwritten.
    pub fn damage(&mut self, key: &[u8], damage: Damage) {
        let known = self.damaged.entry(key.to_vec()).or_insert(damage);
        *known = damage.max(*known);
    }

    /// Marks commits as lost; returns the numbers of the first and the last of them.
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

    /// Removes all marks of lost commits: a planted bug.
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

    /// Why this key may lack something that was acknowledged by `told_ms`: a commit that had
    /// written it was lost.
    #[must_use]
    pub fn loss_excuse(&self, key: &[u8], told_ms: u64) -> Option<String> {
        let lost =
            self.lost().find(|commit| commit.at_ms <= told_ms && commit.keys.contains(key))?;
        Some(format!("commit {} of node-{} was lost", lost.number, lost.node))
    }

    /// Why a record may be wrong: one of its keys was damaged, at least this badly.
    #[must_use]
    pub fn damage_excuse(&self, subject: &str, least: Damage) -> Option<String> {
        let hurt = || self.damaged.iter().filter(|(_, damage)| **damage >= least);
        let about = |uuid| hurt().find(|(key, _)| contains(key, uuid));
        let whole = || hurt().find(|(key, _)| contains(subject.as_bytes(), &lossy(key)));
        let (key, _) = format::ids(subject).find_map(about).or_else(whole)?;
        Some(format!("damaged on purpose: {}", key.escape_ascii()))
    }
}

fn lossy(key: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(key)
}

fn contains(key: &[u8], text: &str) -> bool {
    !text.is_empty() && key.windows(text.len()).any(|window| window == text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_commit_is_found_by_its_keys() {
        let mut commit_log = CommitLog::default();
        for number in 1..=3 {
            let keys = [format!("ff:exec:{{fp:0}}:e{number}:core").into_bytes()].into();
            let commit =
                Commit { number, shard: 0, node: 1, at_ms: 5, call: 7, keys, lost_at_ms: None };
            commit_log.add(commit);
        }
        assert_eq!(commit_log.lose(9, |commit| commit.number >= 2), Some((2, 3)));
        assert_eq!(commit_log.lose(9, |commit| commit.number >= 2), None, "lost once");
        let excuse = |number, told_ms| {
            commit_log.loss_excuse(format!("ff:exec:{{fp:0}}:e{number}:core").as_bytes(), told_ms)
        };
        assert_eq!(excuse(2, 5), Some("commit 2 of node-1 was lost".to_owned()));
        assert_eq!(excuse(2, 4), None, "it was told before that commit");
        assert_eq!(excuse(1, 5), None);
    }

    #[test]
    fn repairable_damage_is_no_excuse_at_the_end() {
        let uuid = "0a80a595-3da7-4fb2-abf8-3870dfb42b09";
        let mut commit_log = CommitLog::default();
        commit_log.damage(format!("{{fp:0}}:{uuid}").as_bytes(), Damage::Passing);
        assert!(commit_log.damage_excuse(uuid, Damage::Passing).is_some());
        assert!(commit_log.damage_excuse(uuid, Damage::Lasting).is_none());
        commit_log.damage(format!("ff:exec:{{fp:0}}:{uuid}:core").as_bytes(), Damage::Lasting);
        assert!(commit_log.damage_excuse(uuid, Damage::Lasting).is_some());
        assert!(
            commit_log
                .damage_excuse("1a80a595-3da7-4fb2-abf8-3870dfb42b09", Damage::Passing)
                .is_none()
        );
    }
}
