//! [`Health`]: whether an engine makes progress, not merely whether it runs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use selvedge_core::engine::{EngineConfig, ScannerName, scanner_specs};
use selvedge_core::partition::Partition;
use tokio::time::Instant;

/// What an engine is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// It works.
    Running,
    /// It panicked and will be restarted.
    Restarting,
    /// It is stopping, and waits for what is in flight.
    Draining,
    /// It has stopped.
    Stopped,
}

impl Phase {
    /// Its name in logs and JSON.
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

/// The health of an engine at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// Its phase.
    pub phase: Phase,
    /// How far the slowest scanner is behind its interval.
    pub scan_lag: Duration,
    /// The slowest scanner.
    pub slowest_scanner: ScannerName,
    /// Whether its push connection is up. Without pushes it works, but more slowly.
    pub push_alive: bool,
    /// Why its push connection cannot be opened.
    pub push_error: Option<String>,
    /// Whether no server lacks the function library.
    pub library_loaded: bool,
    /// The current error of the store, as the server reported it.
    pub store_error: Option<String>,
    /// The last partition with unreadable data, and why it is unreadable.
    pub unreadable: Option<String>,
    /// The last error of any kind, and how long ago it was.
    pub last_error: Option<(String, Duration)>,
    /// How often it was restarted after a panic.
    pub restarts: u64,
    /// Batches in flight.
    pub in_flight: usize,
    /// How long ago it was last active.
    pub idle_for: Duration,
}

impl Health {
    /// Liveness: whether the engine runs. If not, restart the process.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.phase != Phase::Stopped && self.idle_for <= IDLE_MAX
    }

    /// Readiness: whether the engine runs without store errors, with library and pushes, and no
    /// scanner is more than 30 s behind.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.why_not_ready().is_none()
    }

    /// Why it is not ready, for people; `None` when it is.
    #[must_use]
    pub fn why_not_ready(&self) -> Option<String> {
        match self.phase {
            Phase::Running => {}
            phase @ (Phase::Restarting | Phase::Draining | Phase::Stopped) => {
                return Some(format!("the engine is {}", phase.as_str()));
            }
        }
        if let Some(store_error) = &self.store_error {
            return Some(store_error.clone());
        }
        if !self.library_loaded {
            return Some("a server lacks the function library".to_owned());
        }
        if !self.push_alive {
            let why = self.push_error.as_ref().map(|error| format!(": {error}"));
            return Some(format!("the push connection is down{}", why.unwrap_or_default()));
        }
        (self.scan_lag > LAG_MAX).then(|| {
            let late = format!("{} is {} s behind", self.slowest_scanner, self.scan_lag.as_secs());
            match &self.unreadable {
                Some(which) => format!("{late}: {which}; `selvedge fsck` names the key"),
                None => late,
            }
        })
    }
}

/// The state behind [`Health`]: written by the engine's task, read by its handles.
#[derive(Clone)]
pub(crate) struct HealthRecord(Arc<Mutex<HealthState>>);

pub(crate) struct HealthState {
    pub(crate) phase: Phase,
    pub(crate) push_alive: bool,
    pub(crate) push_error: Option<String>,
    pub(crate) restarts: u64,
    pub(crate) in_flight: usize,
    last_activity: Instant,
    cycles: BTreeMap<ScannerName, Cycle>,
    store_error: Option<SeenError>,
    library_missing: Option<SeenError>,
    unreadable: BTreeMap<Partition, SeenError>,
    last_error: Option<(String, Instant)>,
}

struct Cycle {
    /// None for a scanner that goes at its own pace.
    longest: Option<Duration>,
    completed: Instant,
}

impl Cycle {
    fn lag(&self, now: Instant) -> Duration {
        let since = now.saturating_duration_since(self.completed);
        self.longest.map_or(Duration::ZERO, |longest| since.saturating_sub(longest))
    }
}

struct SeenError {
    text: String,
    seen: Instant,
}

