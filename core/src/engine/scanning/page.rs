//! Reading pages: which index pages a scanner's scan of a partition starts with, the command that
//! reads them, and what it replied.

use alloc::collections::BTreeSet;
use alloc::string::ToString;
use alloc::vec::Vec;

use super::cursors::{CursorKey, Cursors};
use crate::call::Function;
use crate::call::library::{
    AuditExecutions, AuditedPage, Page, PageMode, PageQuery, Pages, ScanPartition,
};
use crate::command::Command;
use crate::command::Reply;
use crate::engine::config::EngineConfig;
use crate::engine::scanners::{SCANNERS, Source};
use crate::error::{CallError, ServerError};
use crate::id::LaneId;
use crate::key::Key;
use crate::partition::Partition;
use crate::time::ServerTime;

/// Pages of one index that a scan reads before other scans have their turn.
const PAGES_MAX: u32 = 40;
/// The same for a slow sweep.
const SWEEP_PAGES_MAX: u32 = 1;

/// Pages read by one call. Those that are not empty cost the server a few commands each, and every
/// lane has several.
const PAGES_PER_CALL: usize = 256;

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
    /// Whether it is read by an audit, in its own time.
    pub(super) is_audit: bool,
    /// For an audit: when its pass began, once its first page was read.
    pub(super) pass_began: Option<ServerTime>,
    /// For a surplus: so many of the last members are not looked at.
    pub(super) keep: Option<u64>,
}

impl PageRequest {
    /// The page to audit, where there is something to audit.
    pub(super) fn into_audit(mut self) -> Self {
        self.query.mode = PageMode::Members;
        self.is_audit = true;
        self
    }

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
            // Its pace bounds it.
            Source::Audit(_) => (u32::MAX, None),
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
                is_audit: false,
                pass_began: None,
                keep: config.keep_ended.filter(|_| matches!(source, Source::SurplusInLane(_))),
            });
        };
        match *source {
            Source::Due(whole) => add(index.whole(whole), PageMode::Due, 0, None),
            Source::Members(whole) => add(index.whole(whole), PageMode::Members, 0, None),
            // The visit only sees whether there is anything to audit.
            Source::Audit(whole) => add(index.whole(whole), PageMode::Size, 0, None),
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

/// The reply to an audit of a page, as a page of what it found.
pub(super) fn parse_audit(reply: Option<Reply>) -> Result<(AuditedPage, Page), ServerError> {
    let reply = reply.unwrap_or_else(|| Err(ServerError::silence("no answer")));
    let audited = parse_as::<AuditExecutions>(reply)?;
    let members = audited.wrong.iter().map(|member| (member.clone(), None)).collect();
    let page = Page { size: audited.size, next: Some(audited.next), members };
    Ok((audited, page))
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
    let pages = parse_as::<ScanPartition>(reply)?;
    if pages.pages.len() == requested {
        Ok(pages)
    } else {
        Err(ServerError::from_reply("as many pages as requests were expected"))
    }
}

fn parse_as<F: Function>(reply: Reply) -> Result<F::Reply, ServerError> {
    reply.map_err(CallError::from).and_then(F::parse).map_err(|error| match error {
        CallError::Server(error) => error,
        other @ (CallError::Refused(_) | CallError::Broken(_)) => {
            ServerError::from_reply(other.to_string())
        }
    })
}
