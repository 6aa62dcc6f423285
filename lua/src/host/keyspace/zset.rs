//! Sorted sets: members found by name in one tree and by score in another.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

/// A sorted set. Both trees share the bytes of the member.
#[derive(Clone, Debug, Default)]
pub(crate) struct Zset {
    scores: BTreeMap<Arc<[u8]>, f64>,
    ranking: BTreeSet<Ranked>,
}

/// A member at its place: by score, then by its bytes. Scores are never NaN, and never minus zero,
/// which would sort before zero without being less.
#[derive(Clone, Debug)]
struct Ranked {
    score: f64,
    member: Arc<[u8]>,
}

/// Scores from `min` to `max`, either end left out if it is exclusive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScoreRange {
    pub(crate) min: f64,
    pub(crate) min_exclusive: bool,
    pub(crate) max: f64,
    pub(crate) max_exclusive: bool,
}

/// One end of a range of members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LexBound {
    /// `-`: before every member.
    Lowest,
    /// `+`: behind every member.
    Highest,
    Included(Vec<u8>),
    Excluded(Vec<u8>),
}

/// Members from `min` to `max` by their bytes.
#[derive(Clone, Debug)]
pub(crate) struct LexRange {
    pub(crate) min: LexBound,
    pub(crate) max: LexBound,
}

impl Zset {
    /// Gives a member a score and answers the one it had.
    pub(crate) fn set(&mut self, member: &[u8], score: f64) -> Option<f64> {
        let score = score + 0.0; // minus zero becomes zero
        let Some(known) = self.scores.get_mut(member) else {
            let member: Arc<[u8]> = member.into();
            self.scores.insert(Arc::clone(&member), score);
            self.ranking.insert(Ranked { score, member });
            return None;
        };
        let before = std::mem::replace(known, score);
        if before != score {
            let place = Ranked { score: before, member: member.into() };
            let mut ranked = self.ranking.take(&place).unwrap_or(place);
            ranked.score = score;
            self.ranking.insert(ranked);
        }
        Some(before)
    }

    /// Removes a member and answers the score it had.
    pub(crate) fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let (member, score) = self.scores.remove_entry(member)?;
        self.ranking.remove(&Ranked { score, member });
        Some(score)
    }

    pub(crate) fn score(&self, member: &[u8]) -> Option<f64> {
        self.scores.get(member).copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.scores.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.scores.is_empty()
    }

    /// How many members rank before this one. A walk from the start: linear.
    pub(crate) fn rank(&self, member: &[u8]) -> Option<usize> {
        let score = self.score(member)?;
        let place = Ranked { score, member: member.into() };
        Some(self.ranking.range(..place).count())
    }

    /// All members by rank.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (&[u8], f64)> + ExactSizeIterator {
        self.ranking.iter().map(|ranked| (&*ranked.member, ranked.score))
    }

    /// The members whose scores lie in the range, by rank.
    pub(crate) fn by_score(
        &self,
        range: ScoreRange,
    ) -> impl DoubleEndedIterator<Item = (&[u8], f64)> {
        // Scores form a ladder of doubles: one step up turns "up to and with" into "below".
        let floor = if range.min_exclusive { range.min.next_up() } else { range.min };
        let ceiling = if range.max_exclusive { range.max } else { range.max.next_up() };
        let open_top = range.max == f64::INFINITY && !range.max_exclusive;
        let empty = range.min > range.max
            || (range.min_exclusive && range.min == f64::INFINITY)
            || (!open_top && floor >= ceiling);
        let at = |score: f64| Ranked { score: score + 0.0, member: Arc::from([]) };
        let bounds = if empty {
            (Bound::Included(at(0.0)), Bound::Excluded(at(0.0)))
        } else if open_top {
            (Bound::Included(at(floor)), Bound::Unbounded)
        } else {
            (Bound::Included(at(floor)), Bound::Excluded(at(ceiling)))
        };
        self.ranking.range(bounds).map(|ranked| (&*ranked.member, ranked.score))
    }

    /// The members in the range, by rank. Means something only where all scores are equal;
    /// elsewhere it answers what the server's compact encoding does: from the first member that
    /// reaches the lower end up to the last before one that passes the upper end.
    pub(crate) fn by_lex(&self, range: &LexRange) -> Vec<(&[u8], f64)> {
        let members = self.spans(range).then(|| self.iter()).into_iter().flatten();
        members
            .skip_while(|(member, _)| !range.min.is_reached_by(member))
            .take_while(|(member, _)| range.max.covers(member))
            .collect()
    }

    /// As [`Zset::by_lex`], walked from the far end.
    pub(crate) fn by_lex_reversed(&self, range: &LexRange) -> Vec<(&[u8], f64)> {
        let members = self.spans(range).then(|| self.iter().rev()).into_iter().flatten();
        members
            .skip_while(|(member, _)| !range.max.covers(member))
            .take_while(|(member, _)| range.min.is_reached_by(member))
            .collect()
    }

    /// Whether the range begins before the last member and ends behind the first: the server's
    /// first look, which decides alone where members are not in order.
    fn spans(&self, range: &LexRange) -> bool {
        let (first, last) = (self.ranking.first(), self.ranking.last());
        first.is_some_and(|first| range.max.covers(&first.member))
            && last.is_some_and(|last| range.min.is_reached_by(&last.member))
    }
}

impl LexBound {
    /// As a lower end: whether the member is inside.
    fn is_reached_by(&self, member: &[u8]) -> bool {
        match self {
            LexBound::Lowest => true,
            LexBound::Highest => false,
            LexBound::Included(bound) => member >= bound.as_slice(),
            LexBound::Excluded(bound) => member > bound.as_slice(),
        }
    }

    /// As an upper end: whether the member is inside.
    fn covers(&self, member: &[u8]) -> bool {
        match self {
            LexBound::Lowest => false,
            LexBound::Highest => true,
            LexBound::Included(bound) => member <= bound.as_slice(),
            LexBound::Excluded(bound) => member < bound.as_slice(),
        }
    }
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then_with(|| self.member.cmp(&other.member))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ranked {}
