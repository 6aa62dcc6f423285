//! When which partition is visited, and for which scanners.
//!
//! All scanners of a partition share one visit when their times are close, so an idle partition
//! costs one command. Times carry a jitter, so that replicas do not march in step. A scanner whose
//! candidates came to nothing lately waits up to twice its interval, if that is short; the server's
//! own word about the next due time brings it back in time.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::config::{EngineConfig, INTERVAL_FLOOR};
use super::scan::SCANNERS;
use crate::partition::{Family, Partition};
use crate::time::EngineTime;

/// Only scanners that run more often than this slow down when idle.
const IDLE_STRETCH_BELOW: Duration = Duration::from_secs(3);
/// Scans without a candidate after which a scanner slows down.
const IDLE_AFTER: u8 = 3;
/// How much earlier than its time a scanner may come along with another. A costly one runs rarely,
/// so half its pause would be far too often. A little more than the longest pause of the quickest
/// scanner, which then takes along everybody else of an idle partition.
const SLACK_MAX: Duration = Duration::from_millis(1_750);
/// Longest pause after refusals.
const PENALTY_MAX: Duration = Duration::from_secs(30);

/// The time of one scanner on one partition.
#[derive(Clone, Copy, Debug)]
struct Turn {
    next: EngineTime,
    /// How long it rests until then.
    pause: Duration,
    busy: bool,
    idle: u8,
    /// Scans in a row that the store denied.
    denials: u32,
    /// Asked for while busy: when to run again, whatever the interval says.
    hurried: Option<EngineTime>,
    /// Asked to see its whole index: it comes back at once until it did.
    thorough: bool,
}

/// How a scan ended, as far as its next time depends on it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ending {
    /// It had candidates.
    pub(super) found: bool,
    /// When the next candidate is due.
    pub(super) due_in: Option<Duration>,
    /// When a candidate that stays is worth another look, where one knows.
    pub(super) again_in: Option<Duration>,
    /// It got on, had its share, and more is due already.
    pub(super) more: bool,
    /// It had its share before it came to the end of an index.
    pub(super) unseen: bool,
    /// The store let it read but not act.
    pub(super) denied: bool,
}

#[derive(Debug)]
struct Clock {
    partition: Partition,
    /// One per scanner of the family, in the order of [`SCANNERS`].
    turns: Vec<(usize, Turn)>,
    /// Where this clock stands in the agenda.
    alarm: EngineTime,
    refusals: u32,
}

#[derive(Debug)]
pub(super) struct Cadence {
    intervals: Vec<Duration>,
    clocks: Vec<Clock>,
    agenda: BTreeSet<(EngineTime, usize)>,
    jitter: ChaCha8Rng,
}

impl Cadence {
    /// Every scanner is due at once.
    pub(super) fn new(config: &EngineConfig, seed: u64, now: EngineTime) -> Self {
        let intervals = SCANNERS
            .iter()
            .map(|scanner| config.interval(scanner.spec().name, scanner.spec().every))
            .collect();
        let counts = config.partitions;
        let families = [
            (Family::Flow, counts.flow),
            (Family::Budget, counts.budget),
            (Family::Quota, counts.quota),
        ];
        let mut clocks = Vec::new();
        for (family, count) in families {
            let turn = Turn {
                next: now,
                pause: Duration::ZERO,
                busy: false,
                idle: 0,
                denials: 0,
                hurried: None,
                thorough: false,
            };
            let turns: Vec<(usize, Turn)> = (0..SCANNERS.len())
                .filter(|&at| SCANNERS[at].spec().family == family)
                .map(|at| (at, turn))
                .collect();
            clocks.extend((0..count.get()).map(|index| Clock {
                partition: Partition { family, index },
                turns: turns.clone(),
                alarm: now,
                refusals: 0,
            }));
        }
        let agenda = (0..clocks.len()).map(|at| (now, at)).collect();
        Self { intervals, clocks, agenda, jitter: ChaCha8Rng::seed_from_u64(seed) }
    }

    /// The next partition whose time has come, with the scanners to run on it.
    pub(super) fn next_visit(&mut self, now: EngineTime) -> Option<(Partition, Vec<usize>)> {
        let &(alarm, at) = self.agenda.first().filter(|(alarm, _)| *alarm <= now)?;
        self.agenda.remove(&(alarm, at));
        let clock = &mut self.clocks[at];
        let mut scanners = Vec::new();
        for (scanner, turn) in &mut clock.turns {
            // Whoever is nearly due comes along: that saves a visit of its own.
            let slack = (turn.pause / 2).min(SLACK_MAX);
            if !turn.busy && turn.next <= now.after(slack) {
                turn.busy = true;
                scanners.push(*scanner);
            }
        }
        self.set_alarm(at);
        Some((self.clocks[at].partition, scanners))
    }

