//! Visits: every scanner whose time has come reads its pages of a partition with one command, and
//! what they offer is worked on side by side.

use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use super::Engine;
use super::ask::{Crew, Next};
use super::dispatch::Debt;
use super::driver::{self, Order, Strip};
use super::observe::Observation;
use super::scan::{self, SCANNERS, ScannerName, Source};
use super::step::{Reply, Verdict};
use super::wire::Command;
use crate::call::Function;
use crate::call::library::{Page, Pages, ScanPartition};
use crate::error::{CallError, ServerError};
use crate::id::{LaneId, QuotaPolicyId};
use crate::partition::Partition;
use crate::time::ServerTime;

impl Engine {
    /// Starts a visit to every partition whose time has come.
    pub(super) fn visit_what_is_due(&mut self) {
        while let Some((partition, scanners)) = self.cadence.next_visit(self.now) {
            let mut orders = Vec::new();
            for scanner in scanners {
                let of_scanner =
                    driver::orders(scanner, partition, &self.lanes, self.scans.places(partition));
                self.scans.begin(scanner, partition, of_scanner.len(), self.now);
                // Without a lane there is nothing to read, and the scan is over.
                self.end_scan_if_done(scanner, partition);
                orders.extend(of_scanner);
            }
            self.read_pages(partition, orders);
        }
    }

    /// Asks for pages, so many at a time that no call keeps a server busy for long.
    fn read_pages(&mut self, partition: Partition, orders: Vec<Order>) {
        if orders.is_empty() {
            return;
        }
        let calls = orders.chunks(PAGES_PER_CALL).map(|orders| {
            let requests = orders.iter().map(|order| order.request.clone()).collect();
            Command::call(&ScanPartition { requests })
        });
        self.ask(calls.collect(), Next::Pages(partition, orders));
    }

    /// Turns the pages of a visit into candidates at work.
    pub(super) fn unfold(
        &mut self,
        partition: Partition,
        mut orders: Vec<Order>,
        replies: Vec<Reply>,
    ) {
        let mut read = Vec::new();
        for reply in replies {
            let rest = orders.split_off(orders.len().min(PAGES_PER_CALL));
            read.push((pages(reply, orders.len()), orders));
            orders = rest;
        }
        // First the partition's health, on which the next time of whatever ends now depends.
        match read.iter().find_map(|(pages, _)| pages.as_ref().err()) {
            Some(error) => {
                let error = error.clone();
                self.cadence.refused(partition);
                self.report_class(error);
            }
            None => self.cadence.answered(partition),
        }
        for (pages, orders) in read {
            match pages {
                Ok(Pages { now, pages }) => {
                    for (order, page) in orders.into_iter().zip(pages) {
                        match page {
                            Ok(page) => self.work_on(partition, order, now, page),
                            Err(error) => self.give_up(partition, &[order], error),
                        }
                    }
                }
                Err(error) => self.give_up(partition, &orders, error),
            }
        }
    }

    fn work_on(&mut self, partition: Partition, order: Order, now: ServerTime, page: Page) {
        let scene = scan::Scene { config: self.config.clone(), partition, now };
        let scanner = order.scanner;
        self.scans.saw(scanner, partition, &order, now, &page);
        let id = self.id();
        let (index, lane) = (order.request.index.clone(), order.lane.clone());
        let (strip, fresh) = Strip::new(order, partition, page, now);
        let idle = strip.live == 0;
        self.strips.insert(id, strip);
        if idle {
            return self.turn_page(id);
        }
        for (member, score) in fresh {
            let candidate =
                scan::Candidate { member, score, index: index.clone(), lane: lane.clone() };
            let label = candidate.label();
            let step = if self.scans.should_skip(scanner, &label) {
                Verdict::skipped().into()
            } else {
                driver::walk(scanner, scene.clone(), candidate)
            };
            self.advance(Crew::Strip(id), Some(label), step);
        }
    }

    /// Pages could not be read: what they would have offered is unknown.
    fn give_up(&mut self, partition: Partition, orders: &[Order], error: ServerError) {
        self.observe(Observation::PartitionFailed { partition, error });
        for order in orders {
            self.scans.lost(order.scanner, partition);
        }
        let mut scanners: Vec<usize> = orders.iter().map(|order| order.scanner).collect();
        scanners.dedup();
        for scanner in scanners {
            self.end_scan_if_done(scanner, partition);
        }
    }

    /// Files a candidate's verdict; the last one of a page turns it.
    pub(super) fn file(&mut self, id: u64, label: String, verdict: Verdict) {
        let Some(strip) = self.strips.get_mut(&id) else { return };
        strip.settle(&verdict);
        let (scanner, partition) = (strip.order.scanner, strip.partition);
        let page_done = strip.live == 0;
        for fact in self.scans.count(scanner, partition, label, &verdict) {
            self.observe(fact);
        }
        for execution in verdict.ended {
            self.owe(Debt { execution, depth: 1 });
        }
        if page_done {
            self.turn_page(id);
        }
    }

