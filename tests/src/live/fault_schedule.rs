//! [`FaultSchedule`]: the servers, the processes, and every fault with its time, drawn from a seed.

use std::fmt;
use std::time::Duration;

use selvedge_sim::search::Draws;

/// What the servers look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shape {
    /// One server that writes everything to its append-only file.
    Standalone,
    /// A primary and a replica behind one address.
    Pair,
    /// Three primaries with a replica each.
    Cluster,
}

impl Shape {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Standalone, Self::Pair, Self::Cluster];
}

macro_rules! faults {
    ($( $(#[$doc:meta])* $name:ident = $text:literal on $shapes:expr, )+) => {
        /// What is done to whom.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Fault { $( $(#[$doc])* $name, )+ }

        impl Fault {
            /// Every fault, with the shapes that can suffer it.
            pub const ALL: &[(Self, &[Shape])] = &[$( (Self::$name, $shapes), )+];
        }

        impl fmt::Display for Fault {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $( Self::$name => $text, )+ })
            }
        }
    };
}

faults! {
    /// An engine dies at once; another one starts in its place a little later.
    KillEngine = "kill -9 of an engine" on &Shape::ALL,
    /// A worker dies at once; another one starts in its place.
    KillWorker = "kill -9 of a worker" on &Shape::ALL,
    /// An engine stands still, and goes on later with what it believed.
    StopEngine = "SIGSTOP and SIGCONT of an engine" on &Shape::ALL,
    /// A worker stands still beyond its lease, and goes on.
    StopWorker = "SIGSTOP and SIGCONT of a worker" on &Shape::ALL,
    /// An engine dies, and the one in its place has a clock that is minutes off. Only where there
    /// is a library that shifts clocks.
    ShiftClock = "clock of an engine shifted" on &Shape::ALL,
    /// A server dies at once, and starts again with what it had written.
    KillServer = "kill -9 and restart of a server" on &[Shape::Standalone],
    /// A primary stands still.
    StopServer = "SIGSTOP and SIGCONT of a server" on &Shape::ALL,
    /// A replica is killed and restarted empty, so that it needs a full synchronisation.
    KillReplica = "kill -9 and restart of a replica" on &[Shape::Pair, Shape::Cluster],
    /// A replica stands still, and hears later what happened meanwhile.
    StopReplica = "SIGSTOP and SIGCONT of a replica" on &[Shape::Pair, Shape::Cluster],
    /// All connections are cut.
    ResetLinks = "connections reset" on &Shape::ALL,
    /// All data is held back for a while.
    DelayLinks = "connections delayed" on &Shape::ALL,
    /// The library is gone from a server.
    FlushFunctions = "FUNCTION FLUSH" on &Shape::ALL,
    /// A server hangs up on its clients.
    KillClients = "CLIENT KILL" on &Shape::ALL,
    /// A server lets its clients wait.
    PauseClients = "CLIENT PAUSE" on &Shape::ALL,
    /// A planned failover to the replica: nothing is lost.
    Failover = "failover in good order" on &[Shape::Pair, Shape::Cluster],
    /// The primary dies and the replica takes over. It has heard whatever callers were told:
    /// nothing is lost but answers.
    Crash = "failover by kill -9 of the primary" on &[Shape::Pair, Shape::Cluster],
    /// The same, but that the replica has heard nothing for a while, and callers have. What they
    /// were told meanwhile is lost.
    LaggingCrash = "failover to a replica that lags" on &[Shape::Pair, Shape::Cluster],
    /// A slot moves to another primary with everything in it.
    MoveSlot = "slot migrated" on &[Shape::Cluster],
}

/// One fault and its time.
#[derive(Clone, Copy, Debug)]
pub struct TimedFault {
    /// When, from the start.
    pub at: Duration,
    /// What.
    pub fault: Fault,
    /// Which of the possible targets.
    pub whom: usize,
    /// For how long, where it lasts.
    pub lasting: Duration,
}

/// What a schedule is to be like, whatever its seed.
#[derive(Clone, Copy, Debug)]
pub struct ScheduleOptions {
    /// How long faults are injected.
    pub lasts: Duration,
    /// The servers, if they are not for the seed to choose.
    pub shape: Option<Shape>,
    /// Whether replicas may lag behind a primary that dies, which loses acknowledged writes.
    pub lags: bool,
}

/// One schedule.
#[derive(Clone, Debug)]
pub struct FaultSchedule {
    /// What it was drawn from.
    pub seed: u64,
    /// The servers.
    pub shape: Shape,
    /// How many engines there are at any time.
    pub engines: usize,
    /// How many workers there are at any time.
    pub workers: usize,
    /// How long faults are injected.
    pub lasts: Duration,
    /// The faults, in order of time.
    pub faults: Vec<TimedFault>,
}

impl FaultSchedule {
    /// The schedule of a seed: some kinds of faults are on, in bursts with quiet times between.
    #[must_use]
    pub fn from_seed(seed: u64, options: &ScheduleOptions) -> Self {
        let ScheduleOptions { lasts, shape, lags } = *options;
        let mut draws = Draws::seeded(seed, 0);
        let drawn = Shape::ALL[draws.index(Shape::ALL.len())];
        let shape = shape.unwrap_or(drawn);
        let possible: Vec<Fault> = Fault::ALL
            .iter()
            .filter(|(_, shapes)| shapes.contains(&shape))
            .map(|(fault, _)| *fault)
            .filter(|fault| lags || *fault != Fault::LaggingCrash)
            .collect();
        let mut on: Vec<Fault> = possible.iter().copied().filter(|_| draws.index(3) < 2).collect();
        if on.is_empty() {
            on = possible;
        }
        let end_ms = u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX);
        let mut faults = Vec::new();
        let mut at_ms = 500 + between(&mut draws, 0, 1_500);
        while at_ms + HEALING_MS < end_ms {
            faults.push(TimedFault {
                at: Duration::from_millis(at_ms),
                fault: on[draws.index(on.len())],
                whom: draws.index(1_000),
                lasting: Duration::from_millis(between(&mut draws, 100, 4_000)),
            });
            let quiet = draws.index(3) == 0;
            at_ms += if quiet {
                between(&mut draws, 2_000, 5_000)
            } else {
                between(&mut draws, 50, 900)
            };
        }
        let (engines, workers) = (1 + draws.index(3), 1 + draws.index(3));
        Self { seed, shape, engines, workers, lasts, faults }
    }
}

fn between(draws: &mut Draws, least: usize, most: usize) -> u64 {
    u64::try_from(least + draws.index(most - least + 1)).unwrap_or(0)
}

/// The last fault ends before the schedule does.
const HEALING_MS: u64 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_gives_the_same_schedule() {
        let lasts = Duration::from_secs(30);
        let options = ScheduleOptions { lasts, shape: None, lags: true };
        let mut dealt = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let schedule = FaultSchedule::from_seed(seed, &options);
            assert_eq!(
                format!("{schedule:?}"),
                format!("{:?}", FaultSchedule::from_seed(seed, &options))
            );
            assert!(schedule.faults.iter().all(|timed| timed.at < lasts));
            assert!(!schedule.faults.is_empty());
            dealt.extend(schedule.faults.iter().map(|timed| timed.fault));
            let prompt =
                FaultSchedule::from_seed(seed, &ScheduleOptions { lags: false, ..options });
            assert!(prompt.faults.iter().all(|timed| timed.fault != Fault::LaggingCrash));
        }
        assert_eq!(dealt.len(), Fault::ALL.len(), "some fault is never dealt");
    }
}
