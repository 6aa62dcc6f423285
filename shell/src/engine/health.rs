//! [`Health`]: whether an engine gets on with its work, not merely whether it answers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use selvedge_core::engine::scan::SCANNERS;
use selvedge_core::engine::{EngineConfig, ScannerName};
use selvedge_core::partition::Partition;
use tokio::time::Instant;

/// What an engine is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It looks after the deployment.
    Running,
    /// It panicked and is about to start again.
    Restarting,
    /// It finishes what is in flight.
    Draining,
    /// It has ended.
    Stopped,
}

impl Phase {
    /// Its name, for people and for JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Restarting => "restarting",
            Self::Draining => "draining",
            Self::Stopped => "stopped",
        }
    }
}

/// How an engine is doing at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// What it is doing.
    pub phase: Phase,
    /// By how much the scanner that is furthest behind has overrun its interval.
    pub scan_lag: Duration,
    /// That scanner.
    pub slowest_scanner: ScannerName,
    /// Whether completions are pushed to it; without them it works on, more slowly.
    pub push_alive: bool,
    /// Whether every server has the library that it needs.
    pub library_right: bool,
    /// What is wrong at this moment, in the server's words.
    pub trouble: Option<String>,
    /// The partition that could last not be read although its server answers, and why.
    pub unreadable: Option<String>,
    /// The last thing that went wrong, and how long ago.
    pub last_error: Option<(String, Duration)>,
    /// How often it had to start again after a panic.
    pub restarts: u64,
    /// Batches on their way.
    pub in_flight: usize,
    /// How long ago it last did anything at all.
    pub idle_for: Duration,
}

impl Health {
    /// Whether the engine runs at all. If not, only a new process helps.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.phase != Phase::Stopped && self.idle_for <= IDLE_MAX
    }

    /// Whether work gets done: everything in place, and no scanner left behind.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.why_not_ready().is_none()
    }

    /// What keeps it from being ready, for people to read.
    #[must_use]
    pub fn why_not_ready(&self) -> Option<String> {
        match self.phase {
            Phase::Running => {}
            phase @ (Phase::Restarting | Phase::Draining | Phase::Stopped) => {
                return Some(format!("the engine is {}", phase.as_str()));
            }
        }
        if let Some(trouble) = &self.trouble {
            return Some(trouble.clone());
        }
        if !self.library_right {
            return Some("a server lacks the function library".to_owned());
        }
        if !self.push_alive {
            return Some("the push connection is down".to_owned());
        }
        (self.scan_lag > LAG_MAX).then(|| {
            let behind = humantime::format_duration(Duration::from_secs(self.scan_lag.as_secs()));
            let late = format!("{} is {behind} behind", self.slowest_scanner);
            match &self.unreadable {
                Some(which) => format!("{late}: {which}; `selvedge fsck` names the key"),
                None => late,
            }
        })
    }
}

/// What the engine's task writes down, and its handle reads.
#[derive(Clone)]
pub(crate) struct Record(Arc<Mutex<Progress>>);

pub(crate) struct Progress {
    pub(crate) phase: Phase,
    pub(crate) push_alive: bool,
    pub(crate) restarts: u64,
    pub(crate) in_flight: usize,
    beat: Instant,
    cycles: BTreeMap<ScannerName, Cycle>,
    trouble: Option<Sighting>,
    library_missing: Option<Sighting>,
    unreadable: BTreeMap<Partition, Sighting>,
    last_error: Option<(String, Instant)>,
}

struct Cycle {
    interval: Duration,
    completed: Instant,
}

impl Cycle {
    fn lag(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.completed).saturating_sub(self.interval)
    }
}

struct Sighting {
    text: String,
    seen: Instant,
}

impl Record {
    pub(crate) fn new(config: &EngineConfig, now: Instant) -> Self {
        let cycles = SCANNERS
            .iter()
            .map(|scanner| {
                let spec = scanner.spec();
                let interval = config.interval(spec.name, spec.every);
                (spec.name, Cycle { interval, completed: now })
            })
            .collect();
        Self(Arc::new(Mutex::new(Progress {
            phase: Phase::Running,
            push_alive: false,
            restarts: 0,
            in_flight: 0,
            beat: now,
            cycles,
            trouble: None,
            library_missing: None,
            unreadable: BTreeMap::new(),
            last_error: None,
        })))
    }

    /// Nothing panics while it is held; if something did, the figures would still be figures.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Progress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn health(&self, now: Instant, store_trouble: Option<String>) -> Health {
        let progress = self.lock();
        let lag = |cycle: &Cycle| cycle.lag(now);
        let slowest = progress.cycles.iter().max_by_key(|(_, cycle)| lag(cycle));
        let trouble = progress.trouble.as_ref().map(|sighting| sighting.text.clone());
        let unreadable = progress.unreadable.iter().max_by_key(|(_, sighting)| sighting.seen);
        Health {
            phase: progress.phase,
            scan_lag: slowest.map_or(Duration::ZERO, |(_, cycle)| lag(cycle)),
            slowest_scanner: slowest.map_or(ScannerName::LeaseExpiry, |(&name, _)| name),
            push_alive: progress.push_alive,
            library_right: progress.library_missing.is_none(),
            trouble: store_trouble.or(trouble),
            unreadable: unreadable
                .map(|(partition, why)| format!("{partition} cannot be read: {}", why.text)),
            last_error: progress.last_error.as_ref().map(|(text, at)| (text.clone(), now - *at)),
            restarts: progress.restarts,
            in_flight: progress.in_flight,
            idle_for: now.saturating_duration_since(progress.beat),
        }
    }
}

