//! Everything that the simulator does to a world on purpose. One variant per name; the table in
//! `sim/FAULTS.md` is written from here.

pub(crate) mod call;
mod data;
mod edit;
mod keys;
pub(crate) mod timed;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::plan::hint;

/// Declares the catalogue: row, name, what the number in a rule counts, how it is injected (the
/// doc comment) and the question that it asks.
macro_rules! faults {
    ($( #[doc = $how:literal] $row:literal $name:ident $( [$unit:literal] )? asks $question:literal; )+) => {
        /// One thing that can go wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Fault { $( #[doc = $how] $name, )+ }

        impl Fault {
            /// All of them, in the order of the catalogue.
            pub const ALL: &[Self] = &[$( Self::$name, )+];

            /// The name, as plans spell it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $( Self::$name => stringify!($name), )+ }
            }

            /// Its row in the catalogue.
            #[must_use]
            pub const fn row(self) -> u8 {
                match self { $( Self::$name => $row, )+ }
            }

            /// How it is injected.
            #[must_use]
            pub const fn injected_as(self) -> &'static str {
                match self { $( Self::$name => $how, )+ }
            }

            /// What it asks of the engine.
            #[must_use]
            pub const fn question(self) -> &'static str {
                match self { $( Self::$name => $question, )+ }
            }

            /// What the number of a rule counts; empty when it takes none.
            #[must_use]
            pub const fn unit(self) -> &'static str {
                match self { $( Self::$name => concat!($( $unit )?), )+ }
            }
        }
    };
}

faults! {
    /// the engine, or another sender, dies after deciding, before anything is sent
    1 CrashBeforeSend asks "is work re-derived from the keyspace alone?";
    /// the engine, or another sender, dies when the call is applied, its reply unseen
    2 CrashAfterApply asks "does the next engine see it as done?";
    /// the engine dies between the cancels of siblings and the drain of their note
    3 CrashBetweenSaddAndDrain asks "is it finished by anyone, drained once, none missed?";
    /// the engine or caller dies between two batches of a dispatch, a purge, a chunked submission
    4 CrashMidFanOut asks "resumable in any order, nothing claimable too early?";
    /// an edge is staged, its child never told by the one who staged it
    5 CrashBetweenStageAndApply asks "enforced or undone, never forgotten?";
    /// the call is applied, its reply goes missing
    6 ReplyLost asks "one symptom, opposite truths";
    /// the call never arrives
    6 RequestLost asks "one symptom, opposite truths";
    /// the same call arrives a second time, later
    7 DuplicateDelivery ["ms"] asks "no second effect, also after the record is terminal or purged?";
    /// the call arrives after its sender gave it up
    8 LateApply ["ms"] asks "refused by fence or dueness?";
    /// the reply comes late, twice, or to a restarted engine
    9 ReplyForOldTicket ["ms"] asks "dropped without a trace in state?";
    /// the first calls of a batch are applied, the connection breaks before the rest
    10 PartialPipeline ["calls"] asks "is each call judged alone?";
    /// two batches of one sender arrive in the other order
    11 ReorderBetweenTickets ["ms"] asks "does anything rely on their order?";
    /// the execution moves between a scan's read and its act
    12 StalePreRead asks "rechecked inside the call?";
    /// the node answers MOVED, and the client follows
    13 Moved asks "delay at most, never a second apply?";
    /// the node answers ASK in the middle of a slot's move
    13 Ask asks "delay at most, never a second apply?";
    /// the node answers TRYAGAIN in the middle of a slot's move
    13 TryAgain asks "delay at most, never a second apply?";
    /// a slot moves to another node while calls are on their way
    13 SlotMove asks "delay at most, never a second apply?";
    /// a node says that its cluster is down
    14 ClusterDown asks "candidate stays, no failure charged, other partitions go on?";
    /// a node is loading its data
    14 Loading asks "candidate stays, no failure charged, other partitions go on?";
    /// a node has lost its primary
    14 MasterDown asks "candidate stays, no failure charged, other partitions go on?";
    /// a node is busy with a script
    14 Busy asks "candidate stays, no failure charged, other partitions go on?";
    /// a node refuses writes as a replica
    15 ReadOnly asks "unhealthy and visible, paced?";
    /// a node refuses writes since it cannot save
    15 Misconf asks "unhealthy and visible, paced?";
    /// a node refuses writes for want of replicas
    15 NoReplicas asks "unhealthy and visible, paced?";
    /// a node refuses writes above its memory limit
    16 OutOfMemory ["keys"] asks "completions, cancels and drains still wanted first?";
    /// a node wants a password from now on
    17 NoAuth asks "loud, no hot loop?";
    /// a right is taken away
    17 NoPerm asks "loud, no hot loop?";
    /// another type stands under a key of ours
    18 WrongType asks "that item fails alone, nothing half written?";
    /// a text that is none of ours stands where an index of ours would, or under a name like ours
    18 ForeignKey asks "that item fails alone, nothing half written?";
    /// a script raises at one of its inner commands
    19 ScriptErrorMidway ["inner"] asks "no rollback exists: had anything been written?";
    /// the new primary lacks the last commits
    20 FailoverLosesSuffix ["commits"] asks "is every vanished acknowledged fact accounted for?";
    /// the old primary keeps acknowledging; its branch is dropped later
    21 SplitBrainBranch asks "do holders from both branches ever both succeed?";
    /// a failover loses the commit that stepped a lease's epoch
    22 EpochRepeats asks "does only the whole fence triple tell them apart?";
    /// a node returns empty, or some seconds old
    23 AmnesiaRestart ["ms"] asks "noticed, and not taken for all done?";
    /// a node has no functions any more
    24 LibraryMissing asks "reload, one retry, no ack meanwhile?";
    /// a node has another library under our name
    25 LibraryReplaced asks "noticed before acting, no replace war?";
    /// a read is served by a lagging replica
    26 StaleReplicaRead ["commits"] asks "fit for display, never for a decision?";
    /// a node's clock leaps ahead or steps back
    27 ServerClockJump ["ms"] asks "paced mass expiry, no negative age, no stuck lease?";
    /// one node of a cluster has another time than the rest, for good
    28 NodeClockSkew ["ms"] asks "dueness judged by the serving node?";
    /// an engine's clock is ahead, or behind since its start
    28 EngineClockSkew ["ms"] asks "dueness judged by the serving node?";
    /// an engine is frozen past its beliefs, then goes on
    29 EnginePause asks "does it act on them?";
    /// very many things fall due at one instant
    30 TimerStorm ["timers"] asks "full batches loop on, oldest first?";
    /// a key of a related set vanishes
    31 Eviction asks "repaired or set aside, never a wedge?";
    /// somebody edits an entry, a score, a field or a whole index by hand
    31 OperatorEdit asks "repaired or set aside, never a wedge?";
    /// a malformed, dangling, oversized or unparsable member turns up in an index
    32 PoisonTuple asks "set aside with a reason, neighbours not delayed?";
    /// a full batch of hopeless candidates stands at the head of an index
    33 PoisonHead ["members"] asks "does the window move on?";
    /// siblings, edges or members beyond a stated limit
    34 OversizeGroup ["members"] asks "all of them in the end, in bounded steps?";
    /// several engines scan one partition at the same instant
    35 ScannerOverlap asks "same result as one, no double charge?";
    /// the link to one node is many times slower
    36 SlowPartition ["times"] asks "do others keep their cadence?";
    /// an engine cares for one tenant only, and the other tenant's engine is down
    37 FilteredEngine asks "own work found behind foreign candidates?";
    /// many engines start at once
    38 EngineFlood ["engines"] asks "jitter?";
    /// an engine is told to stop in the middle of a scan
    38 StopMidScan asks "prompt stop, nothing half done?";
    /// a worker completes, renews or cancels after losing its lease
    39 WorkerZombie ["ms"] asks "refused with the right code, new holder undisturbed?";
    /// a worker reports twice, the same or two different results
    40 WorkerDoubleReport asks "first wins, second is told so?";
    /// a lease is granted, and its holder never learns
    41 ClaimReplyLost asks "does work come back without an operator?";
    /// a signal comes before the wait, after its end, twice, or to a stale waitpoint
    42 SignalEarlyLateTwice asks "one defined answer each, no wrong resume?";
    /// a cancel races claim, complete, signal, expiry, purge or dispatch
    43 CancelRace asks "one winner, no leftovers?";
    /// a replay races claim, complete, signal, expiry, purge or dispatch
    43 ReplayRace asks "one winner, no leftovers?";
    /// completion pushes are dropped, and the subscriber reconnects
    44 WakeupLost asks "pushes are hints: does scanning alone suffice?";
    /// requests pass, replies never do
    45 OneWayCut asks "no livelock of claim, expire, claim?";
    /// links are clogged, and freed in another order
    45 SwizzleClog asks "no livelock of claim, expire, claim?";
}

