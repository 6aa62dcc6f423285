//! Scanning: visits to partitions, the pages that they read, and the candidates of those pages.
//!
//! A visit reads one page of every index that the due scanners need, with as few commands as
//! possible. Each page becomes an [`IndexScan`], whose candidates take their steps side by side;
//! when the last of them has its outcome, the next page is read. When all indexes of a scanner are
//! done, its scan of the partition ends and [`Cadence`] says when the next one begins.

mod audits;
mod cadence;
mod candidate;
mod cursors;
mod event;
mod failure_tracker;
mod index_scan;
mod outcome;
mod page;
mod pushes;
mod scan_state;
mod step;

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

pub(super) use candidate::{if_selected, keep_selected};
pub(super) use event::{Continuation, Event};
pub(super) use outcome::{CandidateOutcome, OutcomeKind};
pub(super) use step::ScanStep;

use audits::Audits;
use cadence::Cadence;
use cursors::Cursors;
use event::{CandidateId, Resume};
use index_scan::IndexScan;
use page::PageRequest;
use scan_state::ScanStates;

use super::config::EngineConfig;
use super::observe::Observation;
use super::scanners::{Candidate, SCANNERS, ScanContext, Source};
use crate::call::library::{Page, PageMode, Pages};
use crate::command::Reply;
use crate::error::ServerError;
use crate::id::LaneId;
use crate::partition::Partition;
use crate::requests::Priority;
use crate::time::{LocalTime, ServerTime};

/// All scans of an engine.
pub(super) struct Scanning {
    config: Arc<EngineConfig>,
    lanes: Vec<LaneId>,
    cadence: Cadence,
    cursors: Cursors,
    states: ScanStates,
    audits: Audits,
    index_scans: BTreeMap<u64, IndexScan>,
    next_id: u64,
    draining: bool,
    /// What the call under way leads to.
    events: Vec<Event>,
}

impl Scanning {
    pub(super) fn new(config: Arc<EngineConfig>, seed: u64, now: LocalTime) -> Self {
        let cadence = Cadence::new(&config, seed, now);
        Self {
            lanes: config.lanes.clone(),
            states: ScanStates::new(&cadence, now),
            cadence,
            cursors: Cursors::default(),
            audits: Audits::new(config.audit, now),
            index_scans: BTreeMap::new(),
            next_id: 0,
            draining: false,
            events: Vec::new(),
            config,
        }
    }

    /// Starts a visit to every partition that is due.
    pub(super) fn start_visits(&mut self, now: LocalTime) -> Vec<Event> {
        while !self.draining
            && let Some((partition, scanners)) = self.cadence.next_visit(now)
        {
            let mut requests = Vec::new();
            for scanner in scanners {
                let pages =
                    page::first_pages(scanner, partition, &self.lanes, &self.cursors, &self.config);
                self.states.begin(scanner, partition, pages.len(), now);
                // Without a lane there is nothing to read, and the scan is over.
                self.end_scan_if_done(now, scanner, partition);
                requests.extend(pages);
            }
            self.read_pages(partition, requests);
        }
        self.start_audit(now);
        core::mem::take(&mut self.events)
    }

    /// Goes on where replies were waited for.
    pub(super) fn resume(
        &mut self,
        now: LocalTime,
        continuation: Continuation,
        replies: Vec<Reply>,
    ) -> Vec<Event> {
        match continuation.0 {
            Resume::Pages(partition, requests) => {
                self.pages_read(now, partition, requests, replies);
            }
            Resume::Audit(partition, request) => {
                self.audit_read(now, partition, *request, replies);
            }
            Resume::Step(candidate, next) => {
                if let Some(scan) = self.index_scans.get(&candidate.index_scan) {
                    let step = next(self.states.scratch(scan.request.scanner), replies);
                    self.run(now, candidate, step);
                }
            }
        }
        core::mem::take(&mut self.events)
    }

