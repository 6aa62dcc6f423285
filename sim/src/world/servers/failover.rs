//! Failovers, split brain, lost data, and slots that move.

use std::collections::VecDeque;

use selvedge_lua::host::{KeyCopy, Snapshot};

use super::{Node, Servers};
use crate::world::commit_log::Commit;

/// A replica: a keyspace some commits behind its primary, and the commits that it has not applied
/// yet.
#[derive(Default)]
pub(super) struct Replica {
    pub(super) data: Snapshot,
    pub(super) pending: VecDeque<(u64, KeyCopy)>,
}

impl Replica {
    /// Applies all commits up to this one.
    pub(super) fn catch_up(&mut self, number: u64) {
        while let Some((_, copy)) = self.pending.pop_front_if(|(at, _)| *at <= number) {
            self.data.apply(&copy);
        }
    }
}

impl Servers {
    /// Makes the replica of a shard its primary, without the last `losing` commits. Returns the
    /// numbers of the first and the last lost commit, if any.
    pub fn fail_over(&mut self, shard: usize, losing: u64, now_ms: u64) -> Option<(u64, u64)> {
        let (node, head) = (self.primaries[shard], self.heads[shard]);
        let replica = &mut self.replicas[shard];
        replica.catch_up(head.saturating_sub(losing));
        let first = replica.pending.front().map(|(number, _)| *number);
        replica.pending.clear();
        let mut data = replica.data.clone();
        self.switch_to(node);
        self.host.swap(&mut data);
        self.refresh_all(shard, now_ms);
        let number = |node: usize| u8::try_from(node).unwrap_or(u8::MAX);
        let (shard, node) = (number(shard), number(node + 1));
        let first = first?;
        // A commit belongs to this branch unless a node made it after it had been replaced.
        let nodes = &self.nodes;
        let of_this_branch = |commit: &Commit| {
            let other = nodes.get(usize::from(commit.node).saturating_sub(1));
            commit.node == node
                || other.and_then(|other| other.split_at).is_none_or(|at| commit.number <= at)
        };
        self.commit_log.lose(now_ms, |commit| {
            commit.shard == shard && commit.number >= first && of_this_branch(commit)
        })
    }

    /// Adds a new primary while the old one goes on; returns the old one.
    pub fn split(&mut self, shard: usize) -> usize {
        let old = self.primaries[shard];
        self.switch_to(old);
        let mut new = Node::new(shard, self.host.snapshot());
        new.skew_ms = self.nodes[old].skew_ms;
        self.nodes[old].superseded = true;
        self.nodes[old].split_at = Some(self.heads[shard]);
        self.nodes.push(new);
        self.primaries[shard] = self.nodes.len() - 1;
        old
    }

    /// Drops what a node wrote after it was replaced; returns the lost commits.
    pub fn heal(&mut self, old: usize, since: u64, now_ms: u64) -> Option<(u64, u64)> {
        self.nodes[old].knows_successor = true;
        let node = u8::try_from(old + 1).unwrap_or(u8::MAX);
        self.commit_log.lose(now_ms, |commit| commit.node == node && commit.number > since)
    }

    /// Restarts a node empty, or with its data of `age_ms` ago; returns the lost commits.
    pub fn restart_with_loss(
        &mut self,
        shard: usize,
        age_ms: Option<u64>,
        now_ms: u64,
    ) -> Option<(u64, u64)> {
        let shard_number = u8::try_from(shard).unwrap_or(u8::MAX);
        if let Some(age_ms) = age_ms {
            let then = now_ms.saturating_sub(age_ms);
            let young = |commit: &&Commit| commit.shard == shard_number && commit.at_ms > then;
            let losing = self.commit_log.commits().iter().filter(young).count() as u64;
            return self.fail_over(shard, losing, now_ms);
        }
        self.switch_to(self.primaries[shard]);
        self.host.swap(&mut Snapshot::default());
        let replica = &mut self.replicas[shard];
        (replica.data, replica.pending) = (self.host.snapshot(), VecDeque::new());
        self.refresh_all(shard, now_ms);
        self.commit_log.lose(now_ms, |commit| commit.shard == shard_number)
    }

    /// Moves the keys of a slot to another shard.
    pub fn hand_over(&mut self, slot: u16, to: usize, now_ms: u64) {
        let from = self.owner(slot);
        if from == to {
            return;
        }
        // No node is current while keys are moved.
        self.host.swap(&mut self.nodes[self.current].data);
        let goes = |key: &[u8]| selvedge_core::partition::slot(key) == slot;
        let (source, target) = (self.primaries[from], self.primaries[to]);
        if let Ok([source, target]) = self.nodes.get_disjoint_mut([source, target]) {
            source.data.hand_over(&mut target.data, goes);
        }
        self.host.swap(&mut self.nodes[self.current].data);
        for shard in [from, to] {
            let head = self.heads[shard];
            self.replicas[shard].catch_up(head);
        }
        if let Ok([source, target]) = self.replicas.get_disjoint_mut([from, to]) {
            source.data.hand_over(&mut target.data, goes);
        }
        self.owners[usize::from(slot)] = u8::try_from(to).unwrap_or(0);
        self.refresh_all(from, now_ms);
        self.refresh_all(to, now_ms);
    }
}
