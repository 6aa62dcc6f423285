//! What callers and signal senders do, and when.
//!
//! ```text
//! at 500ms caller-1 submit F1 fan_in 3 any_of cancel_remaining
//! at 600ms caller-1 submit F2 : a, b, c <- a b quorum 1 let_run
//! at 2s caller-1 cancel F1.0
//! at 3s signaller-1 signal E4 go
//! ```

use std::collections::BTreeSet;
use std::fmt;

use super::flow::FlowSpec;
use super::policy::{Doing, Policy};
use super::words::{Words, read_ms, show_ms};
use crate::event::Actor;

/// One thing that somebody does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// When.
    pub at_ms: u64,
    /// Who.
    pub by: Actor,
    /// What.
    pub deed: Deed,
}

/// What somebody does. Executions are named `F1.a` as members of a flow, and `E1` alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Submits a flow as a whole, or in chunks.
    Submit(FlowSpec),
    /// Builds a flow piece by piece: the flow, its members, then every edge staged and applied.
    Build(FlowSpec),
    /// Makes an execution of its own.
    Create(TaskSpec),
    /// Cancels an execution.
    Cancel(String),
    /// Cancels a flow with all its members.
    CancelFlow(String),
    /// Lets an execution that ended run again.
    Replay(String),
    /// Sends a signal to whatever an execution waits for.
    Signal(String, String),
}

/// An execution of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSpec {
    /// Its name.
    pub name: String,
    /// The flow partition; drawn from the name unless said.
    pub partition: Option<u16>,
    /// How long it is delayed.
    pub delay_ms: Option<u64>,
    /// How soon it must have ended.
    pub deadline_ms: Option<u64>,
    /// Which lane, from 0.
    pub lane: u64,
    /// Higher goes first.
    pub priority: u32,
    /// Under which policy it runs.
    pub policy: Policy,
    /// How many tags it carries.
    pub tags: u64,
}

/// What workers do with one execution, the first time, the second time, and so on; whatever comes
/// after that is completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Which execution.
    pub name: String,
    /// What is done with it.
    pub does: Vec<Doing>,
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {} does", self.name)?;
        self.does.iter().try_for_each(|doing| write!(f, " {doing}"))
    }
}

impl Task {
    /// Reads what follows the word `task`.
    pub(super) fn read(words: &mut Words<'_>) -> Result<Self, String> {
        let name = words.want("the name of an execution")?.to_owned();
        if !words.take("does") {
            return Err("after the name comes `does`".to_owned());
        }
        let does: Vec<Doing> =
            words.rest().iter().map(|word| word.parse()).collect::<Result<_, _>>()?;
        if does.is_empty() {
            return Err("what is done is missing at the end of the line".to_owned());
        }
        Ok(Self { name, does })
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {} {} ", show_ms(self.at_ms), self.by)?;
        match &self.deed {
            Deed::Submit(flow) => write!(f, "submit {flow}"),
            Deed::Build(flow) => write!(f, "build {flow}"),
            Deed::Create(task) => write!(f, "create {task}"),
            Deed::Cancel(name) => write!(f, "cancel {name}"),
            Deed::CancelFlow(name) => write!(f, "cancel_flow {name}"),
            Deed::Replay(name) => write!(f, "replay {name}"),
            Deed::Signal(name, signal) => write!(f, "signal {name} {signal}"),
        }
    }
}

impl Step {
    /// When what it asks for can begin: its own time, and the delay that it gives.
    #[must_use]
    pub fn due_ms(&self) -> u64 {
        let delay_ms = match &self.deed {
            Deed::Create(task) => task.delay_ms.unwrap_or(0),
            Deed::Submit(_)
            | Deed::Build(_)
            | Deed::Cancel(_)
            | Deed::CancelFlow(_)
            | Deed::Replay(_)
            | Deed::Signal(..) => 0,
        };
        self.at_ms.saturating_add(delay_ms)
    }

