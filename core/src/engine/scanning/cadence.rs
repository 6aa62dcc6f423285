//! When which partition is visited, and for which scanners.
//!
//! Scanners of a partition that are due at about the same time share one visit, so an idle
//! partition costs one command. Pauses carry a jitter, so that replicas do not act in step. A
//! scanner that found nothing lately sleeps; the next due time that the server reports, or a push
//! about what is due sooner, brings it back in time, and the end of the longest sleep at the
//! latest. The scanners of a partition sleep until the same time, so that one visit serves them
//! all.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::engine::config::{EngineConfig, INTERVAL_FLOOR, SLEEP_MAX};
use crate::engine::scanners::SCANNERS;
use crate::partition::{Family, Partition};
use crate::retry::backoff;
use crate::time::LocalTime;

/// Only scanners with a shorter interval than this slow down when idle.
const IDLE_STRETCH_BELOW: Duration = Duration::from_secs(3);
/// Scans without a candidate after which a scanner with such an interval slows down.
const IDLE_AFTER: u8 = 3;
/// How much earlier than its time a scanner may join the visit of another one. It is a little more
/// than the longest pause of the quickest scanner, which then takes along all others of an idle
/// partition. Half the pause of a scanner that runs rarely would be far too often.
const EARLY_MAX: Duration = Duration::from_millis(1_750);
/// A sleeping scanner joins a visit in the last one of so many parts of its sleep.
const SLEEP_EARLY: u32 = 4;
/// Sweeps take so many times the commands of the audit: they stand in for messages that were lost.
const SWEEPS_PER_AUDIT: u64 = 10;
/// The longest pause of a sweep.
const SWEEP_MAX: Duration = Duration::from_secs(600);
/// Shortest and longest pause after failures; they get the same jitter as intervals.
const BACKOFF_FIRST: Duration = Duration::from_millis(200);
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// When one scanner runs on one partition.
#[derive(Clone, Copy, Debug)]
struct ScannerSchedule {
    next: LocalTime,
    /// How long the pause before `next` is.
    pause: Duration,
    is_running: bool,
    /// Whether the pause is a sleep.
    sleeps: bool,
    /// Scans in a row that found nothing.
    idle_scans: u8,
    /// Candidates of the last scan that only waited.
    idle_candidates: u64,
    /// Scans in a row in which the store denied the calls.
    denials: u32,
    /// Expedited while running: when to run again, whatever the interval says.
    rerun_at: Option<LocalTime>,
    /// Has to see its whole index: it comes back at once until it has.
    full_pass: bool,
}

impl ScannerSchedule {
    /// Whether it found nothing often enough to sleep. One that runs often looks a few times more:
    /// where something was, there is soon more.
    const fn sleeps_after(&self, interval: Duration) -> bool {
        let scans =
            if interval.as_millis() < IDLE_STRETCH_BELOW.as_millis() { IDLE_AFTER } else { 1 };
        self.idle_scans >= scans
    }
}

/// What the time of the next scan depends on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ScanEnd {
    /// It had candidates.
    pub(super) found: bool,
    /// When the next candidate is due.
    pub(super) due_in: Option<Duration>,
    /// When a candidate that remains is worth another look, if that is known.
    pub(super) retry_in: Option<Duration>,
    /// It made progress and ran out of pages, and more is due already.
    pub(super) more_due: bool,
    /// It ran out of pages before the end of an index.
    pub(super) unfinished: bool,
    /// The store let it read but not act.
    pub(super) denied: bool,
    /// Candidates that only wait, if it found nothing else.
    pub(super) idle_candidates: u64,
}

#[derive(Debug)]
struct PartitionSchedule {
    partition: Partition,
    /// One per scanner of the family, in the order of [`SCANNERS`].
    scanners: Vec<(usize, ScannerSchedule)>,
    /// Its entry in the queue of visits.
    due_at: LocalTime,
    /// Visits in a row that failed.
    failures: u32,
    /// The end of the sleep of the scanners that found nothing; none before the first sleep, which
    /// is shorter, so that partitions are not visited all at once.
    sleeps_until: Option<LocalTime>,
}