    fn turn_page(&mut self, id: u64) {
        let Some(strip) = self.strips.remove(&id) else { return };
        let (partition, next) = (strip.partition, strip.next_place());
        let more = strip.leaves_due(next);
        let mut order = strip.order;
        order.pages += 1;
        let stopped = self.draining || self.scans.is_denied(order.scanner, partition);
        match next {
            Some(place) if order.pages < order.pages_max && !stopped => {
                order.request.from = place;
                self.read_pages(partition, vec![order]);
            }
            // Out of pages for now: remember the place. At the end: start over next time.
            place => {
                let scanner = order.scanner;
                self.scans.remember(partition, order.place_key(), place);
                self.scans.strip_done(scanner, partition, place.is_some(), more);
                self.end_scan_if_done(scanner, partition);
            }
        }
    }

    fn end_scan_if_done(&mut self, scanner: usize, partition: Partition) {
        let Some(done) = self.scans.take_if_done(scanner, partition) else { return };
        let name = SCANNERS[scanner].spec().name;
        if self.cadence.begins_anew(partition, scanner) {
            self.scans.begin_anew(scanner, partition);
        }
        self.cadence.finished(self.now, partition, scanner, done.ending);
        if !done.tally.is_empty() {
            self.observe(Observation::ScanDone { scanner: name, partition, tally: done.tally });
        }
        for fact in self.scans.cycle_after(scanner, partition, &done, self.now, &self.cadence) {
            self.observe(fact);
        }
    }

    /// Brings every partition's turn of a scanner forward to now.
    pub(super) fn hurry_all(&mut self, name: ScannerName) {
        let Some(scanner) = scan::position(name) else { return };
        let partitions: Vec<Partition> = self.cadence.partitions_of(scanner).collect();
        for partition in partitions {
            self.cadence.hurry(self.now, partition, scanner);
        }
    }

    /// Something is held back on a partition. The slot that it lacked may have become free between
    /// its refusal and now, so that nobody would tell: somebody looks, once for all that comes.
    pub(super) fn look_for_held(&mut self, partition: Partition) {
        let Some(scanner) = scan::position(ScannerName::Unblock) else { return };
        self.cadence.expect(partition, scanner);
        self.cadence.hurry(self.now.after(LOOK_AFTER), partition, scanner);
    }

    /// A slot is free: looks for who waits for it, wherever somebody was seen or told to wait.
    pub(super) fn offer_slot(&mut self, quota: QuotaPolicyId) {
        let Some(scanner) = scan::position(ScannerName::Unblock) else { return };
        self.scans.notes(scanner).count_anew(&quota.to_string());
        let soon = self.now.after(LOOK_AFTER);
        for partition in self.cadence.occupied(scanner) {
            self.cadence.hurry(soon, partition, scanner);
        }
    }

    /// Has a scanner go through all its indexes, from the front and now.
    pub(super) fn catch_up(&mut self, name: ScannerName) {
        let Some(scanner) = scan::position(name) else { return };
        let partitions: Vec<Partition> = self.cadence.partitions_of(scanner).collect();
        for partition in partitions {
            self.scans.begin_anew(scanner, partition);
            self.cadence.catch_up(self.now, partition, scanner);
        }
    }

    /// Takes on lanes from the registry. What waits in a new one has waited long enough.
    pub(super) fn adopt(&mut self, lanes: Vec<LaneId>) {
        let mut all = self.config.lanes.clone();
        all.extend(lanes);
        all.sort();
        all.dedup();
        let known = core::mem::replace(&mut self.lanes, all);
        self.scans.forget_lanes_but(&self.lanes);
        if self.lanes.iter().any(|lane| !known.contains(lane)) {
            for scanner in SCANNERS.iter().map(|scanner| scanner.spec()) {
                if scanner.sources.iter().any(Source::is_by_lane) {
                    self.hurry_all(scanner.name);
                }
            }
        }
    }
}

/// One look serves all that is held back, and all slots that become free, within this time.
const LOOK_AFTER: Duration = Duration::from_millis(20);

/// Pages asked for in one call. Each costs the server a few commands, and there are several for
/// every lane.
const PAGES_PER_CALL: usize = 64;

/// The pages of one call, as many as were asked for.
fn pages(reply: Reply, asked: usize) -> Result<Pages, ServerError> {
    match reply.map_err(CallError::from).and_then(ScanPartition::parse) {
        Ok(pages) if pages.pages.len() == asked => Ok(pages),
        Ok(_) => Err(ServerError::from_reply("as many pages as requests were expected")),
        Err(CallError::Server(error)) => Err(error),
        Err(other @ (CallError::Refused(_) | CallError::Broken(_))) => {
            Err(ServerError::from_reply(other.to_string()))
        }
    }
}