    /// Reads what follows the word `at`.
    pub(super) fn read(words: &mut Words<'_>) -> Result<Self, String> {
        let at_ms = read_ms(words.want("a time")?)?;
        let by = words.want("who does it")?.parse()?;
        let deed = match words.want("what is done")? {
            "submit" => Deed::Submit(FlowSpec::read(words)?),
            "build" => Deed::Build(FlowSpec::read(words)?),
            "create" => Deed::Create(TaskSpec::read(words)?),
            "cancel" => Deed::Cancel(words.want("an execution")?.to_owned()),
            "cancel_flow" => Deed::CancelFlow(words.want("a flow")?.to_owned()),
            "replay" => Deed::Replay(words.want("an execution")?.to_owned()),
            "signal" => Deed::Signal(
                words.want("an execution")?.to_owned(),
                words.want("the name of a signal")?.to_owned(),
            ),
            other => {
                return Err(format!(
                    "`{other}`: expected submit, build, create, cancel, cancel_flow, replay or signal"
                ));
            }
        };
        words.end()?;
        let allowed = match deed {
            Deed::Signal(..) => matches!(by, Actor::Signaller(_)),
            Deed::Submit(_)
            | Deed::Build(_)
            | Deed::Create(_)
            | Deed::Cancel(_)
            | Deed::CancelFlow(_)
            | Deed::Replay(_) => matches!(by, Actor::Caller(_)),
        };
        if !allowed {
            return Err(format!(
                "{by} cannot do that: callers submit, create, cancel and replay, signallers signal"
            ));
        }
        Ok(Self { at_ms, by, deed })
    }
}

impl fmt::Display for TaskSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        if let Some(partition) = self.partition {
            write!(f, " in fp:{partition}")?;
        }
        if let Some(ms) = self.delay_ms {
            write!(f, " delay {}", show_ms(ms))?;
        }
        if let Some(ms) = self.deadline_ms {
            write!(f, " deadline {}", show_ms(ms))?;
        }
        if self.lane > 0 {
            write!(f, " lane {}", self.lane)?;
        }
        if self.priority > 0 {
            write!(f, " priority {}", self.priority)?;
        }
        if self.policy != Policy::Plain {
            write!(f, " policy {}", self.policy)?;
        }
        if self.tags > 0 {
            write!(f, " tags {}", self.tags)?;
        }
        Ok(())
    }
}

impl TaskSpec {
    /// An execution with nothing special about it.
    #[must_use]
    pub const fn named(name: String) -> Self {
        Self {
            name,
            partition: None,
            delay_ms: None,
            deadline_ms: None,
            lane: 0,
            priority: 0,
            policy: Policy::Plain,
            tags: 0,
        }
    }

    fn read(words: &mut Words<'_>) -> Result<Self, String> {
        let mut task = Self::named(words.want("a name")?.to_owned());
        let mut said = BTreeSet::new();
        while let Some(word) = words.next() {
            once(!said.insert(word), word)?;
            match word {
                "in" => task.partition = Some(read_partition(words.want("a partition")?)?),
                "delay" => task.delay_ms = Some(read_ms(words.want("a time")?)?),
                "deadline" => task.deadline_ms = Some(read_ms(words.want("a time")?)?),
                "lane" => task.lane = read_number(words.want("a number")?)?,
                "priority" => task.priority = read_number(words.want("a number")?)?,
                "policy" => task.policy = words.want("a policy")?.parse()?,
                "tags" => task.tags = read_number(words.want("a number")?)?,
                other => {
                    return Err(format!(
                        "`{other}`: expected in, delay, deadline, lane, priority, policy or tags"
                    ));
                }
            }
        }
        Ok(task)
    }
}

/// Refuses what a line has said before.
pub(super) fn once(said_before: bool, word: &str) -> Result<(), String> {
    if said_before { Err(format!("`{word}` is said twice")) } else { Ok(()) }
}

pub(super) fn read_partition(text: &str) -> Result<u16, String> {
    let number = text.strip_prefix("fp:").and_then(|number| number.parse().ok());
    number.ok_or_else(|| format!("`{text}` is no partition: expected one like fp:7"))
}

pub(super) fn read_number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` is no number of the right size"))
}
