//! One scanner's way along one index of one partition: page by page, the candidates of a page side
//! by side.
//!
//! Entries that stay in the index are passed by offset, so candidates that cannot be acted on never
//! hide those behind them.

use alloc::vec::Vec;

use super::page::PageRequest;
use crate::call::library::{Page, PageMode};
use crate::partition::Partition;
use crate::time::{LocalTime, ServerTime};

/// Members of an index with their scores.
pub(super) type Members = Vec<(Vec<u8>, Option<i64>)>;

/// A page whose candidates are being worked on.
#[derive(Debug)]
pub(super) struct IndexScan {
    pub(super) request: PageRequest,
    pub(super) partition: Partition,
    /// When the page arrived.
    pub(super) started: LocalTime,
    /// Candidates without an outcome yet.
    open: usize,
    /// Members of the page that are still in the index.
    remaining: u64,
    /// Whether the page was as long as it could be.
    is_full: bool,
    /// The cursor that the server returned, for a set.
    set_cursor: u64,
}

impl IndexScan {
    /// Takes up a page; also returns the members of it that are new to this scan.
    pub(super) fn new(
        mut request: PageRequest,
        partition: Partition,
        page: Page,
        (started, now): (LocalTime, ServerTime),
    ) -> (Self, Members) {
        let limit = usize::try_from(request.query.limit).unwrap_or(usize::MAX);
        let mut members = page.members;
        if let Some(keep) = request.keep {
            let surplus = page.size.saturating_sub(keep).saturating_sub(request.query.from);
            members.truncate(usize::try_from(surplus).unwrap_or(usize::MAX));
        }
        let offered = members.len();
        let oldest = request.younger_than_ms.map(|age| now.0.saturating_sub_unsigned(age));
        members.retain(|(member, score)| {
            score.zip(oldest).is_none_or(|(score, oldest)| score > oldest)
                && request.seen.insert(member.clone())
        });
        let scan = Self {
            partition,
            started,
            open: members.len(),
            remaining: u64::try_from(offered - members.len()).unwrap_or(u64::MAX),
            is_full: offered >= limit,
            set_cursor: page.next.unwrap_or(0),
            request,
        };
        (scan, members)
    }

    /// A candidate has its outcome; `remains` says whether it is still in the index.
    pub(super) fn candidate_done(&mut self, remains: bool) {
        self.open = self.open.saturating_sub(1);
        self.remaining += u64::from(remains);
    }

    /// Whether every candidate of the page has its outcome.
    pub(super) const fn is_done(&self) -> bool {
        self.open == 0
    }

    /// Where the index goes on after this page; none at its end.
    pub(super) fn next_cursor(&self) -> Option<u64> {
        match self.request.query.mode {
            PageMode::Size => None,
            PageMode::Members => (self.set_cursor != 0).then_some(self.set_cursor),
            PageMode::Due | PageMode::All => {
                self.is_full.then_some(self.request.query.from + self.remaining)
            }
        }
    }

    /// Whether more work may wait at the next cursor. A set has no order: it is read at its own
    /// pace.
    pub(super) fn has_more_due(&self) -> bool {
        self.next_cursor().is_some() && self.request.query.mode != PageMode::Members
    }
}
