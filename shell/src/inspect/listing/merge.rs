//! Merges one kind of index of several lanes and all partitions into one order: ended executions
//! newest first, others by rising score.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use selvedge_core::command::Command;
use selvedge_core::id::LaneId;
use selvedge_core::key::{Key, LaneIndex};
use selvedge_core::partition::Partition;
use selvedge_core::value::Value;

use super::cursor::Position;
use crate::client::fields;

/// An entry of an index. Entries are ordered by score, then by member, as servers order them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    score: f64,
    pub(super) position: Position,
}

impl Entry {
    fn new(position: Position) -> Option<Self> {
        let score = position.score.parse().ok()?;
        Some(Self { score, position })
    }

    fn order(&self, other: &Self) -> Ordering {
        let by_member = || self.position.member.cmp(&other.position.member);
        self.score.total_cmp(&other.score).then_with(by_member)
    }

    /// The score, in whole milliseconds.
    #[expect(clippy::cast_possible_truncation, reason = "`as` saturates, which is what we want")]
    pub(super) fn ms(&self) -> i64 {
        self.score as i64
    }
}

/// The next entry of a source. The greatest is next of all.
struct Head {
    entry: Entry,
    source: usize,
    is_newest_first: bool,
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        let order = self.entry.order(&other.entry);
        if self.is_newest_first { order } else { order.reverse() }
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head {}

/// One index of one lane in one partition.
struct Source {
    key: Key,
    /// Entries behind its head.
    read: VecDeque<Entry>,
    has_head: bool,
    /// Where to read on: from this score, behind so many entries with exactly that score.
    from: String,
    skip: usize,
    is_exhausted: bool,
    /// How many entries to read next.
    count: usize,
}

/// The merged indexes. It asks for reads and is given their replies.
pub(super) struct Merge {
    is_newest_first: bool,
    /// The other end of the range.
    until: String,
    /// Entries up to this one were looked at before.
    after: Option<Entry>,
    sources: Vec<Source>,
    heads: BinaryHeap<Head>,
    /// How many sources have to be read before the next entry is known.
    starved: usize,
}

impl Merge {
    /// Merges the indexes of these lanes in so many partitions, behind `after`. Of ended
    /// executions only those that ended from the first time to the second are read.
    pub(super) fn new(
        index: LaneIndex,
        lanes: &[LaneId],
        partitions: u16,
        after: Option<Position>,
        (first_ms, last_ms): (i64, i64),
    ) -> Self {
        let is_newest_first = index == LaneIndex::Terminal;
        let bound = |ms: i64, open: i64, end: &str| {
            if !is_newest_first || ms == open { end.to_owned() } else { ms.to_string() }
        };
        let (low, high) = (bound(first_ms, i64::MIN, "-inf"), bound(last_ms, i64::MAX, "+inf"));
        let after = after.and_then(Entry::new);
        let (from, until) = if is_newest_first { (high, low) } else { (low, high) };
        let from = after.as_ref().map_or(from, |after| after.position.score.clone());
        let count = if lanes.len() * usize::from(partitions) > FEW_SOURCES { 8 } else { 64 };
        let source = |lane: &LaneId, at| Source {
            key: Key::index(Partition::flow(at)).lane(lane, index),
            read: VecDeque::new(),
            has_head: false,
            from: from.clone(),
            skip: 0,
            is_exhausted: false,
            count,
        };
        let of_lane = |lane| (0..partitions).map(move |at| source(lane, at));
        let sources: Vec<Source> = lanes.iter().flat_map(of_lane).collect();
        let starved = sources.len();
        Self { is_newest_first, until, after, sources, heads: BinaryHeap::new(), starved }
    }

    /// The reads without which the next entry is unknown; none if it is known, or there is none.
    pub(super) fn reads(&self) -> Vec<Command> {
        if self.starved == 0 {
            return Vec::new();
        }
        let low = self.sources.iter().filter(|source| source.is_low());
        low.map(|source| self.read(source)).collect()
    }

    /// Takes the replies to [`Self::reads`].
    pub(super) fn replied(&mut self, replies: Vec<Value>) {
        let (after, is_newest_first) = (self.after.as_ref(), self.is_newest_first);
        let low = self.sources.iter_mut().filter(|source| source.is_low());
        for (source, reply) in low.zip(replies) {
            source.replied(fields(reply), after, is_newest_first);
        }
        for source in 0..self.sources.len() {
            self.set_head(source);
        }
        self.starved = self.sources.iter().filter(|source| source.is_starved()).count();
    }

    /// The next entry, once no reads are needed.
    pub(super) fn next(&mut self) -> Option<Entry> {
        let Head { entry, source, .. } = self.heads.pop()?;
        self.sources[source].has_head = false;
        self.set_head(source);
        self.starved += usize::from(self.sources[source].is_starved());
        Some(entry)
    }

    fn set_head(&mut self, at: usize) {
        let source = &mut self.sources[at];
        if !source.has_head
            && let Some(entry) = source.read.pop_front()
        {
            source.has_head = true;
            let is_newest_first = self.is_newest_first;
            self.heads.push(Head { entry, source: at, is_newest_first });
        }
    }

