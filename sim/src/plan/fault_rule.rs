//! A fault of a plan: which, when, and to whom.
//!
//! ```text
//! fault ReplyLost on 3rd drain by engine-1 in fp:7
//! fault FailoverLosesSuffix at 41.2s to node-1 commits 5
//! fault EnginePause at 8s to engine-2 for 12s
//! ```

use std::collections::BTreeSet;
use std::fmt;

use super::step::{once, read_partition};
use super::tokens::{Tokens, read_ms, read_ordinal, show_ms, show_ordinal};
use crate::event::{Actor, function_of, keys_of};
use crate::fault::Fault;

/// A fault of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultRule {
    /// The fault.
    pub fault: Fault,
    /// When it is injected.
    pub trigger: Trigger,
    /// To whom; chosen by the fault if not given.
    pub to: Option<Actor>,
    /// Its duration.
    pub lasting_ms: Option<u64>,
    /// A number, in the unit of the fault.
    pub amount: Option<i64>,
    /// The execution, partition or key.
    pub subject: Option<String>,
}

/// When a fault is injected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// At this time.
    At(u64),
    /// At a call.
    Call(CallPattern),
}

/// A pattern for calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallPattern {
    /// Which of the matching calls, from 1.
    pub nth: u32,
    /// The name of the function without its prefix, or its first words; `call` matches all.
    pub verb: String,
    /// The sender; any if not given.
    pub by: Option<Actor>,
    /// The flow partition; any if not given.
    pub partition: Option<u16>,
}

impl CallPattern {
    /// Whether a call matches, whichever of the matching calls it is.
    #[must_use]
    pub fn fits(&self, sender: Actor, argv: &[Vec<u8>]) -> bool {
        if self.by.is_some_and(|by| by != sender) {
            return false;
        }
        if self.verb != "call" && !verb_fits(&self.verb, argv) {
            return false;
        }
        self.partition.is_none_or(|partition| {
            let tag = format!("{{fp:{partition}}}");
            let found = |key: &Vec<u8>| String::from_utf8_lossy(key).contains(&tag);
            keys_of(argv).first().or(argv.get(1)).is_some_and(found)
        })
    }
}

fn verb_fits(verb: &str, argv: &[Vec<u8>]) -> bool {
    let Some(name) = function_of(argv) else {
        return argv.first().is_some_and(|name| name.eq_ignore_ascii_case(verb.as_bytes()));
    };
    name_fits(verb, name)
}

/// Whether this is the name of a function without its prefix, or its first words.
pub(super) fn name_fits(verb: &str, function: &str) -> bool {
    let name = function.trim_start_matches("ff_");
    name.strip_prefix(verb).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
}

impl fmt::Display for FaultRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fault {}", self.fault)?;
        match &self.trigger {
            Trigger::At(ms) => write!(f, " at {}", show_ms(*ms))?,
            Trigger::Call(CallPattern { nth, verb, by, partition }) => {
                write!(f, " on {} {verb}", show_ordinal(*nth))?;
                if let Some(by) = by {
                    write!(f, " by {by}")?;
                }
                if let Some(partition) = partition {
                    write!(f, " in fp:{partition}")?;
                }
            }
        }
        if let Some(to) = self.to {
            write!(f, " to {to}")?;
        }
        if let Some(ms) = self.lasting_ms {
            write!(f, " for {}", show_ms(ms))?;
        }
        if let Some(amount) = self.amount {
            write!(f, " {} {amount}", self.fault.unit())?;
        }
        if let Some(subject) = &self.subject {
            write!(f, " about {subject}")?;
        }
        Ok(())
    }
}

impl FaultRule {
    /// The longest time that it has an effect.
    #[must_use]
    pub fn lasts_ms(&self) -> u64 {
        let late = self.amount.filter(|_| self.fault.unit() == "ms");
        let late_ms = late.map_or(0, i64::unsigned_abs);
        self.lasting_ms.unwrap_or(0).max(late_ms).max(FELT_MS)
    }

    /// A fault at a time.
    #[must_use]
    pub const fn at(fault: Fault, ms: u64) -> Self {
        let when = Trigger::At(ms);
        Self { fault, trigger: when, to: None, lasting_ms: None, amount: None, subject: None }
    }

    /// A fault at the `nth` call with this name.
    #[must_use]
    pub fn on(fault: Fault, nth: u32, verb: &str, by: Option<Actor>) -> Self {
        let pattern = CallPattern { nth, verb: verb.to_owned(), by, partition: None };
        Self { trigger: Trigger::Call(pattern), ..Self::at(fault, 0) }
    }