impl HealthRecord {
    pub(crate) fn new(config: &EngineConfig, now: Instant) -> Self {
        let cycles = scanner_specs()
            .map(|spec| (spec.name, Cycle { longest: config.longest_cycle(spec), completed: now }))
            .collect();
        Self(Arc::new(Mutex::new(HealthState {
            phase: Phase::Running,
            push_alive: false,
            push_error: None,
            restarts: 0,
            in_flight: 0,
            last_activity: now,
            cycles,
            store_error: None,
            library_missing: None,
            unreadable: BTreeMap::new(),
            last_error: None,
        })))
    }

    /// No code panics while holding the lock, and the state is valid after every step.
    pub(crate) fn lock(&self) -> MutexGuard<'_, HealthState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn health(&self, now: Instant, connection_error: Option<String>) -> Health {
        let state = self.lock();
        let lag = |cycle: &Cycle| cycle.lag(now);
        let slowest = state.cycles.iter().max_by_key(|(_, cycle)| lag(cycle));
        let store_error = state.store_error.as_ref().map(|seen| seen.text.clone());
        let unreadable = state.unreadable.iter().max_by_key(|(_, seen)| seen.seen);
        Health {
            phase: state.phase,
            scan_lag: slowest.map_or(Duration::ZERO, |(_, cycle)| lag(cycle)),
            slowest_scanner: slowest.map_or(ScannerName::LeaseExpiry, |(&name, _)| name),
            push_alive: state.push_alive,
            push_error: state.push_error.clone(),
            library_loaded: state.library_missing.is_none(),
            store_error: connection_error.or(store_error),
            unreadable: unreadable
                .map(|(partition, why)| format!("{partition} cannot be read: {}", why.text)),
            last_error: state.last_error.as_ref().map(|(text, at)| (text.clone(), now - *at)),
            restarts: state.restarts,
            in_flight: state.in_flight,
            idle_for: now.saturating_duration_since(state.last_activity),
        }
    }
}

impl HealthState {
    pub(crate) fn on_activity(&mut self, now: Instant, in_flight: usize) {
        self.last_activity = now;
        self.in_flight = in_flight;
    }

    /// A scanner completed a cycle over all partitions and deferred nothing.
    pub(crate) fn on_cycle_completed(&mut self, scanner: ScannerName, now: Instant) {
        if let Some(cycle) = self.cycles.get_mut(&scanner) {
            cycle.completed = now;
        }
    }

    pub(crate) fn on_error(&mut self, text: &str, now: Instant) {
        self.last_error = Some((text.to_owned(), now));
    }

    /// A server denied a command. Returns whether this error is new.
    pub(crate) fn on_refused(&mut self, text: &str, now: Instant) -> bool {
        self.on_error(text, now);
        let is_new = self.store_error.as_ref().is_none_or(|known| known.text != text);
        self.store_error = Some(SeenError { text: text.to_owned(), seen: now });
        is_new
    }

    /// A server answered with unreadable data. Returns whether to log it: it is new, or was last
    /// seen longer than [`LOG_AGAIN_AFTER`] ago.
    pub(crate) fn on_unreadable_partition(
        &mut self,
        partition: Partition,
        text: &str,
        now: Instant,
    ) -> bool {
        self.on_error(text, now);
        let seen = SeenError { text: text.to_owned(), seen: now };
        let known = self.unreadable.insert(partition, seen);
        known.is_none_or(|known| known.text != text || now - known.seen > LOG_AGAIN_AFTER)
    }

    pub(crate) fn on_library_missing(&mut self, text: &str, now: Instant) {
        self.on_error(text, now);
        self.library_missing = Some(SeenError { text: text.to_owned(), seen: now });
    }

    pub(crate) fn on_library_loaded(&mut self) {
        self.library_missing = None;
    }

    /// A write that began at `since` succeeded. Clears errors seen before that; returns the store
    /// error, if it was cleared.
    pub(crate) fn on_successful_write(&mut self, since: Instant) -> Option<String> {
        self.library_missing.take_if(|seen| seen.seen < since);
        self.store_error.take_if(|seen| seen.seen < since).map(|seen| seen.text)
    }

