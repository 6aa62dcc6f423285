//! The fault catalogue: everything that the simulator does to a world. The table in `sim/FAULTS.md`
//! is generated from here.

pub(crate) mod call;
mod data;
mod edit;
pub(crate) mod effects;
mod engine;
mod key_moves;
mod keys;
mod link;
mod node;
pub(crate) mod timed;
mod worker;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::plan::hint;

/// Declares the catalogue: row, name, unit of the number in a rule, how it is injected (the doc
/// comment), and the question that it asks.
macro_rules! faults {
    ($(
        #[doc = $how:literal]
        $row:literal $name:ident $( [$unit:literal] )? asks $question:literal;
    )+) => {
        /// A kind of fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Fault { $( #[doc = $how] $name, )+ }

        impl Fault {
            /// All faults, in the order of the catalogue.
            pub const ALL: &[Self] = &[$( Self::$name, )+];

            /// The name, as in plans.
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

            /// The question that it asks about the engine.
            #[must_use]
            pub const fn question(self) -> &'static str {
                match self { $( Self::$name => $question, )+ }
            }

            /// The unit of the number in a rule; empty if it takes none.
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
    /// the engine dies between the cancels of siblings and the drain of their group
    3 CrashBetweenSaddAndDrain asks "is it finished by any engine, and drained exactly once?";
    /// the engine or caller dies between two batches of a dispatch, a purge, a chunked submission
    4 CrashMidFanOut asks "can any engine resume it, and is nothing claimable too early?";
    /// a caller stages an edge and dies before it applies the edge to the child
    5 CrashBetweenStageAndApply asks "is the edge enforced or undone, but never forgotten?";
    /// the call is applied, its reply is lost
    6 ReplyLost asks "is the call handled as perhaps applied?";
    /// the call never arrives
    6 RequestLost asks "is the call handled as perhaps applied?";
    /// the same call arrives a second time, later
    7 DuplicateDelivery ["ms"] asks "is there no second effect, even after the record is terminal or purged?";
    /// the call arrives after its sender has given up
    8 LateApply ["ms"] asks "is it refused by its fence, or because it is not due?";
    /// the reply comes late, twice, or to a restarted engine
    9 ReplyForOldTicket ["ms"] asks "is it ignored?";
    /// the first calls of a batch are applied, the connection breaks before the rest
    10 PartialPipeline ["calls"] asks "is the result of each call handled on its own?";
    /// two batches of one sender arrive in reverse order
    11 ReorderBetweenTickets ["ms"] asks "does anything rely on their order?";
    /// another client changes the execution between a scan's read and its call
    12 StalePreRead asks "is the state checked again inside the call?";
    /// the node answers MOVED, and the client follows
    13 Moved asks "is it only a delay, and never a second apply?";
    /// the node answers ASK while a slot moves
    13 Ask asks "is it only a delay, and never a second apply?";
    /// the node answers TRYAGAIN while a slot moves
    13 TryAgain asks "is it only a delay, and never a second apply?";
    /// a slot moves to another node while calls are in flight
    13 SlotMove asks "is it only a delay, and never a second apply?";
    /// a slot moves to another node key by key; some callers declare the keys of the contract only
    13 SlotMovesByKeys asks "is each call carried out on the whole slot, or refused?";
    /// a node answers that the cluster is down
    14 ClusterDown asks "is no failure charged to the candidate, and do other partitions go on?";
    /// a node is loading its data
    14 Loading asks "is no failure charged to the candidate, and do other partitions go on?";
    /// a node answers that the link to its primary is down
    14 MasterDown asks "is no failure charged to the candidate, and do other partitions go on?";
    /// a node is busy with a script
    14 Busy asks "is no failure charged to the candidate, and do other partitions go on?";
    /// a node refuses writes because it is a replica
    15 ReadOnly asks "is it reported, and retried at a limited rate?";
    /// a node refuses writes because it cannot save
    15 Misconf asks "is it reported, and retried at a limited rate?";
    /// a node refuses writes because it has too few replicas
    15 NoReplicas asks "is it reported, and retried at a limited rate?";
    /// a node refuses writes above its memory limit
    16 OutOfMemory ["keys"] asks "are completions, cancels and drains still tried first?";
    /// a node asks for a password
    17 NoAuth asks "is it reported, without a busy loop?";
    /// a permission is taken away
    17 NoPerm asks "is it reported, without a busy loop?";
    /// a key of ours holds another type
    18 WrongType asks "does only that item fail, with nothing half written?";
    /// a foreign string is stored where an index may be created, or under a similar name
    18 ForeignKey asks "does only that item fail, with nothing half written?";
    /// a function fails at one of its inner commands
    19 ScriptErrorMidway ["inner"] asks "was anything written before? There is no rollback.";
    /// the new primary lacks the last commits
    20 FailoverLosesSuffix ["commits"] asks "is every lost acknowledged change accounted for?";
    /// the old primary keeps acknowledging writes; its branch is dropped later
    21 SplitBrainBranch asks "can holders of both branches both succeed?";
    /// a failover loses the commit that increased the epoch of a lease
    22 EpochRepeats asks "does the whole fence triple tell the two leases apart?";
    /// a node restarts empty, or with older data
    23 AmnesiaRestart ["ms"] asks "is it noticed, and not taken for finished work?";
    /// a node loses all functions
    24 LibraryMissing asks "is it loaded again, with one retry and nothing acknowledged meanwhile?";
    /// a node gets another library under our name
    25 LibraryReplaced asks "is it noticed before acting, without a war of replacements?";
    /// a read is served by a lagging replica
    26 StaleReplicaRead ["commits"] asks "is it never the basis of a decision?";
    /// a node's clock jumps forward or back
    27 ServerClockJump ["ms"] asks "are mass expiries paced, with no negative ages and no stuck leases?";
    /// one node of a cluster has another time than the rest
    28 NodeClockSkew ["ms"] asks "is the clock of the serving node used for due times?";
    /// an engine's clock is ahead, or behind since a restart
    28 EngineClockSkew ["ms"] asks "is the clock of the serving node used for due times?";
    /// an engine is frozen for longer than its leases and tickets, then goes on
    29 EnginePause asks "does it act on outdated state?";
    /// many timers are due at the same time
    30 TimerStorm ["timers"] asks "do full batches follow each other, oldest first?";
    /// a key is evicted
    31 Eviction asks "is it repaired or set aside, without blocking other work?";
    /// an operator edits an entry, a score, a field or a whole index
    31 OperatorEdit asks "is it repaired or set aside, without blocking other work?";
    /// an index gets a malformed, dangling, oversized or unparsable member
    32 PoisonTuple asks "is it set aside with a reason, without delaying its neighbours?";
    /// a full batch of members that cannot be processed is first in an index
    33 PoisonHead ["members"] asks "does the scan get past them?";
    /// more siblings, edges or members than a stated limit
    34 OversizeGroup ["members"] asks "are all of them processed, in bounded steps?";
    /// several engines scan one partition at the same time
    35 ScannerOverlap asks "is the result the same as with one engine, with nothing counted twice?";
    /// the link to one node is many times slower
    36 SlowPartition ["times"] asks "do other partitions keep their pace?";
    /// an engine only handles one tenant, and the engine of the other tenant is down
    37 FilteredEngine asks "does it find its own work behind that of other tenants?";
    /// many engines start at once
    38 EngineFlood ["engines"] asks "do their scans spread out?";
    /// an engine is told to stop during a scan
    38 StopMidScan asks "does it stop promptly, with nothing half done?";
    /// a worker completes, renews or cancels after losing its lease
    39 WorkerZombie ["ms"] asks "is it refused with the right code, without affecting the new holder?";
    /// a worker reports twice, the same or two different results
    40 WorkerDoubleReport asks "does the first win, and is the second refused?";
    /// a claim is applied, but the worker never learns of it
    41 ClaimReplyLost asks "does the work come back without an operator?";
    /// a signal arrives before the wait, after its end, twice, or for an old waitpoint
    42 SignalEarlyLateTwice asks "does each get its defined answer, without a wrong resume?";
    /// a cancel races claim, complete, signal, expiry, purge or dispatch
    43 CancelRace asks "is there one winner, with no leftovers?";
    /// a replay races claim, complete, signal, expiry, purge or dispatch
    43 ReplayRace asks "is there one winner, with no leftovers?";
    /// completion pushes are dropped, and the subscriber reconnects
    44 WakeupLost asks "is scanning alone enough?";
    /// the push channels of callers, or of a worker, deliver nothing, and report no gap
    44 PushesSilent asks "does a waiter still notice the end, with its next poll?";
    /// an actor's requests arrive, but it gets no replies
    45 OneWayCut asks "is there no endless loop of claim and expiry?";
    /// links are blocked, and freed in another order
    45 SwizzleClog asks "is there no endless loop of claim and expiry?";
    /// a worker dies before one of its next effects
    46 WorkerDies ["effects"] asks "does its work come back, whatever it had begun?";
    /// the loop of a worker stands still for longer than its leases, while its handlers go on
    47 WorkerPause asks "are outcomes under a lost lease discarded, and handlers told to stop?";
    /// the clock of a worker jumps forward or back
    48 WorkerClockJump ["ms"] asks "does it keep no lease too long, and does it go on?";
    /// a worker dies, and starts again at once under the same instance name
    49 WorkerRestart ["ms"] asks "is the work of the dead one told from that of the new one?";
    /// a worker is drained, and replaced
    50 WorkerDrain asks "is everything that it holds reported or put back?";
    /// the capacity of a worker is set to zero, and back later
    51 CapacityDropped asks "does it start nothing meanwhile, and go on afterwards?";
    /// a node stands still: what is sent to it is answered when it goes on
    52 NodePause asks "do claims and scans on other nodes go on at their rate?";
    /// the record of an execution, most often one that others wait for, is deleted for good
    53 RecordLost asks "do its children end with a reason, or go on, instead of waiting forever?";
}

impl Fault {
    /// Whether there must be several nodes for it.
    #[must_use]
    pub const fn needs_cluster(self) -> bool {
        use Fault::*;
        matches!(self, Moved | Ask | SlotMove | SlotMovesByKeys | NodeClockSkew)
    }

    /// Whether it only adds load, or slows down a part of the world: the rest must go on as usual.
    #[must_use]
    pub const fn only_adds_load(self) -> bool {
        matches!(
            self,
            Self::SlowPartition | Self::NodePause | Self::TimerStorm | Self::OversizeGroup
        )
    }
}

impl Fault {
    /// Whether a healthy worker keeps its leases through it: what it does to one call or to one
    /// worker that dies is seen in the events, and the rest is about others than workers.
    #[must_use]
    pub const fn spares_leases(self) -> bool {
        use Fault::*;
        matches!(
            self,
            SlowPartition
                | NodePause
                | TimerStorm
                | OversizeGroup
                | CrashBeforeSend
                | CrashAfterApply
                | CrashBetweenSaddAndDrain
                | CrashMidFanOut
                | CrashBetweenStageAndApply
                | ReplyLost
                | RequestLost
                | CancelRace
                | StalePreRead
                | PoisonTuple
                | PoisonHead
                | EngineClockSkew
                | EnginePause
                | ScannerOverlap
                | FilteredEngine
                | EngineFlood
                | StopMidScan
                | SignalEarlyLateTwice
                | WakeupLost
                | PushesSilent
                | WorkerDies
                | WorkerRestart
                | WorkerDrain
                | CapacityDropped
        )
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
            format!("`{text}` is not a fault of the catalogue in sim/FAULTS.md{hint}")
        })
    }
}

/// The catalogue as a Markdown table.
#[must_use]
pub fn table() -> String {
    let mut table = String::from(
        "| # | Fault | Unit | Injected as | The question it asks |\n| --- | --- | --- | --- | --- |\n",
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
    fn the_catalogue_has_all_rows_and_every_name_parses() {
        let rows: std::collections::BTreeSet<u8> = Fault::ALL.iter().map(|f| f.row()).collect();
        assert_eq!(rows, (1..=53).collect());
        for fault in Fault::ALL {
            assert_eq!(fault.name().parse(), Ok(*fault));
        }
        assert!("Nothing".parse::<Fault>().is_err());
    }

    #[test]
    fn faults_md_holds_the_generated_table() {
        let page = include_str!("../../FAULTS.md");
        assert!(page.contains(&table()), "sim/FAULTS.md is stale; it should hold:\n{}", table());
    }
}