#[derive(Debug)]
pub(super) struct Cadence {
    intervals: Vec<Duration>,
    longest_sleep: Duration,
    /// Most commands of the sweeps in a second.
    sweep_rate: u64,
    /// By scanner: the candidates that only wait, over all partitions.
    idle_candidates: Vec<u64>,
    /// Sorted by partition.
    partitions: Vec<PartitionSchedule>,
    /// Partitions by the time of their next visit.
    visits: BTreeSet<(LocalTime, usize)>,
    jitter: ChaCha8Rng,
}

impl Cadence {
    /// Every scanner is due at once.
    pub(super) fn new(config: &EngineConfig, seed: u64, now: LocalTime) -> Self {
        let intervals = SCANNERS
            .iter()
            .map(|scanner| config.interval(scanner.spec().name, scanner.spec().interval))
            .collect();
        let counts = config.partitions;
        let families = [
            (Family::Flow, counts.flow),
            (Family::Budget, counts.budget),
            (Family::Quota, counts.quota),
        ];
        let first = ScannerSchedule {
            next: now,
            pause: Duration::ZERO,
            is_running: false,
            sleeps: false,
            idle_scans: 0,
            idle_candidates: 0,
            denials: 0,
            rerun_at: None,
            full_pass: false,
        };
        let mut partitions = Vec::new();
        for (family, count) in families {
            let scanners: Vec<(usize, ScannerSchedule)> = (0..SCANNERS.len())
                .filter(|&at| SCANNERS[at].spec().family == family)
                .map(|at| (at, first))
                .collect();
            partitions.extend((0..count.get()).map(|index| PartitionSchedule {
                partition: Partition { family, index },
                scanners: scanners.clone(),
                due_at: now,
                failures: 0,
                sleeps_until: None,
            }));
        }
        let visits = (0..partitions.len()).map(|at| (now, at)).collect();
        let longest_sleep = config.longest_sleep.min(SLEEP_MAX);
        let jitter = ChaCha8Rng::seed_from_u64(seed);
        let sweep_rate =
            u64::from(config.audit.commands_per_second).saturating_mul(SWEEPS_PER_AUDIT).max(1);
        let idle_candidates = alloc::vec![0; SCANNERS.len()];
        Self { intervals, longest_sleep, sweep_rate, idle_candidates, partitions, visits, jitter }
    }

    /// The next partition that is due, with the scanners to run on it.
    pub(super) fn next_visit(&mut self, now: LocalTime) -> Option<(Partition, Vec<usize>)> {
        let &(due_at, at) = self.visits.first().filter(|(due_at, _)| *due_at <= now)?;
        self.visits.remove(&(due_at, at));
        let schedule = &mut self.partitions[at];
        let mut scanners = Vec::new();
        for (scanner, schedule) in &mut schedule.scanners {
            // A scanner that is nearly due joins, which saves a visit of its own.
            let early = match schedule.sleeps {
                true => schedule.pause / SLEEP_EARLY,
                false => (schedule.pause / 2).min(EARLY_MAX),
            };
            if !schedule.is_running && schedule.next <= now.after(early) {
                schedule.is_running = true;
                scanners.push(*scanner);
            }
        }
        self.reschedule(at);
        Some((self.partitions[at].partition, scanners))
    }

