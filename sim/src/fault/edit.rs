//! Edits by an operator: of an index entry, its score, a field of a record, or a whole index. The
//! index reconciler must repair all of them.

use selvedge_core::audit::Stored;
use selvedge_core::key::Key;

use super::data::FOREIGN_CLIENT;
use super::keys::{in_lane, is_core, of_worker};
use crate::plan::FaultRule;
use crate::world::World;
use crate::world::commit_log::Damage;
use crate::world::random_streams::Purpose;

/// Scores below and above all real ones.
const ODD_SCORES: [&str; 2] = ["1", "4102444800000"];
/// Priorities to set.
const PRIORITIES: [&str; 2] = ["0", "777"];

impl World {
    pub(super) fn edit(&mut self, rule: &FaultRule) {
        let kinds: [fn(&Key) -> bool; 4] = [in_lane, in_lane, of_worker, is_core];
        let drawn = self.random(Purpose::Faults, FOREIGN_CLIENT).below(4);
        let kind = kinds[usize::try_from(drawn).unwrap_or(0)];
        let key = self.drawn_key(rule, kind).or_else(|| self.drawn_key(rule, in_lane));
        let Some(key) = key else { return };
        let partition = Self::partition_of(&key);
        let shard = &self.network.servers.audited[self.network.servers.owner(partition.slot())];
        let members: Vec<String> = match shard.entry(&key).map(|entry| &entry.stored) {
            Some(Stored::Zset(members)) => members.keys().cloned().collect(),
            Some(Stored::Set(members)) => members.iter().cloned().collect(),
            Some(Stored::Hash(_)) if is_core(&key) => return self.edit_priority(rule, &key),
            _ => return,
        };
        let sorted = shard.zset(&key).len() == members.len();
        let stream = self.random(Purpose::Faults, FOREIGN_CLIENT);
        let (way, score) = (stream.below(3), stream.below(2));
        let Some(member) = stream.pick(&members).cloned() else { return };
        let text = key.to_string();
        let score = ODD_SCORES[usize::try_from(score).unwrap_or(0)];
        let (words, hurt) = match (way, sorted) {
            (0, _) => (vec!["DEL", &text], members.clone()),
            (1, true) => (vec!["ZADD", &text, "XX", score, &member], vec![member.clone()]),
            (_, true) => (vec!["ZREM", &text, &member], vec![member.clone()]),
            (_, false) => (vec!["SREM", &text, &member], vec![member.clone()]),
        };
        self.record_fault(rule.fault, words.join(" "));
        for harmed in hurt.iter().chain([&text]) {
            self.network.servers.commit_log.damage(harmed.as_bytes(), Damage::Passing);
        }
        self.command(partition, &words);
    }

    /// Sets a priority in the record that does not match the score in the index.
    fn edit_priority(&mut self, rule: &FaultRule, key: &Key) {
        let drawn = self.random(Purpose::Faults, FOREIGN_CLIENT).below(2);
        let priority = PRIORITIES[usize::try_from(drawn).unwrap_or(0)];
        let text = key.to_string();
        self.record_fault(rule.fault, format!("HSET {text} priority {priority}"));
        self.network.servers.commit_log.damage(text.as_bytes(), Damage::Passing);
        self.command(Self::partition_of(key), &["HSET", &text, "priority", priority]);
    }
}
