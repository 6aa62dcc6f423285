//! The generic scan: enumerate, inspect, act, classify. Written once, for every scanner.
//!
//! A *strip* is one scanner's way along one index of one partition: page by page, each page's
//! candidates side by side. Paging moves on: what stays in the index is passed by offset, so
//! candidates that cannot be acted on never hide those behind them. A strip that has had its share
//! of pages remembers where it stopped and goes on there next time.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::scan::{Candidate, SCANNERS, Scene, Source};
use super::step::{Fate, Step, Verdict};
use super::wire::Command;
use crate::call::library::{Page, PageMode, PageRequest, SetAside, SetAsideReply};
use crate::id::{ExecutionId, LaneId};
use crate::key::Key;
use crate::partition::Partition;
use crate::time::ServerTime;
use crate::value::Value;

/// Pages that a strip may take in one go before others have their turn.
pub const PAGES_MAX: u32 = 40;
/// The same for a slow sweep.
const SWEEP_PAGES_MAX: u32 = 5;

/// Which scanner, which of its sources, which index.
pub(super) type PlaceKey = (usize, usize, Key);

/// Places in indexes that strips remember until their next turn.
pub(super) type Places = BTreeMap<PlaceKey, u64>;

/// Members of an index with their scores.
pub(super) type Members = Vec<(Vec<u8>, Option<i64>)>;

/// One page to be read for one scanner.
#[derive(Clone, Debug)]
pub(super) struct Order {
    pub(super) scanner: usize,
    source: usize,
    pub(super) lane: Option<LaneId>,
    pub(super) request: PageRequest,
    /// Pages read before this one, in this go.
    pub(super) pages: u32,
    /// Pages in one go, at most.
    pub(super) pages_max: u32,
    /// Who was offered in this go. Whoever turns up again is passed over, so the way leads on even
    /// past entries that a function called gone and that are not.
    met: BTreeSet<Vec<u8>>,
    /// In a sweep: what is older than this is another source's.
    younger_than_ms: Option<u64>,
}

impl Order {
    pub(super) fn place_key(&self) -> PlaceKey {
        (self.scanner, self.source, self.request.index.clone())
    }
}

/// The orders of a scanner's whole turn on a partition: one per index.
pub(super) fn orders(
    scanner: usize,
    partition: Partition,
    lanes: &[LaneId],
    places: &Places,
) -> Vec<Order> {
    let spec = SCANNERS[scanner].spec();
    let index = Key::index(partition);
    let mut orders = Vec::new();
    for (at, source) in spec.sources.iter().enumerate() {
        let mut add = |key: Key, mode, lag_ms, lane: Option<&LaneId>| {
            let from = places.get(&(scanner, at, key.clone())).copied().unwrap_or(0);
            orders.push(Order {
                scanner,
                source: at,
                lane: lane.cloned(),
                request: PageRequest { index: key, mode, from, limit: spec.batch, lag_ms },
                pages: 0,
                met: BTreeSet::new(),
                younger_than_ms: match *source {
                    Source::SweepLane(_, older_ms) => Some(older_ms),
                    Source::Due(_)
                    | Source::DueInLane(..)
                    | Source::AllInLane(_)
                    | Source::Members(_) => None,
                },
                pages_max: match source {
                    Source::SweepLane(..) => SWEEP_PAGES_MAX,
                    Source::Due(_)
                    | Source::DueInLane(..)
                    | Source::AllInLane(_)
                    | Source::Members(_) => PAGES_MAX,
                },
            });
        };
        match *source {
            Source::Due(whole) => add(index.whole(whole), PageMode::Due, 0, None),
            Source::Members(whole) => add(index.whole(whole), PageMode::Members, 0, None),
            Source::DueInLane(of_lane, lag_ms) => {
                for lane in lanes {
                    add(index.lane(lane, of_lane), PageMode::Due, lag_ms, Some(lane));
                }
            }
            Source::SweepLane(of_lane, _) | Source::AllInLane(of_lane) => {
                for lane in lanes {
                    add(index.lane(lane, of_lane), PageMode::All, 0, Some(lane));
                }
            }
        }
    }
    orders
}

/// A page whose candidates are being worked on.
#[derive(Debug)]
pub(super) struct Strip {
    pub(super) order: Order,
    pub(super) partition: Partition,
    /// Candidates without a verdict yet.
    pub(super) live: usize,
    /// Candidates that are still in the index.
    stayed: u64,
    /// Whether the page was as long as it could be.
    full: bool,
    /// The cursor to go on with, for a set.
    cursor: u64,
}

impl Strip {
    /// The strip, and those of its page who are new.
    pub(super) fn new(
        mut order: Order,
        partition: Partition,
        page: Page,
        now: ServerTime,
    ) -> (Self, Members) {
        let limit = usize::try_from(order.request.limit).unwrap_or(usize::MAX);
        let offered = page.members.len();
        let mut fresh = page.members;
        let oldest = order.younger_than_ms.map(|age| now.0.saturating_sub_unsigned(age));
        fresh.retain(|(member, score)| {
            score.zip(oldest).is_none_or(|(score, oldest)| score > oldest)
                && order.met.insert(member.clone())
        });
        let strip = Self {
            partition,
            live: fresh.len(),
            stayed: u64::try_from(offered - fresh.len()).unwrap_or(u64::MAX),
            full: offered >= limit,
            cursor: page.next.unwrap_or(0),
            order,
        };
        (strip, fresh)
    }

