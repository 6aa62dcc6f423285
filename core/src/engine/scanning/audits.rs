//! Audits: pages of executions are compared with their indexes one page at a time, over all
//! partitions in turn, as slowly as the configuration says. Due work never waits for them.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use super::Scanning;
use super::event::{Continuation, Event, Resume};
use super::page::{PageRequest, parse_audit};
use crate::call::library::AuditExecutions;
use crate::command::{Command, Reply};
use crate::engine::config::AuditPace;
use crate::engine::observe::Observation;
use crate::id::LaneId;
use crate::partition::Partition;
use crate::requests::Priority;
use crate::time::{LocalTime, ServerTime};

/// The times of an execution's end and of a pass are those of servers that may have followed each
/// other: what ended so shortly before a pass is read by the next one again.
const CLOCK_MARGIN_MS: u64 = 60_000;

/// Lanes in which ended executions are looked for: a command each.
const LANES_MAX: usize = 64;

/// The pages that wait to be audited, and when the next one may be.
#[derive(Debug)]
pub(super) struct Audits {
    pace: AuditPace,
    queue: VecDeque<(Partition, PageRequest)>,
    /// Since when a page is being read.
    reading_since: Option<LocalTime>,
    next_at: LocalTime,
    /// By partition: the records of executions that ended before this have been read.
    read_until: BTreeMap<Partition, ServerTime>,
}

impl Audits {
    pub(super) fn new(pace: AuditPace, now: LocalTime) -> Self {
        Self {
            pace,
            queue: VecDeque::new(),
            reading_since: None,
            next_at: now,
            read_until: BTreeMap::new(),
        }
    }

    /// A page to read when its turn comes.
    pub(super) fn add(&mut self, partition: Partition, request: PageRequest) {
        self.queue.push_back((partition, request));
    }

    /// The next page, if it is time for one.
    pub(super) fn next_page(&mut self, now: LocalTime) -> Option<(Partition, PageRequest)> {
        if self.reading_since.is_some() || now < self.next_at {
            return None;
        }
        let page = self.queue.pop_front()?;
        self.reading_since = Some(now);
        Some(page)
    }

    /// The call that reads a page.
    pub(super) fn command(
        &self,
        partition: Partition,
        request: &PageRequest,
        lanes: &[LaneId],
    ) -> Command {
        Command::call(&AuditExecutions {
            partition,
            cursor: request.query.from,
            limit: request.query.limit,
            ended_before: self.read_until.get(&partition).copied().unwrap_or(ServerTime(0)),
            lanes: lanes.iter().take(LANES_MAX).cloned().collect(),
        })
    }

    /// A page was read, by so many commands inside the server; a failed call counts as one.
    pub(super) fn page_answered(&mut self, now: LocalTime, commands: u64) {
        let Some(since) = self.reading_since.take() else { return };
        // A call takes at least a part of the millisecond that its end is in.
        let took = Duration::from_millis(now.0 - since.0 + 1);
        self.next_at = now.after(self.pace.pause(took, commands));
    }

    /// The time to note for a pass that begins now.
    pub(super) fn pass_start(now: ServerTime) -> ServerTime {
        ServerTime(now.0.saturating_sub_unsigned(CLOCK_MARGIN_MS).max(0))
    }

    /// A pass over a partition that began at this time has ended.
    pub(super) fn pass_ended(&mut self, partition: Partition, began: ServerTime) {
        self.read_until.insert(partition, began);
    }

    /// Records may have changed behind the engine's back: every one is read again.
    pub(super) fn forget(&mut self) {
        self.read_until.clear();
    }

    /// When the next page may be read.
    pub(super) fn deadline(&self) -> Option<LocalTime> {
        (self.reading_since.is_none() && !self.queue.is_empty()).then_some(self.next_at)
    }
}

impl Scanning {
    /// Reads the next page that is to be audited, if it is time for one.
    pub(super) fn start_audit(&mut self, now: LocalTime) {
        if !self.draining
            && let Some((partition, request)) = self.audits.next_page(now)
        {
            let command = self.audits.command(partition, &request, &self.lanes);
            let continuation = Continuation(Resume::Audit(partition, Box::new(request)));
            self.events.push(Event::Request(
                alloc::vec![command],
                Priority::Background,
                continuation,
            ));
        }
    }

    /// A page was audited.
    pub(super) fn audit_read(
        &mut self,
        now: LocalTime,
        partition: Partition,
        mut request: PageRequest,
        replies: Vec<Reply>,
    ) {
        match parse_audit(replies.into_iter().next()) {
            Ok((audited, page)) => {
                self.audits.page_answered(now, audited.commands);
                if request.query.from == 0 {
                    request.pass_began = Some(Audits::pass_start(audited.now));
                }
                self.page_read(now, partition, request, audited.now, page);
            }
            Err(error) => {
                self.audits.page_answered(now, 1);
                self.cadence.visit_failed(partition);
                self.events.extend(Observation::of_server_error(&error).map(Event::Observe));
                self.pages_failed(now, partition, &[request], error);
            }
        }
    }
}