    /// A scan ended. One that has more to do comes back as soon as any scanner may.
    pub(super) fn finished(
        &mut self,
        now: LocalTime,
        partition: Partition,
        scanner: usize,
        end: ScanEnd,
    ) {
        let every = self.intervals[scanner];
        let Some(at) = self.position(partition) else { return };
        let failures = self.partitions[at].failures;
        let Some((_, schedule)) = self.schedule(partition, scanner) else { return };
        // A full pass that was requested meanwhile begins only now.
        schedule.full_pass &= end.unfinished || failures > 0 || schedule.rerun_at.is_some();
        let interval = if end.more_due || schedule.full_pass { INTERVAL_FLOOR } else { every };
        schedule.denials = if end.denied { schedule.denials.saturating_add(1) } else { 0 };
        let backoff = backoff(BACKOFF_FIRST, BACKOFF_MAX, schedule.denials.max(failures));
        let goes_on = end.more_due || schedule.full_pass;
        let sweep = self.sweep_pause(at, scanner, end.idle_candidates);
        let least = if goes_on { interval } else { interval.max(sweep) };
        let usual = self.jittered(least.max(backoff));
        let Some((at, schedule)) = self.schedule(partition, scanner) else { return };
        schedule.idle_scans = if end.found { 0 } else { schedule.idle_scans.saturating_add(1) };
        let mut pause = usual;
        schedule.sleeps = schedule.sleeps_after(interval) && failures == 0;
        if schedule.sleeps {
            let longest = self.longest_pause(now, at, interval, usual);
            // Unless the server knows of something that is due before.
            pause = end.due_in.map_or(longest, |due_in| due_in.clamp(usual, longest));
        }
        let Some((at, schedule)) = self.schedule(partition, scanner) else { return };
        if let Some(retry_in) = end.retry_in {
            pause = pause.min(retry_in.max(INTERVAL_FLOOR).max(backoff));
        }
        schedule.is_running = false;
        schedule.pause = pause;
        schedule.next = now.after(pause);
        if let Some(rerun_at) = schedule.rerun_at.take() {
            schedule.next = schedule.next.min(rerun_at);
        }
        self.reschedule(at);
    }

    /// How long a sweep over all that waits has to take, so that it stays in its bounds.
    fn sweep_pause(&mut self, at: usize, scanner: usize, candidates: u64) -> Duration {
        let cost = SCANNERS[scanner].sweep_cost();
        let partition = self.partitions[at].partition;
        let Some((_, schedule)) = self.schedule(partition, scanner) else { return Duration::ZERO };
        let before = core::mem::replace(&mut schedule.idle_candidates, candidates);
        let all = &mut self.idle_candidates[scanner];
        *all = all.saturating_sub(before).saturating_add(candidates);
        let most = u64::try_from(SWEEP_MAX.as_millis()).unwrap_or(u64::MAX);
        Duration::from_millis((all.saturating_mul(cost * 1_000) / self.sweep_rate).min(most))
    }

    /// The longest pause of a scanner that found nothing.
    fn longest_pause(
        &mut self,
        now: LocalTime,
        at: usize,
        interval: Duration,
        usual: Duration,
    ) -> Duration {
        let longest = self.longest_sleep;
        if longest <= interval * 2 && interval < IDLE_STRETCH_BELOW {
            return usual * 2;
        }
        if longest.is_zero() {
            return usual;
        }
        let known = self.partitions[at].sleeps_until;
        let until = match known.filter(|until| *until > now.after(longest / 2)) {
            Some(until) => until,
            None => {
                let least = if known.is_none() { Duration::ZERO } else { longest / 10 * 9 };
                now.after(least + self.drawn(longest - least))
            }
        };
        self.partitions[at].sleeps_until = Some(until);
        // A scanner with a longer interval sleeps several times as long.
        let times = u32::try_from(interval.as_millis().div_ceil(longest.as_millis().max(1)));
        let first = Duration::from_millis(until.0.saturating_sub(now.0));
        (first + longest * (times.unwrap_or(1).max(1) - 1)).max(usual)
    }

    /// A visit failed: what ends now comes back later, and later still if it fails again.
    pub(super) fn visit_failed(&mut self, partition: Partition) {
        if let Some(at) = self.position(partition) {
            self.partitions[at].failures = self.partitions[at].failures.saturating_add(1);
        }
    }

    /// The partition answered.
    pub(super) fn visit_answered(&mut self, partition: Partition) {
        if let Some(at) = self.position(partition) {
            self.partitions[at].failures = 0;
        }
    }

    /// Runs a scanner at `at_time` at the latest. One that is running may have looked too early,
    /// so it runs once more.
    pub(super) fn expedite(&mut self, at_time: LocalTime, partition: Partition, scanner: usize) {
        if let Some((at, schedule)) = self.schedule(partition, scanner) {
            if schedule.is_running {
                let rerun_at = schedule.rerun_at.map_or(at_time, |known| known.min(at_time));
                schedule.rerun_at = Some(rerun_at);
            }
            schedule.next = schedule.next.min(at_time);
            self.reschedule(at);
        }
    }