    pub(super) fn settle(&mut self, verdict: &Verdict) {
        self.live = self.live.saturating_sub(1);
        self.stayed += u64::from(verdict.stays);
    }

    /// Whether at `place` there is more of what it looks for: what is due, or of an index in order
    /// what may be. A set is gone through in no order, and at its own pace.
    pub(super) fn leaves_due(&self, place: Option<u64>) -> bool {
        place.is_some() && self.order.request.mode != PageMode::Members
    }

    /// Where the index goes on after this page; none at its end.
    pub(super) fn next_place(&self) -> Option<u64> {
        match self.order.request.mode {
            PageMode::Members => (self.cursor != 0).then_some(self.cursor),
            PageMode::Due | PageMode::All => {
                self.full.then_some(self.order.request.from + self.stayed)
            }
        }
    }
}

/// A candidate's whole way: the filter, the scanner's own steps, and poison set aside.
pub(super) fn walk(scanner: usize, scene: Scene, candidate: Candidate) -> Step {
    match candidate.execution(&scene) {
        Ok(id) if SCANNERS[scanner].spec().filtered => {
            if_ours(&scene.clone(), &id, move || work(scanner, scene, candidate))
        }
        // Not readable, so nobody's in particular: the scanner will call it poison.
        Ok(_) | Err(_) => work(scanner, scene, candidate),
    }
}

/// Goes on with an execution that the engine's filter lets pass; skips any other.
pub(super) fn if_ours(
    scene: &Scene,
    id: &ExecutionId,
    then: impl FnOnce() -> Step + Send + 'static,
) -> Step {
    keep_ours(scene, alloc::vec![id.clone()], |ours, unknown| match unknown {
        Some(verdict) => verdict.into(),
        None if ours.is_empty() => Verdict::skipped().into(),
        None => then(),
    })
}

/// Goes on with those executions that the engine's filter lets pass. What cannot be read does not;
/// when that is the store's fault, the verdict says so, because it may be ours after all.
pub(super) fn keep_ours(
    scene: &Scene,
    ids: Vec<ExecutionId>,
    then: impl FnOnce(Vec<ExecutionId>, Option<Verdict>) -> Step + Send + 'static,
) -> Step {
    let filter = &scene.config.filter;
    if filter.is_open() {
        return then(ids, None);
    }
    let mut reads = Vec::new();
    let mut wanted = Vec::new();
    for id in &ids {
        let keys = Key::execution(id);
        if let Some(namespace) = &filter.namespace {
            reads.push(Command::read("HGET", &keys.core(), &[b"namespace"]));
            wanted.push(namespace.clone());
        }
        if let Some((tag, value)) = &filter.instance_tag {
            reads.push(Command::read("HGET", &keys.tags(), &[tag.as_bytes()]));
            wanted.push(value.clone());
        }
    }
    Step::read(reads, move |replies| {
        let per_id = wanted.len() / ids.len().max(1);
        let unknown = replies
            .iter()
            .filter_map(|reply| reply.as_ref().err())
            .map(|error| Verdict::error(error.clone().into()))
            .find(|verdict| matches!(verdict.fate, Fate::NotNow(_) | Fate::Perhaps(_)));
        let fits: Vec<bool> = replies
            .into_iter()
            .zip(wanted)
            .map(|(reply, wanted)| reply == Ok(Value::Bulk(wanted.into_bytes())))
            .collect();
        let ours = ids
            .into_iter()
            .zip(fits.chunks(per_id.max(1)))
            .filter(|(_, fits)| fits.iter().all(|fit| *fit))
            .map(|(id, _)| id)
            .collect();
        then(ours, unknown)
    })
}

fn work(scanner: usize, scene: Scene, candidate: Candidate) -> Step {
    let step = SCANNERS[scanner].begin(&scene, &candidate).unwrap_or_else(Step::from);
    step.and_then(move |verdict| match verdict.fate {
        Fate::Poison(reason) => set_aside(&scene, candidate, reason),
        Fate::Processed(_)
        | Fate::Nothing
        | Fate::Refused(_)
        | Fate::NotNow(_)
        | Fate::Perhaps(_)
        | Fate::Failed(_)
        | Fate::Skipped => verdict.into(),
    })
}

fn set_aside(scene: &Scene, candidate: Candidate, reason: &'static str) -> Step {
    let call = SetAside {
        partition: scene.partition,
        index: candidate.index,
        member: candidate.member,
        reason: reason.into(),
    };
    Step::call(&call, move |reply| match reply {
        Ok(SetAsideReply::SetAside | SetAsideReply::AlreadyGone) => {
            Step::Done(Verdict { stays: false, ..Verdict::poison(reason) })
        }
        Ok(SetAsideReply::Kept) => Verdict::poison(reason).into(),
        Err(error) => Verdict::error(error).into(),
    })
}