    /// Takes on lanes from the registry. What waits in a new one has waited long enough.
    pub(super) fn set_lanes(&mut self, now: LocalTime, lanes: Vec<LaneId>) {
        let mut all = self.config.lanes.clone();
        all.extend(lanes);
        all.sort();
        all.dedup();
        let known = core::mem::replace(&mut self.lanes, all);
        self.cursors.keep_lanes(&self.lanes);
        if self.lanes.iter().any(|lane| !known.contains(lane)) {
            for scanner in SCANNERS.iter().map(|scanner| scanner.spec()) {
                if scanner.sources.iter().any(Source::is_by_lane) {
                    self.expedite_everywhere(now, scanner.name);
                }
            }
        }
    }

    /// Starts nothing from now on, not even the next step of a candidate.
    pub(super) fn drain(&mut self) {
        self.draining = true;
    }

    /// When the next visit is due.
    pub(super) fn deadline(&self) -> Option<LocalTime> {
        let due = [self.cadence.deadline(), self.audits.deadline()];
        if self.draining { None } else { due.into_iter().flatten().min() }
    }

    fn read_pages(&mut self, partition: Partition, requests: Vec<PageRequest>) {
        let (audited, requests): (Vec<_>, Vec<_>) =
            requests.into_iter().partition(|request| request.is_audit);
        for request in audited {
            self.audits.add(partition, request);
        }
        if requests.is_empty() {
            return;
        }
        let commands = page::read_commands(&requests);
        let continuation = Continuation(Resume::Pages(partition, requests));
        self.events.push(Event::Request(commands, Priority::Due, continuation));
    }

    fn pages_read(
        &mut self,
        now: LocalTime,
        partition: Partition,
        requests: Vec<PageRequest>,
        replies: Vec<Reply>,
    ) {
        let read = page::parse_replies(requests, replies);
        // First the partition's health, on which the next time of whatever ends now depends.
        match read.iter().find_map(|(pages, _)| pages.as_ref().err()) {
            Some(error) => {
                self.cadence.visit_failed(partition);
                self.events.extend(Observation::of_server_error(error).map(Event::Observe));
            }
            None => self.cadence.visit_answered(partition),
        }
        for (pages, requests) in read {
            match pages {
                Ok(Pages { now: server_now, pages }) => {
                    for (request, page) in requests.into_iter().zip(pages) {
                        match page {
                            Ok(page) => self.page_read(now, partition, request, server_now, page),
                            Err(error) => self.pages_failed(now, partition, &[request], error),
                        }
                    }
                }
                Err(error) => self.pages_failed(now, partition, &requests, error),
            }
        }
    }

    /// Sets the candidates of a page to work.
    fn page_read(
        &mut self,
        now: LocalTime,
        partition: Partition,
        request: PageRequest,
        server_now: ServerTime,
        page: Page,
    ) {
        let context = ScanContext { config: self.config.clone(), partition, now: server_now };
        self.states.page_read(partition, &request, server_now, &page);
        let scanner = request.scanner;
        if request.query.mode == PageMode::Size && page.size > 0 {
            return self.audits.add(partition, request.into_audit());
        }
        let (index, lane) = (request.query.index.clone(), request.lane.clone());
        let (scan, members) = IndexScan::new(request, partition, page, (now, server_now));
        let id = self.next_id;
        self.next_id += 1;
        self.index_scans.insert(id, scan);
        if members.is_empty() {
            return self.page_done(now, id);
        }
        for (member, score) in members {
            let candidate = Candidate { member, score, index: index.clone(), lane: lane.clone() };
            let label = candidate.label();
            let step = if self.states.should_skip(scanner, &label) {
                CandidateOutcome::skipped().into()
            } else {
                candidate::first_step(scanner, context.clone(), candidate)
            };
            self.run(now, CandidateId { index_scan: id, label }, step);
        }
    }

    /// Pages could not be read: what they would have offered is unknown.
    fn pages_failed(
        &mut self,
        now: LocalTime,
        partition: Partition,
        requests: &[PageRequest],
        error: ServerError,
    ) {
        let failed = Observation::PartitionFailed { partition, error };
        self.events.push(Event::Observe(failed));
        for request in requests {
            self.states.page_failed(request.scanner, partition);
        }
        let mut scanners: Vec<usize> = requests.iter().map(|request| request.scanner).collect();
        scanners.dedup();
        for scanner in scanners {
            self.end_scan_if_done(now, scanner, partition);
        }
    }