impl Progress {
    pub(crate) fn beat(&mut self, now: Instant, in_flight: usize) {
        self.beat = now;
        self.in_flight = in_flight;
    }

    /// A scanner has been everywhere, and nothing was put off.
    pub(crate) fn completed(&mut self, scanner: ScannerName, now: Instant) {
        if let Some(cycle) = self.cycles.get_mut(&scanner) {
            cycle.completed = now;
        }
    }

    pub(crate) fn failed(&mut self, text: &str, now: Instant) {
        self.last_error = Some((text.to_owned(), now));
    }

    /// A server refuses us. Says whether that is news.
    pub(crate) fn refused(&mut self, text: &str, now: Instant) -> bool {
        self.failed(text, now);
        let news = self.trouble.as_ref().is_none_or(|known| known.text != text);
        self.trouble = Some(Sighting { text: text.to_owned(), seen: now });
        news
    }

    /// A server answers, but not what can be read. Says whether that is news.
    pub(crate) fn unreadable(&mut self, partition: Partition, text: &str, now: Instant) -> bool {
        self.failed(text, now);
        let sighting = Sighting { text: text.to_owned(), seen: now };
        let known = self.unreadable.insert(partition, sighting);
        known.is_none_or(|known| known.text != text || now - known.seen > TOLD_AGAIN_AFTER)
    }

    pub(crate) fn library_missing(&mut self, text: &str, now: Instant) {
        self.failed(text, now);
        self.library_missing = Some(Sighting { text: text.to_owned(), seen: now });
    }

    pub(crate) fn library_loaded(&mut self) {
        self.library_missing = None;
    }

    /// A write went well that was begun `since` then: what was wrong before is over, unless it was
    /// seen again after that. Says what is over.
    pub(crate) fn all_well(&mut self, since: Instant) -> Option<String> {
        self.library_missing.take_if(|sighting| sighting.seen < since);
        self.trouble.take_if(|sighting| sighting.seen < since).map(|sighting| sighting.text)
    }

    /// Seconds behind its interval, by scanner.
    pub(crate) fn lags(&self, now: Instant) -> Vec<(ScannerName, f64)> {
        let lag = |(&name, cycle): (&ScannerName, &Cycle)| (name, cycle.lag(now).as_secs_f64());
        self.cycles.iter().map(lag).collect()
    }
}

/// A scanner this far behind its interval means that work is not getting done.
const LAG_MAX: Duration = Duration::from_secs(30);

/// What was wrong, and was not seen for so long, is news when it comes back.
const TOLD_AGAIN_AFTER: Duration = Duration::from_secs(600);

/// The engine has a deadline every few seconds at the least; so long without one, it hangs.
const IDLE_MAX: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scanner_left_behind_makes_an_engine_unready() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let record = Record::new(&EngineConfig::default(), start);
        record.lock().push_alive = true;
        assert!(record.health(start, None).is_ready());
        let health = record.health(after(40), None);
        assert!(!health.is_ready() && health.is_live());
        for scanner in SCANNERS {
            record.lock().completed(scanner.spec().name, after(40));
        }
        assert_eq!(record.health(after(40), None).why_not_ready(), None);
        assert!(!record.health(after(61), None).is_live(), "it has not stirred for a minute");
    }

    #[test]
    fn a_partition_that_cannot_be_read_is_told_once_and_named() {
        let start = Instant::now();
        let record = Record::new(&EngineConfig::default(), start);
        record.lock().push_alive = true;
        let fails = |at: u64| {
            let at = start + Duration::from_secs(at);
            record.lock().unreadable(Partition::flow(3), "WRONGTYPE it is", at)
        };
        assert_eq!([fails(1), fails(2), fails(40), fails(900)], [true, false, false, true]);
        assert!(record.health(start, None).is_ready(), "the others get on");
        let why = record.health(start + Duration::from_secs(40), None).why_not_ready().unwrap();
        assert!(why.contains("{fp:3} cannot be read: WRONGTYPE it is"), "{why}");
    }

    #[test]
    fn trouble_lasts_until_a_later_write_goes_well() {
        let start = Instant::now();
        let after = |ms| start + Duration::from_millis(ms);
        let record = Record::new(&EngineConfig::default(), start);
        record.lock().push_alive = true;
        assert!(record.lock().refused("OOM no", after(5)));
        assert!(!record.lock().refused("OOM no", after(5)), "the same again is no news");
        assert_eq!(record.lock().all_well(start), None, "begun before, and so no sign");
        let health = record.health(after(6), None);
        assert_eq!(health.why_not_ready(), Some("OOM no".to_owned()));
        assert_eq!(record.lock().all_well(after(10)), Some("OOM no".to_owned()));
        assert!(record.health(after(11), None).is_ready());
        assert!(record.health(after(11), None).last_error.is_some());
    }
}