    fn read(&self, source: &Source) -> Command {
        let name = if self.is_newest_first { "ZREVRANGEBYSCORE" } else { "ZRANGEBYSCORE" };
        let (skip, count) = (source.skip.to_string(), source.count.to_string());
        let range = [
            source.from.as_bytes(),
            self.until.as_bytes(),
            b"WITHSCORES",
            b"LIMIT",
            skip.as_bytes(),
            count.as_bytes(),
        ];
        Command::read(name, &source.key, &range)
    }
}

impl Source {
    /// Whether its next entry is unknown.
    fn is_starved(&self) -> bool {
        !self.has_head && !self.is_exhausted
    }

    /// Whether it is worth reading on together with a source that has to.
    fn is_low(&self) -> bool {
        !self.is_exhausted && self.read.len() <= self.count / 8
    }

    fn replied(&mut self, flat: Vec<String>, after: Option<&Entry>, is_newest_first: bool) {
        self.is_exhausted = flat.len() < 2 * self.count;
        self.count = (2 * self.count).min(COUNT_MAX);
        let mut flat = flat.into_iter();
        while let (Some(member), Some(score)) = (flat.next(), flat.next()) {
            self.skip = if score == self.from { self.skip + 1 } else { 1 };
            self.from.clone_from(&score);
            let Some(entry) = Entry::new(Position { score, member }) else { continue };
            let is_new = after.is_none_or(|after| match is_newest_first {
                true => entry.order(after).is_lt(),
                false => entry.order(after).is_gt(),
            });
            if is_new {
                self.read.push_back(entry);
            }
        }
    }
}

/// Up to this number of indexes, more is read of each at first.
const FEW_SOURCES: usize = 64;
/// Most entries of one read.
const COUNT_MAX: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    fn id(partition: usize, n: usize) -> String {
        format!("{{fp:{partition}}}:00000000-0000-4000-8000-{n:012}")
    }

    /// Answers a read as a server with these entries would.
    fn answer(command: &Command, all: &[Vec<(i64, String)>]) -> Value {
        let word = |at: usize| String::from_utf8(command.argv[at].clone()).unwrap();
        let partition = (0..all.len()).find(|at| word(1).contains(&format!("{{fp:{at}}}")));
        let number = |text: String| text.parse::<f64>().unwrap();
        let (from, until) = (number(word(2)), number(word(3)));
        let (skip, count): (usize, usize) = (word(6).parse().unwrap(), word(7).parse().unwrap());
        let mut entries = all[partition.unwrap()].clone();
        entries.sort();
        let newest_first = word(0) == "ZREVRANGEBYSCORE";
        if newest_first {
            entries.reverse();
        }
        let (low, high) = if newest_first { (until, from) } else { (from, until) };
        let within = entries.into_iter().filter(|(score, _)| {
            let score = *score as f64;
            low <= score && score <= high
        });
        let page = within.skip(skip).take(count);
        let flat = page.flat_map(|(score, member)| [member, score.to_string()]);
        Value::Array(flat.map(|text| Value::Bulk(text.into_bytes())).collect())
    }

    fn walk(merge: &mut Merge, all: &[Vec<(i64, String)>], most: usize) -> Vec<Position> {
        let mut met = Vec::new();
        while met.len() < most {
            let reads = merge.reads();
            if !reads.is_empty() {
                merge.replied(reads.iter().map(|read| answer(read, all)).collect());
                continue;
            }
            let Some(entry) = merge.next() else { break };
            met.push(entry.position);
        }
        met
    }

    #[test]
    fn every_entry_is_met_once_and_in_order_however_often_the_walk_stops() {
        // Many entries share a score, within partitions and across them.
        let all: Vec<Vec<(i64, String)>> = (0..5)
            .map(|at| (0..at * 150).map(|n| ((n / 40) as i64, id(at, n))).collect())
            .collect();
        let lanes = ["default".parse().unwrap()];
        for (index, newest_first) in [(LaneIndex::Terminal, true), (LaneIndex::Delayed, false)] {
            let mut expected: Vec<_> = all.iter().flatten().cloned().collect();
            expected.sort();
            if newest_first {
                expected.reverse();
            }
            for step in [1, 7, 64, 5_000] {
                let (mut met, mut after) = (Vec::new(), None);
                loop {
                    let mut merge = Merge::new(index, &lanes, 5, after, (i64::MIN, i64::MAX));
                    let some = walk(&mut merge, &all, step);
                    let Some(last) = some.last().cloned() else { break };
                    after = Some(last);
                    met.extend(some);
                }
                let met: Vec<_> = met.into_iter().map(|met| met.member).collect();
                assert!(met.iter().eq(expected.iter().map(|(_, id)| id)), "{index:?} {step}");
            }
        }
    }

    #[test]
    fn ended_executions_outside_of_the_window_are_not_read() {
        let all = vec![(0..100).map(|n| (n as i64, id(0, n))).collect::<Vec<_>>()];
        let lanes = ["default".parse().unwrap()];
        let mut merge = Merge::new(LaneIndex::Terminal, &lanes, 1, None, (10, 12));
        let met = walk(&mut merge, &all, 1_000);
        let scores: Vec<&str> = met.iter().map(|met| met.score.as_str()).collect();
        assert_eq!(scores, ["12", "11", "10"]);
    }
}
