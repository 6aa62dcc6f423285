//! What callers and signallers do, and when.
//!
//! ```text
//! at 500ms caller-1 submit F1 fan_in 3 any_of cancel_remaining
//! at 600ms caller-1 submit F2 : a, b, c <- a b quorum 1 let_run
//! at 2s caller-1 cancel F1.0
//! at 3s signaller-1 signal E4 go
//! at 3s caller-2 wait F1
//! ```

use std::collections::BTreeSet;
use std::fmt;

use super::flow::FlowSpec;
use super::policy::{Policy, WorkerAction};
use super::tokens::{Tokens, read_ms, show_ms};
use crate::event::Actor;

/// An action of a client, and when it is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanStep {
    /// When.
    pub at_ms: u64,
    /// Who.
    pub by: Actor,
    /// What.
    pub action: Action,
}

/// What a client does. A member of a flow is named `F1.a`, a single execution `E1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Submits a flow as a whole, or in chunks.
    Submit(FlowSpec),
    /// Builds a flow piece by piece: the flow, its members, then every edge staged and applied.
    Build(FlowSpec),
    /// Creates a single execution.
    Create(TaskSpec),
    /// Cancels an execution.
    Cancel(String),
    /// Cancels a flow with all its members.
    CancelFlow(String),
    /// Replays an execution that has ended.
    Replay(String),
    /// Signals the waitpoint of an execution.
    Signal(String, String),
    /// Waits until an execution or a flow has ended.
    Wait(String),
}

/// A single execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSpec {
    /// Its name.
    pub name: String,
    /// The flow partition; derived from the name if not given.
    pub partition: Option<u16>,
    /// Its delay.
    pub delay_ms: Option<u64>,
    /// Its deadline, from its creation on.
    pub deadline_ms: Option<u64>,
    /// Its lane, from 0.
    pub lane: u64,
    /// Its priority; higher runs first.
    pub priority: u32,
    /// Its policy.
    pub policy: Policy,
    /// The number of its tags.
    pub tags: u64,
}

/// What workers do with an execution the first time, the second time, and so on; after that it is
/// completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Which execution.
    pub name: String,
    /// What is done with it, in order.
    pub does: Vec<WorkerAction>,
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {} does", self.name)?;
        self.does.iter().try_for_each(|action| write!(f, " {action}"))
    }
}

impl Task {
    /// Reads what follows the word `task`.
    pub(super) fn read(tokens: &mut Tokens<'_>) -> Result<Self, String> {
        let name = tokens.want("the name of an execution")?.to_owned();
        if !tokens.take("does") {
            return Err("expected `does` after the name".to_owned());
        }
        let does: Vec<WorkerAction> =
            tokens.rest().iter().map(|word| word.parse()).collect::<Result<_, _>>()?;
        if does.is_empty() {
            return Err("the action is missing at the end of the line".to_owned());
        }
        Ok(Self { name, does })
    }
}

impl fmt::Display for PlanStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {} {} ", show_ms(self.at_ms), self.by)?;
        match &self.action {
            Action::Submit(flow) => write!(f, "submit {flow}"),
            Action::Build(flow) => write!(f, "build {flow}"),
            Action::Create(task) => write!(f, "create {task}"),
            Action::Cancel(name) => write!(f, "cancel {name}"),
            Action::CancelFlow(name) => write!(f, "cancel_flow {name}"),
            Action::Replay(name) => write!(f, "replay {name}"),
            Action::Signal(name, signal) => write!(f, "signal {name} {signal}"),
            Action::Wait(name) => write!(f, "wait {name}"),
        }
    }
}

impl PlanStep {
    /// When its work is due: its time plus the delay of the execution.
    #[must_use]
    pub fn due_ms(&self) -> u64 {
        let delay_ms = match &self.action {
            Action::Create(task) => task.delay_ms.unwrap_or(0),
            Action::Submit(_)
            | Action::Build(_)
            | Action::Cancel(_)
            | Action::CancelFlow(_)
            | Action::Replay(_)
            | Action::Signal(..)
            | Action::Wait(_) => 0,
        };
        self.at_ms.saturating_add(delay_ms)
    }

    /// Reads what follows the word `at`.
    pub(super) fn read(tokens: &mut Tokens<'_>) -> Result<Self, String> {
        let at_ms = read_ms(tokens.want("a time")?)?;
        let by = tokens.want("the actor")?.parse()?;
        let action = match tokens.want("the action")? {
            "submit" => Action::Submit(FlowSpec::read(tokens)?),
            "build" => Action::Build(FlowSpec::read(tokens)?),
            "create" => Action::Create(TaskSpec::read(tokens)?),
            "cancel" => Action::Cancel(tokens.want("an execution")?.to_owned()),
            "cancel_flow" => Action::CancelFlow(tokens.want("a flow")?.to_owned()),
            "replay" => Action::Replay(tokens.want("an execution")?.to_owned()),
            "signal" => Action::Signal(
                tokens.want("an execution")?.to_owned(),
                tokens.want("the name of a signal")?.to_owned(),
            ),
            "wait" => Action::Wait(tokens.want("an execution or a flow")?.to_owned()),
            other => {
                return Err(format!(
                    "`{other}`: expected submit, build, create, cancel, cancel_flow, replay, signal \
                     or wait"
                ));
            }
        };
        tokens.end()?;
        let allowed = match action {
            Action::Signal(..) => matches!(by, Actor::Signaller(_)),
            Action::Submit(_)
            | Action::Build(_)
            | Action::Create(_)
            | Action::Cancel(_)
            | Action::CancelFlow(_)
            | Action::Replay(_)
            | Action::Wait(_) => matches!(by, Actor::Caller(_)),
        };
        if !allowed {
            return Err(format!(
                "{by} cannot do that: callers submit, create, cancel, replay and wait, signallers signal"
            ));
        }
        Ok(Self { at_ms, by, action })
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
    /// An execution with defaults.
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

    fn read(tokens: &mut Tokens<'_>) -> Result<Self, String> {
        let mut task = Self::named(tokens.want("a name")?.to_owned());
        let mut said = BTreeSet::new();
        while let Some(word) = tokens.next() {
            once(!said.insert(word), word)?;
            match word {
                "in" => task.partition = Some(read_partition(tokens.want("a partition")?)?),
                "delay" => task.delay_ms = Some(read_ms(tokens.want("a time")?)?),
                "deadline" => task.deadline_ms = Some(read_ms(tokens.want("a time")?)?),
                "lane" => task.lane = read_number(tokens.want("a number")?)?,
                "priority" => task.priority = read_number(tokens.want("a number")?)?,
                "policy" => task.policy = tokens.want("a policy")?.parse()?,
                "tags" => task.tags = read_number(tokens.want("a number")?)?,
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

/// An error if a word was already used in this line.
pub(super) fn once(said_before: bool, word: &str) -> Result<(), String> {
    if said_before { Err(format!("`{word}` is given twice")) } else { Ok(()) }
}

pub(super) fn read_partition(text: &str) -> Result<u16, String> {
    let number = text.strip_prefix("fp:").and_then(|number| number.parse().ok());
    number.ok_or_else(|| format!("`{text}` is not a partition: expected one like fp:7"))
}

pub(super) fn read_number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number, or too large"))
}