    /// Runs a scanner now, and has it see its whole index.
    pub(super) fn start_full_pass(&mut self, now: LocalTime, partition: Partition, scanner: usize) {
        if let Some((_, schedule)) = self.schedule(partition, scanner) {
            schedule.full_pass = true;
        }
        self.expedite(now, partition, scanner);
    }

    /// Whether a full pass was requested while the scanner was running and perhaps past what
    /// matters: then its next scan has to begin at the front.
    pub(super) fn restarts_from_front(&self, partition: Partition, scanner: usize) -> bool {
        let schedule = self.position(partition).map(|at| &self.partitions[at]);
        schedule.is_some_and(|schedule| {
            schedule.scanners.iter().any(|(of, schedule)| {
                *of == scanner && schedule.full_pass && schedule.rerun_at.is_some()
            })
        })
    }

    /// Something is in a scanner's index, although no scan has seen it yet.
    pub(super) fn mark_occupied(&mut self, partition: Partition, scanner: usize) {
        if let Some((_, schedule)) = self.schedule(partition, scanner) {
            schedule.idle_scans = 0;
        }
    }

    /// The partitions where a scanner found something last time, or is expected to.
    pub(super) fn occupied(&self, scanner: usize) -> Vec<Partition> {
        let family = SCANNERS[scanner].spec().family;
        self.partitions
            .iter()
            .filter(|schedule| schedule.partition.family == family)
            .filter(|schedule| {
                let mut scanners = schedule.scanners.iter();
                scanners.any(|(of, schedule)| *of == scanner && schedule.idle_scans == 0)
            })
            .map(|schedule| schedule.partition)
            .collect()
    }

    /// Every partition of a scanner's family.
    pub(super) fn partitions_of(&self, scanner: usize) -> impl Iterator<Item = Partition> + '_ {
        let family = SCANNERS[scanner].spec().family;
        let partitions = self.partitions.iter().map(|schedule| schedule.partition);
        partitions.filter(move |partition| partition.family == family)
    }

    /// How often a scanner runs.
    pub(super) fn interval(&self, scanner: usize) -> Duration {
        self.intervals[scanner]
    }

    /// When the next visit is due.
    pub(super) fn deadline(&self) -> Option<LocalTime> {
        self.visits.first().map(|&(due_at, _)| due_at)
    }

    /// A duration within a tenth of `about`.
    fn jittered(&mut self, about: Duration) -> Duration {
        about - about / 10 + self.drawn(about / 5)
    }

    /// A duration up to `most`.
    fn drawn(&mut self, most: Duration) -> Duration {
        let spread = u64::try_from(most.as_millis()).unwrap_or(u64::MAX);
        let drawn = if spread == 0 { 0 } else { self.jitter.next_u64() % (spread + 1) };
        Duration::from_millis(drawn)
    }

    fn position(&self, partition: Partition) -> Option<usize> {
        self.partitions.binary_search_by_key(&partition, |schedule| schedule.partition).ok()
    }

    fn schedule(
        &mut self,
        partition: Partition,
        scanner: usize,
    ) -> Option<(usize, &mut ScannerSchedule)> {
        let at = self.position(partition)?;
        let scanners = &mut self.partitions[at].scanners;
        let (_, schedule) = scanners.iter_mut().find(|(of, _)| *of == scanner)?;
        Some((at, schedule))
    }

    /// Puts a partition's next visit into the queue of visits.
    fn reschedule(&mut self, at: usize) {
        let schedule = &mut self.partitions[at];
        self.visits.remove(&(schedule.due_at, at));
        let waiting = schedule.scanners.iter().filter(|(_, schedule)| !schedule.is_running);
        if let Some(next) = waiting.map(|(_, schedule)| schedule.next).min() {
            schedule.due_at = next;
            self.visits.insert((next, at));
        }
    }
}