impl Fault {
    /// Whether it only makes the work more, or one part of the world slow: others have to go on as
    /// if nothing had happened.
    #[must_use]
    pub const fn burdens(self) -> bool {
        matches!(self, Self::SlowPartition | Self::TimerStorm | Self::OversizeGroup)
    }
}

/// How often each kind was injected.
pub type FaultCounts = BTreeMap<Fault, u64>;

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|fault| fault.name() == text);
        found.copied().ok_or_else(|| {
            let hint = hint(text, Self::ALL.iter().map(|fault| fault.name()));
            format!("`{text}` is no fault of the catalogue, sim/FAULTS.md{hint}")
        })
    }
}

/// The catalogue as a table.
#[must_use]
pub fn table() -> String {
    let mut table = String::from(
        "| # | Fault | Takes | Injected as | The question it asks |\n| --- | --- | --- | --- | --- |\n",
    );
    for fault in Fault::ALL {
        let (row, how, question) = (fault.row(), fault.injected_as(), fault.question());
        let unit = if fault.unit().is_empty() { "" } else { &format!("`{}`", fault.unit()) };
        table.push_str(&format!("| {row} | {fault} | {unit} |{how} | {question} |\n"));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_catalogue_has_all_rows_and_each_name_is_read_back() {
        let rows: std::collections::BTreeSet<u8> = Fault::ALL.iter().map(|f| f.row()).collect();
        assert_eq!(rows, (1..=45).collect());
        for fault in Fault::ALL {
            assert_eq!(fault.name().parse(), Ok(*fault));
        }
        assert!("Nothing".parse::<Fault>().is_err());
    }

    #[test]
    fn the_table_in_the_repository_is_this_one() {
        let page = include_str!("../../FAULTS.md");
        assert!(page.contains(&table()), "sim/FAULTS.md is stale; it should hold:\n{}", table());
    }
}
