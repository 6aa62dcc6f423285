//! What is known about running scans: their strips, tallies, cycles, and who failed before.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use super::cadence::{Cadence, Ending};
use super::driver::{Order, PlaceKey, Places};
use super::observe::{Observation, Tally};
use super::scan::{SCANNERS, ScannerName};
use super::step::{Fate, Notes, Verdict};
use super::tracker::{BACKOFF_CYCLES, FAILURES_MAX, Tracker};
use crate::call::library::{Page, PageMode};
use crate::error::Class;
use crate::id::LaneId;
use crate::key::{IndexPart, Key};
use crate::partition::Partition;
use crate::time::{EngineTime, ServerTime};

/// One scanner at work on one partition.
#[derive(Debug, Default)]
struct Running {
    strips: usize,
    tally: Tally,
    ending: Ending,
    /// Size of the scanned indexes; none once a strip was lost.
    size: Option<u64>,
}

/// What a scan came to.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) tally: Tally,
    pub(super) ending: Ending,
    size: Option<u64>,
}

/// One scanner's way over all partitions.
#[derive(Debug)]
struct Cycle {
    started: EngineTime,
    left: BTreeSet<Partition>,
    tally: Tally,
    /// Sum of sizes; none once a partition's was unknown.
    size: Option<u64>,
    tracker: Tracker,
    /// What candidates tell each other, within one interval.
    notes: Notes,
    born: EngineTime,
    interval_ms: u64,
}

impl Cycle {
    /// The clock of tracker and notes counts intervals since the start, whatever partitions do.
    fn tick(&mut self, now: EngineTime) {
        if self.tracker.advance_to((now.0 - self.born.0) / self.interval_ms) {
            self.notes = Notes::default();
        }
    }
}

#[derive(Debug)]
pub(super) struct Scans {
    running: BTreeMap<(usize, Partition), Running>,
    cycles: Vec<Cycle>,
    places: BTreeMap<Partition, Places>,
    nowhere: Places,
}

impl Scans {
    pub(super) fn new(cadence: &Cadence, now: EngineTime) -> Self {
        let cycles = (0..SCANNERS.len())
            .map(|scanner| Cycle {
                started: now,
                left: cadence.partitions_of(scanner).collect(),
                tally: Tally::default(),
                size: Some(0),
                tracker: Tracker::default(),
                notes: Notes::default(),
                born: now,
                interval_ms: millis(cadence.interval(scanner)).max(1),
            })
            .collect();
        Self { running: BTreeMap::new(), cycles, places: BTreeMap::new(), nowhere: Places::new() }
    }

    pub(super) fn places(&self, partition: Partition) -> &Places {
        self.places.get(&partition).unwrap_or(&self.nowhere)
    }

    pub(super) fn remember(&mut self, partition: Partition, key: PlaceKey, place: Option<u64>) {
        let places = self.places.entry(partition).or_default();
        match place {
            Some(place) => places.insert(key, place),
            None => places.remove(&key),
        };
        if places.is_empty() {
            self.places.remove(&partition);
        }
    }

    /// Lets a scanner begin at the front of a partition's indexes.
    pub(super) fn begin_anew(&mut self, scanner: usize, partition: Partition) {
        if let Some(places) = self.places.get_mut(&partition) {
            places.retain(|(of, ..), _| *of != scanner);
            if places.is_empty() {
                self.places.remove(&partition);
            }
        }
    }

    /// Forgets where scanners stopped in lanes that are not among these any more.
    pub(super) fn forget_lanes_but(&mut self, lanes: &[LaneId]) {
        for places in self.places.values_mut() {
            places.retain(|(_, _, index), _| {
                !matches!(index, Key::Index(_, IndexPart::Lane(lane, _)) if !lanes.contains(lane))
            });
        }
        self.places.retain(|_, places| !places.is_empty());
    }

    pub(super) fn notes(&mut self, scanner: usize) -> &mut Notes {
        &mut self.cycles[scanner].notes
    }

    pub(super) fn begin(
        &mut self,
        scanner: usize,
        partition: Partition,
        strips: usize,
        now: EngineTime,
    ) {
        self.cycles[scanner].tick(now);
        let fresh = Running { strips, size: Some(0), ..Running::default() };
        self.running.insert((scanner, partition), fresh);
    }

    /// A page arrived.
    pub(super) fn saw(
        &mut self,
        scanner: usize,
        partition: Partition,
        order: &Order,
        now: ServerTime,
        page: &Page,
    ) {
        let Some(running) = self.running.get_mut(&(scanner, partition)) else { return };
        running.ending.found |= !page.members.is_empty();
        if order.pages == 0 {
            running.size = running.size.map(|size| size.saturating_add(page.size));
        }
        if order.request.mode == PageMode::Due
            && let Some(next) = page.next
        {
            let now = u64::try_from(now.0).unwrap_or(0);
            let wait = next.saturating_add(order.request.lag_ms).saturating_sub(now);
            let wait = Duration::from_millis(wait);
            running.ending.due_in = earlier(running.ending.due_in, Some(wait));
        }
    }