    /// A scan ended. What has more to do comes back as soon as anybody may.
    pub(super) fn finished(
        &mut self,
        now: EngineTime,
        partition: Partition,
        scanner: usize,
        ending: Ending,
    ) {
        let every = self.intervals[scanner];
        let Some(at) = self.position(partition) else { return };
        let refusals = self.clocks[at].refusals;
        let Some((_, turn)) = self.turn(partition, scanner) else { return };
        // What was asked for meanwhile begins only now.
        turn.thorough &= ending.unseen || refusals > 0 || turn.hurried.is_some();
        let interval = if ending.more || turn.thorough { INTERVAL_FLOOR } else { every };
        turn.denials = if ending.denied { turn.denials.saturating_add(1) } else { 0 };
        let penalty = penalty(turn.denials.max(refusals));
        let usual = self.wobble(interval.max(penalty));
        let Some((at, turn)) = self.turn(partition, scanner) else { return };
        turn.idle = if ending.found { 0 } else { turn.idle.saturating_add(1) };
        let mut pause = usual;
        if turn.idle >= IDLE_AFTER && interval < IDLE_STRETCH_BELOW {
            // Twice as long, unless the server knows of something that is due before.
            pause = ending.due_in.map_or(usual * 2, |due_in| due_in.clamp(usual, usual * 2));
        }
        if let Some(again_in) = ending.again_in {
            pause = pause.min(again_in.max(INTERVAL_FLOOR).max(penalty));
        }
        turn.busy = false;
        turn.pause = pause;
        turn.next = now.after(pause);
        if let Some(asked_for) = turn.hurried.take() {
            turn.next = turn.next.min(asked_for);
        }
        self.set_alarm(at);
    }

    /// A visit failed: whatever ends now comes back later, and later still if it fails again.
    pub(super) fn refused(&mut self, partition: Partition) {
        if let Some(at) = self.position(partition) {
            self.clocks[at].refusals = self.clocks[at].refusals.saturating_add(1);
        }
    }

    /// The partition answers again.
    pub(super) fn answered(&mut self, partition: Partition) {
        if let Some(at) = self.position(partition) {
            self.clocks[at].refusals = 0;
        }
    }

    /// Brings a scanner's turn forward. One that is under way now may have looked too early, so it
    /// runs once more.
    pub(super) fn hurry(&mut self, at_time: EngineTime, partition: Partition, scanner: usize) {
        if let Some((at, turn)) = self.turn(partition, scanner) {
            if turn.busy {
                turn.hurried = Some(turn.hurried.map_or(at_time, |known| known.min(at_time)));
            }
            turn.next = turn.next.min(at_time);
            self.set_alarm(at);
        }
    }

    /// Something stands in a scanner's index, though no scan has seen it yet.
    pub(super) fn expect(&mut self, partition: Partition, scanner: usize) {
        if let Some((_, turn)) = self.turn(partition, scanner) {
            turn.idle = 0;
        }
    }

    /// The partitions where a scanner found something last time, or is expected to.
    pub(super) fn occupied(&self, scanner: usize) -> Vec<Partition> {
        let family = SCANNERS[scanner].spec().family;
        let of_family = self.clocks.iter().filter(|clock| clock.partition.family == family);
        of_family
            .filter(|clock| clock.turns.iter().any(|(of, turn)| *of == scanner && turn.idle == 0))
            .map(|clock| clock.partition)
            .collect()
    }

    /// Brings a scanner's turn forward, and has it see its whole index.
    pub(super) fn catch_up(&mut self, now: EngineTime, partition: Partition, scanner: usize) {
        if let Some((_, turn)) = self.turn(partition, scanner) {
            turn.thorough = true;
        }
        self.hurry(now, partition, scanner);
    }

    /// Whether a scanner's next turn is to begin at the front: asked to see everything while it was
    /// under way, and perhaps past what matters.
    pub(super) fn begins_anew(&self, partition: Partition, scanner: usize) -> bool {
        let clock = self.position(partition).map(|at| &self.clocks[at]);
        clock.is_some_and(|clock| {
            clock
                .turns
                .iter()
                .any(|(of, turn)| *of == scanner && turn.thorough && turn.hurried.is_some())
        })
    }

    /// Every partition of a scanner's family.
    pub(super) fn partitions_of(&self, scanner: usize) -> impl Iterator<Item = Partition> + '_ {
        let family = SCANNERS[scanner].spec().family;
        self.clocks.iter().map(|clock| clock.partition).filter(move |p| p.family == family)
    }

    /// How often a scanner runs.
    pub(super) fn interval(&self, scanner: usize) -> Duration {
        self.intervals[scanner]
    }

    /// When the next visit is due.
    pub(super) fn deadline(&self) -> Option<EngineTime> {
        self.agenda.first().map(|&(alarm, _)| alarm)
    }

    /// A duration within a tenth of `about`.
    fn wobble(&mut self, about: Duration) -> Duration {
        let spread = u64::try_from(about.as_millis()).unwrap_or(u64::MAX) / 5;
        let drawn = if spread == 0 { 0 } else { self.jitter.next_u64() % (spread + 1) };
        about - about / 10 + Duration::from_millis(drawn)
    }

    fn position(&self, partition: Partition) -> Option<usize> {
        // Clocks stand in the order of (family, index).
        self.clocks.binary_search_by_key(&partition, |clock| clock.partition).ok()
    }

    fn turn(&mut self, partition: Partition, scanner: usize) -> Option<(usize, &mut Turn)> {
        let at = self.position(partition)?;
        let turns = &mut self.clocks[at].turns;
        turns.iter_mut().find(|(of, _)| *of == scanner).map(|(_, turn)| (at, turn))
    }

    fn set_alarm(&mut self, at: usize) {
        let clock = &mut self.clocks[at];
        self.agenda.remove(&(clock.alarm, at));
        let next =
            clock.turns.iter().filter(|(_, turn)| !turn.busy).map(|(_, turn)| turn.next).min();
        if let Some(next) = next {
            clock.alarm = next;
            self.agenda.insert((next, at));
        }
    }
}

/// How long to stay away after so many refusals in a row.
fn penalty(refusals: u32) -> Duration {
    match refusals {
        0 => Duration::ZERO,
        refusals => (INTERVAL_FLOOR * 2u32.saturating_pow(refusals.min(10))).min(PENALTY_MAX),
    }
}
