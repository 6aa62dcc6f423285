//! [`ListCursor`]: where a list of executions continues, as text that can be given back.

use std::fmt;
use std::str::FromStr;

use selvedge_core::id::{ExecutionId, LaneId};
use selvedge_core::key::LaneIndex;
use thiserror::Error;

/// Where a list of executions continues: behind an entry of an index, or at the beginning of the
/// indexes of a lane. Its text is `INDEX/LANE`, or `INDEX/SCORE/EXECUTION/LANE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListCursor {
    pub(super) index: LaneIndex,
    /// The first lane that is read together with others.
    pub(super) lane: LaneId,
    /// The last entry that was looked at.
    pub(super) after: Option<Position>,
}

/// An entry of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Position {
    /// Its score, as the server wrote it.
    pub(super) score: String,
    pub(super) member: String,
}

/// A text that is no cursor.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` is not a cursor that a list has returned")]
pub struct InvalidCursor(pub String);

impl fmt::Display for ListCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { index, lane, after } = self;
        match after {
            Some(Position { score, member }) => {
                write!(f, "{}/{score}/{member}/{lane}", index.as_str())
            }
            None => write!(f, "{}/{lane}", index.as_str()),
        }
    }
}

impl FromStr for ListCursor {
    type Err = InvalidCursor;

    fn from_str(text: &str) -> Result<Self, InvalidCursor> {
        read(text).ok_or_else(|| InvalidCursor(text.to_owned()))
    }
}

fn read(text: &str) -> Option<ListCursor> {
    let (index, rest) = text.split_once('/')?;
    let index = index.parse().ok()?;
    // The name of a lane may contain slashes, so the form with an entry is tried first.
    let after = |rest: &str| {
        let mut parts = rest.splitn(3, '/');
        let (score, member, lane) = (parts.next()?, parts.next()?, parts.next()?);
        score.parse::<f64>().ok().filter(|score| !score.is_nan())?;
        member.parse::<ExecutionId>().ok()?;
        let position = Position { score: score.to_owned(), member: member.to_owned() };
        Some(ListCursor { index, lane: lane.parse().ok()?, after: Some(position) })
    };
    after(rest).or_else(|| Some(ListCursor { index, lane: rest.parse().ok()?, after: None }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written() {
        let member = "{fp:7}:00000000-0000-4000-8000-000000000001".to_owned();
        for lane in ["default", "a/b c"] {
            for after in [None, Some(Position { score: "-9e+15".into(), member: member.clone() })] {
                let lane = lane.parse().unwrap();
                let cursor = ListCursor { index: LaneIndex::BlockedQuota, lane, after };
                assert_eq!(cursor.to_string().parse(), Ok(cursor));
            }
        }
        for odd in ["", "terminal", "terminal/", "nowhere/default"] {
            assert!(odd.parse::<ListCursor>().is_err(), "{odd}");
        }
    }
}