    /// Reads what follows the word `fault`.
    pub(super) fn read(tokens: &mut Tokens<'_>) -> Result<Self, String> {
        let fault: Fault = tokens.want("the name of a fault")?.parse()?;
        let when = match tokens.want("`at` and a time, or `on` and a call")? {
            "at" => Trigger::At(read_ms(tokens.want("a time")?)?),
            "on" => Trigger::Call(read_call(tokens)?),
            other => {
                return Err(format!("`{other}`: expected `at` and a time, or `on` and a call"));
            }
        };
        let mut rule = Self { trigger: when, ..Self::at(fault, 0) };
        let mut said = BTreeSet::new();
        while let Some(word) = tokens.next() {
            once(!said.insert(word), word)?;
            match word {
                "to" => rule.to = Some(tokens.want("an actor")?.parse()?),
                "for" => rule.lasting_ms = Some(read_ms(tokens.want("a time")?)?),
                "about" => rule.subject = Some(tokens.want("a name")?.to_owned()),
                unit if unit == fault.unit() => {
                    let text = tokens.want("a number")?;
                    let amount = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
                    rule.amount = Some(amount);
                }
                other => return Err(unexpected(fault, other)),
            }
        }
        rule.check().map(|()| rule)
    }

    /// An error if the fault cannot be injected in this way.
    fn check(&self) -> Result<(), String> {
        let fault = self.fault;
        match (&self.trigger, fault.trigger_kind()) {
            (Trigger::At(_), TriggerKind::Calls) => Err(format!(
                "{fault} is injected at a call: write `on 3rd drain` instead of a time"
            )),
            (Trigger::Call(_), TriggerKind::Times) => {
                Err(format!("{fault} is injected at a time: write `at 5s` instead of a call"))
            }
            _ => Ok(()),
        }
    }
}

/// How a fault can be injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerKind {
    /// At a call.
    Calls,
    /// At a time.
    Times,
    /// Either way.
    Both,
}

impl Fault {
    /// How the fault can be injected.
    #[must_use]
    pub const fn trigger_kind(self) -> TriggerKind {
        use Fault::*;
        match self {
            CrashBeforeSend
            | CrashAfterApply
            | ReplyLost
            | RequestLost
            | DuplicateDelivery
            | LateApply
            | ReplyForOldTicket
            | PartialPipeline
            | ReorderBetweenTickets
            | StalePreRead
            | ScriptErrorMidway
            | StaleReplicaRead
            | CrashBetweenSaddAndDrain
            | CrashMidFanOut
            | CrashBetweenStageAndApply
            | WorkerZombie
            | WorkerDoubleReport
            | ClaimReplyLost
            | EpochRepeats
            | Ask
            | Moved
            | CancelRace
            | ReplayRace => TriggerKind::Calls,
            TryAgain | ClusterDown | Loading | MasterDown | Busy | ReadOnly | Misconf
            | NoReplicas | OutOfMemory | NoAuth | NoPerm => TriggerKind::Both,
            SlotMove | SlotMovesByKeys | WrongType | ForeignKey | FailoverLosesSuffix
            | SplitBrainBranch | AmnesiaRestart | LibraryMissing | LibraryReplaced
            | ServerClockJump | NodeClockSkew | EngineClockSkew | EnginePause | TimerStorm
            | Eviction | OperatorEdit | PoisonTuple | PoisonHead | OversizeGroup
            | ScannerOverlap | SlowPartition | FilteredEngine | EngineFlood | StopMidScan
            | SignalEarlyLateTwice | WakeupLost | PushesSilent | OneWayCut | SwizzleClog
            | WorkerDies | WorkerPause | WorkerClockJump | WorkerRestart | WorkerDrain
            | CapacityDropped | NodePause | RecordLost => TriggerKind::Times,
        }
    }
}

fn read_call(tokens: &mut Tokens<'_>) -> Result<CallPattern, String> {
    let nth = read_ordinal(tokens.want("an ordinal like 3rd")?)?;
    let verb = tokens.want("the name of a call")?.to_owned();
    let mut pattern = CallPattern { nth, verb, by: None, partition: None };
    if tokens.take("by") {
        pattern.by = Some(tokens.want("an actor")?.parse()?);
    }
    if tokens.take("in") {
        pattern.partition = Some(read_partition(tokens.want("a partition, like fp:7")?)?);
    }
    Ok(pattern)
}

fn unexpected(fault: Fault, word: &str) -> String {
    let unit = match fault.unit() {
        "" => String::new(),
        unit => format!(", `{unit}`"),
    };
    format!("`{word}`: expected `to`, `for`, `about`{unit} after the time or call of {fault}")
}

/// The shortest time to assume: for default durations, and until a dead engine is started again.
const FELT_MS: u64 = 30_000;
