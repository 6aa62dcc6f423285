//! The settings of a world: one line each, `name value`.

use selvedge_core::audit::Snapshot;

use super::policy::{Doing, Habits};
use super::seed::Seed;
use super::words::{Span, read_ms, show_ms};

/// A value that a setting may have.
pub(super) trait Setting: Sized {
    fn read(text: &str) -> Result<Self, String>;
    fn show(&self) -> String;
}

/// Declares the settings with their defaults.
macro_rules! settings {
    ($( #[doc = $doc:literal] $name:ident: $kind:ty = $default:expr; )+) => {
        /// What kind of world it is. Every value has a sane default.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Config { $( #[doc = $doc] pub $name: $kind, )+ }

        impl Default for Config {
            fn default() -> Self {
                Self { $( $name: $default, )+ }
            }
        }

        impl Config {
            /// Every setting: its name, what it says, and its default.
            #[must_use]
            pub fn settings() -> Vec<(&'static str, &'static str, String)> {
                vec![$( (stringify!($name), $doc, <$kind as Setting>::show(&$default)), )+]
            }

            /// Sets one; none if there is no such setting.
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
    /// where all draws of the run begin: a number, or a commit id of 40 hexadecimal digits
    seed: Seed = Seed::from(0);
    /// replicas of the engine, 1 to 7
    engines: u64 = 1;
    /// primaries, 1 to 3; more than one is a cluster
    shards: u64 = 1;
    /// workers, 0 to 9
    workers: u64 = 1;
    /// what workers do with a task that no `task` line speaks of, by weight
    habits: Habits = Habits(vec![(Doing::Complete, 1)]);
    /// whether somebody signals what workers suspend, sooner or later, four times out of five
    signals: bool = true;
    /// whose work it is, 1 or 2 tenants
    tenants: u64 = 1;
    /// flow partitions
    flow_partitions: u64 = 1;
    /// budget partitions
    budget_partitions: u64 = 1;
    /// quota partitions
    quota_partitions: u64 = 1;
    /// how many lanes there are, `default` being the first
    lanes: u64 = 1;
    /// how long a request or a reply is on its way
    link: Times = Times::new(1, 5);
    /// how long a worker is busy with a task
    work: Times = Times::new(10, 500);
    /// how long a worker waits before it asks again when there was nothing
    idle: Times = Times::new(100, 1_000);
    /// how long a lease stands
    lease: Ms = Ms(5_000);
    /// how long a client waits for an answer
    patience: Ms = Ms(3_000);
    /// how long an engine waits for the answers to a batch
    ticket_timeout: Ms = Ms(10_000);
    /// most batches of an engine in flight
    window: u64 = 1_024;
    /// most batches of an engine in flight for one slot
    window_per_slot: u64 = 2;
    /// completions that an engine dispatches side by side
    dispatch_concurrency: u64 = 64;
    /// completions that may wait for an engine
    dispatch_queue: u64 = 10_000;
    /// how often every scanner runs, 100ms at least; 0s leaves each its own interval
    interval: Ms = Ms(0);
    /// whether completions are pushed to the engines
    push: bool = true;
    /// whether scans of sets come in any order, in small pages and with repeats
    unruly_scans: bool = false;
    /// whether events of one instant come in a drawn order
    permute: bool = false;
    /// whether the end is drawn: some engines and workers stay broken for good
    permanent: bool = false;
    /// how long faults strike before the world must settle
    length: Ms = Ms(30_000);
    /// how long the healthy set may take to come to rest
    bound: Ms = Ms(600_000);
}

impl Config {
    /// How long the slowest scanner may take to come by.
    #[must_use]
    pub fn cycle_ms(&self) -> u64 {
        self.pass_ms(SLOWEST_MS)
    }

    /// How long a scanner may take to come by, though it takes its time when idle, and to finish
    /// what it finds: some round trips one after the other. Left to itself it pauses for so long at
    /// most.
    #[must_use]
    pub fn pass_ms(&self, pause_ms: u64) -> u64 {
        let idle = if self.interval.0 == 0 { pause_ms } else { 2 * self.interval.0 };
        idle + SLACK_MS + ROUND_TRIPS * 2 * self.link.0.to
    }

    /// How long it may take until all has happened that happens by itself: a cancelled flow gives
    /// its members a grace, a lease stands until it expires, and then a scanner has to come by.
    #[must_use]
    pub fn settle_ms(&self) -> u64 {
        GRACE_MS.max(self.lease.0) + self.cycle_ms()
    }

    /// How long an engine may take to dispatch the ends of all executions, a round trip for each.
    #[must_use]
    pub fn dispatch_ms(&self, shards: &[Snapshot]) -> u64 {
        let executions: usize = shards.iter().map(|shard| shard.executions().count()).sum();
        executions as u64 / self.dispatch_concurrency.max(1) * 2 * self.link.0.to
    }
}

/// The longest interval of any scanner.
const SLOWEST_MS: u64 = 60_000;

/// What `cancel_flow` gives members to end by themselves.
const GRACE_MS: u64 = 30_000;

const SLACK_MS: u64 = 4_000;

/// Those of a scan that resolves edges, and of the cascade behind it.
const ROUND_TRIPS: u64 = 8;

/// Milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ms(pub u64);

/// From the shortest to the longest time.
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
        text.parse().map_err(|_| format!("`{text}` is no whole number"))
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
