//! One fault of a plan: what, when, to whom.
//!
//! ```text
//! fault ReplyLost on 3rd drain by engine-1 in fp:7
//! fault FailoverLosesSuffix at 41.2s to node-1 commits 5
//! fault EnginePause at 8s to engine-2 for 12s
//! ```

use std::collections::BTreeSet;
use std::fmt;

use super::step::once;
use super::words::{Words, read_ms, read_ordinal, show_ms, show_ordinal};
use crate::event::{Actor, function_of, keys_of};
use crate::fault::Fault;

/// One fault of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// What is done.
    pub fault: Fault,
    /// When.
    pub when: When,
    /// To whom; the fault chooses where a plan does not say.
    pub to: Option<Actor>,
    /// For how long.
    pub lasting_ms: Option<u64>,
    /// How much of it, in the fault's own unit.
    pub amount: Option<i64>,
    /// To which execution, flow or key.
    pub subject: Option<String>,
}

/// When a fault strikes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum When {
    /// At this time.
    At(u64),
    /// When a call comes by.
    Call(CallPattern),
}

/// Which call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallPattern {
    /// The how-many-eth that fits, from one.
    pub nth: u32,
    /// The function's name without its prefix, or the first words of it; `call` fits all.
    pub verb: String,
    /// Who sends it; anybody unless said.
    pub by: Option<Actor>,
    /// The flow partition it is about; any unless said.
    pub partition: Option<u16>,
}

impl CallPattern {
    /// Whether a call of this sender fits, whichever it is in the row.
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

/// Whether a function is meant by its name without the prefix, or by the first words of it.
pub(super) fn name_fits(verb: &str, function: &str) -> bool {
    let name = function.trim_start_matches("ff_");
    name.strip_prefix(verb).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fault {}", self.fault)?;
        match &self.when {
            When::At(ms) => write!(f, " at {}", show_ms(*ms))?,
            When::Call(CallPattern { nth, verb, by, partition }) => {
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

impl Rule {
    /// How long it is felt, at most.
    #[must_use]
    pub fn lasts_ms(&self) -> u64 {
        let late = self.amount.filter(|_| self.fault.unit() == "ms");
        let late_ms = late.map_or(0, i64::unsigned_abs);
        self.lasting_ms.unwrap_or(0).max(late_ms).max(FELT_MS)
    }

    /// A fault at a time, nothing else said.
    #[must_use]
    pub const fn at(fault: Fault, ms: u64) -> Self {
        let when = When::At(ms);
        Self { fault, when, to: None, lasting_ms: None, amount: None, subject: None }
    }

    /// A fault at the `nth` call of a kind.
    #[must_use]
    pub fn on(fault: Fault, nth: u32, verb: &str, by: Option<Actor>) -> Self {
        let pattern = CallPattern { nth, verb: verb.to_owned(), by, partition: None };
        Self { when: When::Call(pattern), ..Self::at(fault, 0) }
    }

    /// Reads what follows the word `fault`.
    pub(super) fn read(words: &mut Words<'_>) -> Result<Self, String> {
        let fault: Fault = words.want("the name of a fault")?.parse()?;
        let when = match words.want("`at` and a time, or `on` and a call")? {
            "at" => When::At(read_ms(words.want("a time")?)?),
            "on" => When::Call(read_call(words)?),
            other => {
                return Err(format!("`{other}`: expected `at` and a time, or `on` and a call"));
            }
        };
        let mut rule = Self { when, ..Self::at(fault, 0) };
        let mut said = BTreeSet::new();
        while let Some(word) = words.next() {
            once(!said.insert(word), word)?;
            match word {
                "to" => rule.to = Some(words.want("an actor")?.parse()?),
                "for" => rule.lasting_ms = Some(read_ms(words.want("a time")?)?),
                "about" => rule.subject = Some(words.want("a name")?.to_owned()),
                unit if unit == fault.unit() => {
                    let text = words.want("a number")?;
                    let amount = text.parse().map_err(|_| format!("`{text}` is no number"))?;
                    rule.amount = Some(amount);
                }
                other => return Err(unexpected(fault, other)),
            }
        }
        rule.check().map(|()| rule)
    }

    /// Refuses what can never strike.
    fn check(&self) -> Result<(), String> {
        let fault = self.fault;
        match (&self.when, fault.strikes()) {
            (When::At(_), Strikes::Calls) => {
                Err(format!("{fault} strikes a call: say `on 3rd drain`, not a time"))
            }
            (When::Call(_), Strikes::Times) => {
                Err(format!("{fault} strikes at a time: say `at 5s`, not a call"))
            }
            _ => Ok(()),
        }
    }
}

/// What a fault can be tied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strikes {
    /// To a call.
    Calls,
    /// To a time.
    Times,
    /// To either.
    Both,
}

impl Fault {
    /// What the fault can be tied to.
    #[must_use]
    pub const fn strikes(self) -> Strikes {
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
            | ReplayRace => Strikes::Calls,
            TryAgain | ClusterDown | Loading | MasterDown | Busy | ReadOnly | Misconf
            | NoReplicas | OutOfMemory | NoAuth | NoPerm => Strikes::Both,
            SlotMove | WrongType | ForeignKey | FailoverLosesSuffix | SplitBrainBranch
            | AmnesiaRestart | LibraryMissing | LibraryReplaced | ServerClockJump
            | NodeClockSkew | EngineClockSkew | EnginePause | TimerStorm | Eviction
            | OperatorEdit | PoisonTuple | PoisonHead | OversizeGroup | ScannerOverlap
            | SlowPartition | FilteredEngine | EngineFlood | StopMidScan | SignalEarlyLateTwice
            | WakeupLost | OneWayCut | SwizzleClog => Strikes::Times,
        }
    }
}

fn read_call(words: &mut Words<'_>) -> Result<CallPattern, String> {
    let nth = read_ordinal(words.want("a place in a row, like 3rd")?)?;
    let verb = words.want("the name of a call")?.to_owned();
    let mut pattern = CallPattern { nth, verb, by: None, partition: None };
    if words.take("by") {
        pattern.by = Some(words.want("an actor")?.parse()?);
    }
    if words.take("in") {
        let text = words.want("a partition, like fp:7")?;
        let number = text.strip_prefix("fp:").and_then(|number| number.parse().ok());
        pattern.partition = Some(number.ok_or_else(|| format!("`{text}` is no partition"))?);
    }
    Ok(pattern)
}

fn unexpected(fault: Fault, word: &str) -> String {
    let unit = match fault.unit() {
        "" => String::new(),
        unit => format!(", `{unit}`"),
    };
    format!("`{word}`: after the time or call of {fault} come `to`, `for`, `about`{unit}")
}

/// What no rule says takes no longer: outages, pauses, the time until somebody starts a dead engine.
const FELT_MS: u64 = 30_000;