    /// Takes a candidate's steps until one has to wait for replies or is the last.
    fn run(&mut self, now: LocalTime, candidate: CandidateId, mut step: ScanStep) {
        let Some(scan) = self.index_scans.get(&candidate.index_scan) else { return };
        let scanner = scan.request.scanner;
        loop {
            match step {
                ScanStep::Send(commands, next) if commands.is_empty() => {
                    step = next(self.states.scratch(scanner), Vec::new());
                }
                // The work stays where it is.
                ScanStep::Send(..) if self.draining => {
                    let stopping = ServerError::never_sent("the engine is stopping");
                    step = CandidateOutcome::error(stopping.into()).into();
                }
                ScanStep::Send(commands, next) => {
                    let priority = SCANNERS[scanner].priority();
                    let continuation = Continuation(Resume::Step(candidate, next));
                    return self.events.push(Event::Request(commands, priority, continuation));
                }
                ScanStep::Done(outcome) => return self.candidate_done(now, candidate, outcome),
            }
        }
    }

    /// Counts a candidate's outcome; the last one ends the page.
    fn candidate_done(
        &mut self,
        now: LocalTime,
        candidate: CandidateId,
        mut outcome: CandidateOutcome,
    ) {
        let CandidateId { index_scan: id, label } = candidate;
        let observations = core::mem::take(&mut outcome.observations);
        self.events.extend(observations.into_iter().map(Event::Observe));
        if let OutcomeKind::NotNow(error) = &outcome.kind {
            self.events.extend(Observation::of_server_error(error).map(Event::Observe));
        }
        let Some(scan) = self.index_scans.get_mut(&id) else { return };
        scan.candidate_done(outcome.remains);
        let (scanner, partition) = (scan.request.scanner, scan.partition);
        let (is_done, started) = (scan.is_done(), scan.started);
        let observations = self.states.count(scanner, partition, label, &outcome);
        self.events.extend(observations.into_iter().map(Event::Observe));
        let skipped = outcome.skipped.into_iter();
        self.events.extend(skipped.map(|execution| Event::Skipped(execution, started)));
        if is_done {
            self.page_done(now, id);
        }
    }

    /// Reads the next page of an index, or ends its scan.
    fn page_done(&mut self, now: LocalTime, id: u64) {
        let Some(scan) = self.index_scans.remove(&id) else { return };
        let (partition, cursor) = (scan.partition, scan.next_cursor());
        let more_due = scan.has_more_due();
        let mut request = scan.request;
        let scanner = request.scanner;
        request.pages_read += 1;
        let stop = self.draining || self.states.is_denied(scanner, partition);
        match cursor {
            Some(cursor) if request.pages_read < request.pages_max && !stop => {
                request.query.from = cursor;
                self.read_pages(partition, vec![request]);
            }
            // Out of pages: the next scan goes on here. At the end: it starts over.
            cursor => {
                if let (None, Some(began)) = (cursor, request.pass_began) {
                    self.audits.pass_ended(partition, began);
                }
                self.cursors.set(partition, request.cursor_key(), cursor);
                self.states.index_done(scanner, partition, cursor.is_some(), more_due);
                self.end_scan_if_done(now, scanner, partition);
            }
        }
    }

    fn end_scan_if_done(&mut self, now: LocalTime, scanner: usize, partition: Partition) {
        let Some(scan) = self.states.take_finished(scanner, partition) else { return };
        if self.cadence.restarts_from_front(partition, scanner) {
            self.cursors.restart(scanner, partition);
        }
        self.cadence.finished(now, partition, scanner, scan.end);
        if !scan.counts.is_empty() {
            let name = SCANNERS[scanner].spec().name;
            let done = Observation::ScanDone { scanner: name, partition, counts: scan.counts };
            self.events.push(Event::Observe(done));
        }
        let observations = self.states.add_to_cycle(scanner, partition, &scan, now, &self.cadence);
        self.events.extend(observations.into_iter().map(Event::Observe));
    }
}
