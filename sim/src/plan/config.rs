//! The settings of a plan: one line each, `name value`.

use selvedge_core::audit::Snapshot;

use super::policy::{Habits, WorkerAction};
use super::seed::Seed;
use super::tokens::{read_ms, show_ms};
use crate::search::Span;

/// The value of a setting.
pub(super) trait Setting: Sized {
    fn read(text: &str) -> Result<Self, String>;
    fn show(&self) -> String;
}

/// Declares the settings with their defaults.
macro_rules! settings {
    ($( #[doc = $doc:literal] $name:ident: $kind:ty = $default:expr; )+) => {
        /// The settings of a plan. Every setting has a default.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Config { $( #[doc = $doc] pub $name: $kind, )+ }

        impl Default for Config {
            fn default() -> Self {
                Self { $( $name: $default, )+ }
            }
        }

        impl Config {
            /// All settings: name, meaning and default.
            #[must_use]
            pub fn settings() -> Vec<(&'static str, &'static str, String)> {
                vec![$( (stringify!($name), $doc, <$kind as Setting>::show(&$default)), )+]
            }

            /// Sets a value; none if there is no such setting.
            pub(super) fn set(&mut self, name: &str, text: &str) -> Option<Result<(), String>> {
                match name {
                    $( stringify!($name) => Some(<$kind as Setting>::read(text).map(|value| {
                        self.$name = value;
                    })), )+
                    _ => None,
                }
            }

            /// One line for each setting that is not at its default.
            pub(super) fn lines(&self) -> Vec<String> {
                let mut lines = Vec::new();
                let default = Self::default();
                $( if self.$name != default.$name {
                    let value = Setting::show(&self.$name);
                    lines.push(format!("{} {value}", stringify!($name)));
                } )+
                lines
            }
        }
    };
}

settings! {
    /// the seed of all random draws: a number, or a commit id of 40 hexadecimal digits
    seed: Seed = Seed::from(0);
    /// engines, 1 to 7
    engines: u64 = 1;
    /// shards, 1 to 3; more than one is a cluster
    shards: u64 = 1;
    /// workers, 0 to 9
    workers: u64 = 1;
    /// the most executions that a worker runs at the same time, 1 to 64
    capacity: u64 = 1;
    /// what workers do with executions that have no `task` line, by weight
    habits: Habits = Habits(vec![(WorkerAction::Complete, 1)]);
    /// whether suspended executions are signalled after a while, in four of five cases
    signals: bool = true;
    /// tenants, 1 or 2
    tenants: u64 = 1;
    /// kinds of work, 1 to 3; the first worker takes all kinds and tenants, the others some
    kinds: u64 = 1;
    /// flow partitions
    flow_partitions: u64 = 1;
    /// budget partitions
    budget_partitions: u64 = 1;
    /// quota partitions
    quota_partitions: u64 = 1;
    /// lanes; the first one is called `default`
    lanes: u64 = 1;
    /// how long a request or a reply takes
    link: Times = Times::new(1, 5);
    /// how long a worker works on an execution
    work: Times = Times::new(10, 500);
    /// how long a worker waits before it polls the next lane of a partition: the mean of both
    idle: Times = Times::new(100, 1_000);
    /// the duration of a lease
    lease: Ms = Ms(5_000);
    /// how long a worker repeats an admission, what a handler asks for and the release of a slot
    retry_for: Ms = Ms(15_000);
    /// how long a client waits for a reply
    patience: Ms = Ms(3_000);
    /// how long an engine waits for the replies to a batch
    ticket_timeout: Ms = Ms(10_000);
    /// the most batches of an engine in flight
    window: u64 = 1_024;
    /// the most batches of an engine in flight for one slot
    window_per_slot: u64 = 2;
    /// the most completions that an engine dispatches at the same time
    dispatch_concurrency: u64 = 64;
    /// the most completions that wait in an engine
    dispatch_queue: u64 = 10_000;
    /// the most ended executions of a lane in a partition that engines keep; 0 keeps any number
    keep: u64 = 0;
    /// the interval of all scanners, at least 100ms; 0s keeps the interval of each scanner
    interval: Ms = Ms(0);
    /// the longest sleep of an engine, without an `interval`; 0s for none
    sleep: Ms = Ms(30_000);
    /// whether completions are pushed to the engines, and ready and lost executions to the workers
    push: bool = true;
    /// whether scans of sets return members in random order, in small pages and with repeats
    unruly_scans: bool = false;
    /// whether events at the same time happen in random order
    permute: bool = false;
    /// whether some engines and workers stay broken after the faults have ended
    permanent: bool = false;
    /// how long faults are injected
    length: Ms = Ms(30_000);
    /// how long the world may take to come to rest after that
    bound: Ms = Ms(600_000);
}

impl Config {
    /// The longest time until every scanner has run.
    #[must_use]
    pub fn cycle_ms(&self) -> u64 {
        self.pass_ms(SLOWEST_MS) + AUDIT_MS
    }

    /// The longest time until a scanner has run and finished what it found, which takes several
    /// round trips in a row. Without an `interval` it pauses for at most `pause_ms`.
    #[must_use]
    pub fn pass_ms(&self, pause_ms: u64) -> u64 {
        let idle = if self.interval.0 == 0 { pause_ms } else { 2 * self.interval.0 };
        // With one batch in flight for a slot, scanners and dispatches wait for each other.
        let round_trips = if self.window_per_slot < 2 { 2 * ROUND_TRIPS } else { ROUND_TRIPS };
        // What no push tells of is found when the engine has slept enough.
        let asleep = if self.push { 0 } else { self.longest_sleep_ms() };
        idle + asleep + SLACK_MS + round_trips * 2 * self.link.0.to
    }

    /// How long engines sleep.
    #[must_use]
    pub fn longest_sleep_ms(&self) -> u64 {
        if self.interval.0 == 0 { self.sleep.0 } else { 0 }
    }

    /// The longest time until everything has happened that happens without a client: the grace of a
    /// cancelled flow, the end of a lease, and a scan after that.
    #[must_use]
    pub fn settle_ms(&self) -> u64 {
        GRACE_MS.max(self.lease.0) + self.cycle_ms()
    }

    /// How long an engine may take to dispatch the completions of all executions.
    #[must_use]
    pub fn dispatch_ms(&self, shards: &[Snapshot]) -> u64 {
        let executions: usize = shards.iter().map(|shard| shard.executions().count()).sum();
        executions as u64 / self.dispatch_concurrency.max(1) * 2 * self.link.0.to
    }
}

/// The longest interval of any scanner.
const SLOWEST_MS: u64 = 60_000;

/// How long an audit takes over the executions of a plan, at the default pace.
const AUDIT_MS: u64 = 10_000;

/// The grace that `cancel_flow` gives to running members.
const GRACE_MS: u64 = 30_000;

const SLACK_MS: u64 = 4_000;

/// The round trips of a scan that resolves edges, and of the dispatch that follows.
const ROUND_TRIPS: u64 = 8;

/// Milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ms(pub u64);

/// A range of durations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times(pub Span);

impl Times {
    /// From `from` to `to` milliseconds.
    #[must_use]
    pub const fn new(from: u64, to: u64) -> Self {
        Self(Span { from, to })
    }
}

impl Setting for u64 {
    fn read(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| format!("`{text}` is not a whole number"))
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Setting for bool {
    fn read(text: &str) -> Result<Self, String> {
        match text {
            "yes" => Ok(true),
            "no" => Ok(false),
            _ => Err(format!("`{text}` is neither yes nor no")),
        }
    }

    fn show(&self) -> String {
        if *self { "yes" } else { "no" }.to_owned()
    }
}

impl Setting for Seed {
    fn read(text: &str) -> Result<Self, String> {
        text.parse()
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Setting for Ms {
    fn read(text: &str) -> Result<Self, String> {
        read_ms(text).map(Self)
    }

    fn show(&self) -> String {
        show_ms(self.0)
    }
}

impl Setting for Times {
    fn read(text: &str) -> Result<Self, String> {
        let (from, to) = text.split_once("..").unwrap_or((text, text));
        let (from, to) = (read_ms(from)?, read_ms(to)?);
        if from > to {
            return Err(format!("`{text}` ends before it begins"));
        }
        Ok(Self::new(from, to))
    }

    fn show(&self) -> String {
        format!("{}..{}", show_ms(self.0.from), show_ms(self.0.to))
    }
}
