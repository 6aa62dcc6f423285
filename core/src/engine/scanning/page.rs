//! Reading pages: which index pages a scanner's scan of a partition starts with, the command that
//! reads them, and what it replied.

use alloc::collections::BTreeSet;
use alloc::string::ToString;
use alloc::vec::Vec;

use super::cursors::{CursorKey, Cursors};
use crate::call::Function;
use crate::call::library::{PageMode, PageQuery, Pages, ScanPartition};
use crate::command::Command;
use crate::command::Reply;
use crate::engine::config::EngineConfig;
use crate::engine::scanners::{SCANNERS, Source};
use crate::error::{CallError, ServerError};
use crate::id::LaneId;
use crate::key::Key;
use crate::partition::Partition;

/// Pages of one index that a scan reads before other scans have their turn.
const PAGES_MAX: u32 = 40;
/// The same for a slow sweep.
const SWEEP_PAGES_MAX: u32 = 1;

/// Pages read by one call. Each costs the server a few commands, and every lane has several.
const PAGES_PER_CALL: usize = 64;

/// One page of one index, to be read for one scanner.
#[derive(Clone, Debug)]
pub(super) struct PageRequest {
    pub(super) scanner: usize,
    source: usize,
    pub(super) lane: Option<LaneId>,
    pub(super) query: PageQuery,
    /// Pages of this index that the scan has read before.
    pub(super) pages_read: u32,
    pub(super) pages_max: u32,
    /// Members that the scan has seen. One that turns up again is passed over, so that a scan
    /// gets past entries which a function called gone and which are not.
    pub(super) seen: BTreeSet<Vec<u8>>,
    /// For a sweep: older members belong to another source.
    pub(super) younger_than_ms: Option<u64>,
    /// For a surplus: so many of the last members are not looked at.
    pub(super) keep: Option<u64>,
}

impl PageRequest {
    pub(super) fn cursor_key(&self) -> CursorKey {
        (self.scanner, self.source, self.query.index.clone())
    }
}

/// The first page of every index that a scanner reads on a partition. Each goes on where the last
/// scan stopped.
pub(super) fn first_pages(
    scanner: usize,
    partition: Partition,
    lanes: &[LaneId],
    cursors: &Cursors,
    config: &EngineConfig,
) -> Vec<PageRequest> {
    let spec = SCANNERS[scanner].spec();
    let index = Key::index(partition);
    let mut requests = Vec::new();
    for (at, source) in spec.sources.iter().enumerate() {
        let (pages_max, younger_than_ms) = match *source {
            Source::SweepLane(_, age) => (SWEEP_PAGES_MAX, Some(age.ms(config))),
            Source::SurplusInLane(_) if config.keep_ended.is_none() => continue,
            Source::SurplusInLane(_)
            | Source::Due(_)
            | Source::DueInLane(..)
            | Source::AllInLane(_)
            | Source::Members(_) => (PAGES_MAX, None),
        };
        let mut add = |key: Key, mode, lag_ms, lane: Option<&LaneId>| {
            let from = cursors.get(partition, &(scanner, at, key.clone()));
            requests.push(PageRequest {
                scanner,
                source: at,
                lane: lane.cloned(),
                query: PageQuery { index: key, mode, from, limit: spec.batch, lag_ms },
                pages_read: 0,
                pages_max,
                seen: BTreeSet::new(),
                younger_than_ms,
                keep: config.keep_ended.filter(|_| matches!(source, Source::SurplusInLane(_))),
            });
        };
        match *source {
            Source::Due(whole) => add(index.whole(whole), PageMode::Due, 0, None),
            Source::Members(whole) => add(index.whole(whole), PageMode::Members, 0, None),
            Source::DueInLane(of_lane, age) => {
                for lane in lanes {
                    add(index.lane(lane, of_lane), PageMode::Due, age.ms(config), Some(lane));
                }
            }
            Source::SurplusInLane(of_lane)
            | Source::SweepLane(of_lane, _)
            | Source::AllInLane(of_lane) => {
                for lane in lanes {
                    add(index.lane(lane, of_lane), PageMode::All, 0, Some(lane));
                }
            }
        }
    }
    requests
}

/// The calls that read these pages, so many at a time that none keeps a server busy for long.
pub(super) fn read_commands(requests: &[PageRequest]) -> Vec<Command> {
    let call = |requests: &[PageRequest]| {
        let requests = requests.iter().map(|request| request.query.clone()).collect();
        Command::call(&ScanPartition { requests })
    };
    requests.chunks(PAGES_PER_CALL).map(call).collect()
}

/// Sorts the replies to [`read_commands`] to the requests that they answer.
pub(super) fn parse_replies(
    mut requests: Vec<PageRequest>,
    replies: Vec<Reply>,
) -> Vec<(Result<Pages, ServerError>, Vec<PageRequest>)> {
    let mut read = Vec::new();
    for reply in replies {
        let rest = requests.split_off(requests.len().min(PAGES_PER_CALL));
        read.push((parse(reply, requests.len()), requests));
        requests = rest;
    }
    read
}

/// The pages of one call, as many as were requested.
fn parse(reply: Reply, requested: usize) -> Result<Pages, ServerError> {
    match reply.map_err(CallError::from).and_then(ScanPartition::parse) {
        Ok(pages) if pages.pages.len() == requested => Ok(pages),
        Ok(_) => Err(ServerError::from_reply("as many pages as requests were expected")),
        Err(CallError::Server(error)) => Err(error),
        Err(other @ (CallError::Refused(_) | CallError::Broken(_))) => {
            Err(ServerError::from_reply(other.to_string()))
        }
    }
}