    /// A strip could not be read: its candidates and its size are unknown.
    pub(super) fn lost(&mut self, scanner: usize, partition: Partition) {
        if let Some(running) = self.running.get_mut(&(scanner, partition)) {
            running.strips = running.strips.saturating_sub(1);
            running.size = None;
            running.tally.deferred += 1;
        }
    }

    /// Whether the store does not let this scan act: then going on only makes things worse.
    pub(super) fn is_denied(&self, scanner: usize, partition: Partition) -> bool {
        self.running.get(&(scanner, partition)).is_some_and(|running| running.ending.denied)
    }

    /// A strip is at its end for now; `unseen` says that its index goes on, `more` that something
    /// is due there.
    pub(super) fn strip_done(
        &mut self,
        scanner: usize,
        partition: Partition,
        unseen: bool,
        more: bool,
    ) {
        if let Some(running) = self.running.get_mut(&(scanner, partition)) {
            running.ending.unseen |= unseen;
            running.ending.more |= more;
            running.strips = running.strips.saturating_sub(1);
        }
    }

    pub(super) fn take_if_done(&mut self, scanner: usize, partition: Partition) -> Option<Done> {
        let key = (scanner, partition);
        if self.running.get(&key)?.strips > 0 {
            return None;
        }
        let running = self.running.remove(&key)?;
        let Running { tally, mut ending, size, .. } = running;
        // Going on at once only helps where something moves.
        ending.more &= tally.processed > 0;
        Some(Done { tally, ending, size })
    }

    pub(super) fn should_skip(&mut self, scanner: usize, label: &str) -> bool {
        self.cycles[scanner].tracker.should_skip(label)
    }

    /// Counts a verdict, charges or clears the item, and says what is worth saying.
    pub(super) fn count(
        &mut self,
        scanner: usize,
        partition: Partition,
        item: String,
        verdict: &Verdict,
    ) -> Vec<Observation> {
        let name = SCANNERS[scanner].spec().name;
        let mut facts = Vec::new();
        let mut charge = None;
        let Some(running) = self.running.get_mut(&(scanner, partition)) else { return facts };
        running.ending.again_in = earlier(running.ending.again_in, verdict.again_in);
        let tally = &mut running.tally;
        match &verdict.fate {
            Fate::Processed(work) => tally.processed += u64::from(*work),
            Fate::Nothing => tally.nothing += 1,
            Fate::Skipped => tally.skipped += 1,
            Fate::NotNow(error) => {
                tally.deferred += 1;
                running.ending.denied |= error.class == Class::Denied;
            }
            Fate::Perhaps(_) => tally.deferred += 1,
            Fate::Refused(refusal) => {
                tally.refused += 1;
                charge = Some(refusal.to_string());
            }
            Fate::Failed(error) => {
                tally.failed += 1;
                charge = Some(error.to_string());
            }
            Fate::Poison(reason) => {
                tally.poisoned += 1;
                let member = item.clone().into_bytes();
                facts.push(Observation::PoisonSetAside {
                    scanner: name,
                    partition,
                    member,
                    reason,
                });
            }
        }
        let tracker = &mut self.cycles[scanner].tracker;
        match charge {
            Some(error) => {
                if tracker.failed(&item) {
                    facts.push(Observation::ItemBackedOff {
                        scanner: name,
                        item: item.clone(),
                        failures: FAILURES_MAX,
                        backoff_cycles: BACKOFF_CYCLES,
                    });
                }
                facts.push(Observation::ItemFailed { scanner: name, partition, item, error });
            }
            None if matches!(verdict.fate, Fate::Processed(_) | Fate::Nothing) => {
                tracker.succeeded(&item);
            }
            None => {}
        }
        facts
    }

    /// Adds a finished scan to its cycle; the last partition closes it.
    pub(super) fn cycle_after(
        &mut self,
        scanner: usize,
        partition: Partition,
        done: &Done,
        now: EngineTime,
        cadence: &Cadence,
    ) -> Vec<Observation> {
        let name = SCANNERS[scanner].spec().name;
        let cycle = &mut self.cycles[scanner];
        cycle.tally.add(&done.tally);
        if cycle.left.remove(&partition) {
            cycle.size = match (cycle.size, done.size) {
                (Some(sum), Some(size)) => Some(sum.saturating_add(size)),
                (Some(_) | None, _) => None,
            };
        }
        if !cycle.left.is_empty() {
            return Vec::new();
        }
        let mut facts = Vec::new();
        if name == ScannerName::CancelReconciler {
            facts.push(match cycle.size {
                Some(sum) => Observation::CancelBacklog(sum),
                None => Observation::CancelBacklogPartial,
            });
        }
        facts.push(Observation::CycleDone {
            scanner: name,
            elapsed_ms: now.0 - cycle.started.0,
            tally: cycle.tally,
        });
        cycle.started = now;
        cycle.left = cadence.partitions_of(scanner).collect();
        cycle.tally = Tally::default();
        cycle.size = Some(0);
        facts
    }
}

fn earlier(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    [one, other].into_iter().flatten().min()
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