    /// How far each scanner is behind its interval, in seconds.
    #[cfg(feature = "metrics")]
    pub(crate) fn lags(&self, now: Instant) -> Vec<(ScannerName, f64)> {
        let lag = |(&name, cycle): (&ScannerName, &Cycle)| (name, cycle.lag(now).as_secs_f64());
        self.cycles.iter().map(lag).collect()
    }
}

/// With a scanner further behind than this, the engine is not ready.
const LAG_MAX: Duration = Duration::from_secs(30);

/// An unreadable partition is logged again when it was not seen for this long.
const LOG_AGAIN_AFTER: Duration = Duration::from_secs(600);

/// The engine is active every few seconds; idle for longer than this, it hangs.
const IDLE_MAX: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    /// An engine that does not sleep.
    fn wakeful() -> EngineConfig {
        EngineConfig::default().with_longest_sleep(Duration::ZERO)
    }

    #[test]
    fn a_sleeping_engine_is_not_behind_and_an_audit_never_is() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let record = HealthRecord::new(&EngineConfig::default(), start);
        record.lock().push_alive = true;
        assert!(record.health(after(59), None).is_ready(), "30 s asleep, and 30 s behind");
        for spec in scanner_specs().filter(|spec| spec.name != ScannerName::IndexReconciler) {
            record.lock().on_cycle_completed(spec.name, after(59));
        }
        record.lock().on_activity(after(59), 0);
        assert!(record.health(after(80), None).is_ready(), "an audit takes its time");
        assert!(!record.health(after(120), None).is_ready());
    }

    #[test]
    fn a_scanner_behind_its_interval_makes_an_engine_unready() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let record = HealthRecord::new(&wakeful(), start);
        record.lock().push_alive = true;
        assert!(record.health(start, None).is_ready());
        let health = record.health(after(40), None);
        assert!(!health.is_ready() && health.is_live());
        for spec in scanner_specs() {
            record.lock().on_cycle_completed(spec.name, after(40));
        }
        assert_eq!(record.health(after(40), None).why_not_ready(), None);
        assert!(!record.health(after(61), None).is_live(), "idle for more than a minute");
    }

    #[test]
    fn an_unreadable_partition_is_logged_once_and_named() {
        let start = Instant::now();
        let record = HealthRecord::new(&wakeful(), start);
        record.lock().push_alive = true;
        let fails = |at: u64| {
            let at = start + Duration::from_secs(at);
            record.lock().on_unreadable_partition(Partition::flow(3), "WRONGTYPE it is", at)
        };
        assert_eq!([fails(1), fails(2), fails(40), fails(900)], [true, false, false, true]);
        assert!(record.health(start, None).is_ready(), "the other partitions are served");
        let why = record.health(start + Duration::from_secs(40), None).why_not_ready().unwrap();
        assert!(why.contains("{fp:3} cannot be read: WRONGTYPE it is"), "{why}");
    }

    #[test]
    fn a_store_error_lasts_until_a_later_write_succeeds() {
        let start = Instant::now();
        let after = |ms| start + Duration::from_millis(ms);
        let record = HealthRecord::new(&EngineConfig::default(), start);
        record.lock().push_alive = true;
        assert!(record.lock().on_refused("OOM no", after(5)));
        assert!(!record.lock().on_refused("OOM no", after(5)), "the same error is not new");
        assert_eq!(
            record.lock().on_successful_write(start),
            None,
            "that write began before the error"
        );
        let health = record.health(after(6), None);
        assert_eq!(health.why_not_ready(), Some("OOM no".to_owned()));
        assert_eq!(record.lock().on_successful_write(after(10)), Some("OOM no".to_owned()));
        assert!(record.health(after(11), None).is_ready());
        assert!(record.health(after(11), None).last_error.is_some());
    }
}
