//! The events of a run. Oracles, marks and reports use only this stream and the keyspace.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use selvedge_core::engine::Observation;
use selvedge_core::id::{ExecutionId, LeaseId};
use selvedge_core::state::TerminalOutcome;
use selvedge_core::value::Value;
use selvedge_core::worker::Observation as WorkerObservation;
use selvedge_lua::host::Message;

use crate::fault::Fault;
use crate::oracle::call::{Answer, Signature};

/// The number of a call in the run. A duplicate has the number of the original.
pub type CallId = u64;

/// The words of a command, shared by all events about it.
pub type Argv = Arc<Vec<Vec<u8>>>;

/// Who did something, or to whom it happened. Numbers start at 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Actor {
    /// The simulator itself.
    World,
    /// A replica of the engine.
    Engine(u8),
    /// A worker.
    Worker(u8),
    /// A client that submits, creates, cancels and replays.
    Caller(u8),
    /// A client that sends signals.
    Signaller(u8),
    /// A client that has nothing to do with Selvedge, and writes to its keys.
    Foreign(u8),
    /// A server.
    Node(u8),
}

impl Actor {
    /// Its kind and its number.
    #[must_use]
    pub const fn place(self) -> (u8, u8) {
        match self {
            Self::World => (0, 0),
            Self::Engine(number) => (1, number),
            Self::Worker(number) => (2, number),
            Self::Caller(number) => (3, number),
            Self::Signaller(number) => (4, number),
            Self::Foreign(number) => (5, number),
            Self::Node(number) => (6, number),
        }
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::World => f.write_str("world"),
            Self::Engine(number) => write!(f, "engine-{number}"),
            Self::Worker(number) => write!(f, "worker-{number}"),
            Self::Caller(number) => write!(f, "caller-{number}"),
            Self::Signaller(number) => write!(f, "signaller-{number}"),
            Self::Foreign(number) => write!(f, "foreign-{number}"),
            Self::Node(number) => write!(f, "node-{number}"),
        }
    }
}

impl FromStr for Actor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || {
            format!(
                "`{text}` is not an actor: expected engine-N, worker-N, caller-N, signaller-N, foreign-N or node-N"
            )
        };
        if text == "world" {
            return Ok(Self::World);
        }
        let (kind, number) = text.rsplit_once('-').ok_or_else(unknown)?;
        let number = number.parse().ok().filter(|number| *number > 0).ok_or_else(unknown)?;
        match kind {
            "engine" => Ok(Self::Engine(number)),
            "worker" => Ok(Self::Worker(number)),
            "caller" => Ok(Self::Caller(number)),
            "signaller" => Ok(Self::Signaller(number)),
            "foreign" => Ok(Self::Foreign(number)),
            "node" => Ok(Self::Node(number)),
            _ => Err(unknown()),
        }
    }
}

/// An event.
#[derive(Clone, Debug)]
pub struct Event {
    /// Virtual milliseconds since the start.
    pub at_ms: u64,
    /// The number of earlier events.
    pub ordinal: u64,
    /// Whose event it is.
    pub actor: Actor,
    /// What happened.
    pub kind: EventKind,
}

/// The parts of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Faults occur; safety oracles check every event.
    Safety,
    /// Faults end, except for engines and workers that stay broken.
    Settle,
    /// The healthy set must come to rest within a bound.
    Liveness,
    /// All scanners run two more cycles and must change nothing.
    Rest,
}

/// A call that a server applied or refused.
#[derive(Clone, Debug)]
pub struct Applied {
    /// Which call.
    pub call: CallId,
    /// The node, from 1.
    pub node: u8,
    /// Whether another node had replaced this one as primary: the write will be lost, and oracles
    /// do not see it.
    pub superseded: bool,
    /// The words of the command.
    pub argv: Argv,
    /// The names of its arguments, if it calls a function of the library.
    pub signature: Option<&'static Signature>,
    /// What the server answered.
    pub reply: Value,
    /// The same reply, parsed for oracles.
    pub answer: Answer,
    /// All commands that wrote something, including those inside a function.
    pub writes: Vec<Vec<Vec<u8>>>,
    /// What it published.
    pub published: Vec<Message>,
    /// Its number in the commit log, if it wrote something.
    pub commit: Option<u64>,
    /// The node's clock.
    pub server_time_us: u64,
    /// How many commands the function ran.
    pub inner_commands: usize,
}

/// What the success of a client's procedure means for the executions that it was about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// They are the members of a flow that is stored and sealed.
    Submitted,
    /// It was created.
    Created,
    /// It is cancelled.
    Cancelled,
    /// It was replayed.
    Replayed,
}

/// What happens to a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandlerStep {
    /// It was started.
    Started,
    /// It was told to stop.
    CancelRequested,
    /// It returned, panicked or was dropped.
    Ended,
}

/// What the sender of a call knows about its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Learned {
    /// The reply of the server; this can be an error.
    Reply(Value),
    /// It was not applied, for this reason.
    NotApplied(String),
    /// Whether it was applied is unknown, for this reason.
    PerhapsApplied(String),
}

/// What happened.
#[derive(Clone, Debug)]
pub enum EventKind {
    /// A call was sent.
    Sent {
        /// Which.
        call: CallId,
        /// To which node.
        node: u8,
        /// The words of the command.
        argv: Argv,
    },
    /// A server applied or refused a call.
    Applied(Box<Applied>),
    /// The sender got a result.
    Delivered {
        /// Which.
        call: CallId,
        /// The result.
        learned: Learned,
    },
    /// A call or its reply was lost; the sender gets nothing.
    Lost {
        /// Which.
        call: CallId,
        /// Whether the server had applied it.
        applied: bool,
    },
    /// A fault was injected.
    Fault {
        /// Which fault.
        fault: Fault,
        /// To whom, and how.
        detail: String,
    },
    /// An observation of an engine.
    Observed(Observation),
    /// An observation of a worker.
    WorkerObserved(WorkerObservation),
    /// A handler of a worker was started, told to stop, or is over.
    Handler {
        /// Its lease.
        lease: LeaseId,
        /// Its execution.
        execution: ExecutionId,
        /// Which of them.
        step: HandlerStep,
    },
    /// A worker may run this many handlers from now on.
    Capacity(u64),
    /// A client began an operation.
    Invoked {
        /// The call that carries it.
        call: CallId,
        /// The function, without the prefix.
        function: &'static str,
        /// The words of the command.
        argv: Argv,
    },
    /// That operation returned.
    Returned {
        /// The call that carried it.
        call: CallId,
        /// The result.
        learned: Learned,
    },
    /// A procedure of the client has succeeded.
    Succeeded {
        /// What that means.
        claim: Claim,
        /// For which executions.
        executions: Vec<ExecutionId>,
    },
    /// A caller waits until these executions have ended: one, or all members of a flow.
    Waits {
        /// Names the wait. It is begun again under the same name after a crash.
        waiter: u64,
        /// The executions.
        executions: Vec<ExecutionId>,
    },
    /// A wait is over.
    WaitOver {
        /// Which.
        waiter: u64,
        /// How the executions ended, as the waiter read it; none if the wait failed.
        ended: Option<Vec<(ExecutionId, TerminalOutcome)>>,
    },
    /// An actor came up.
    Started,
    /// An actor died, and with it all it knew.
    Died,
    /// The run entered a phase.
    Phase(Phase),
    /// A failover or restart lost acknowledged commits.
    CommitsLost {
        /// The node that had them.
        node: u8,
        /// The number of the first lost commit.
        first: u64,
        /// The number of the last lost commit.
        last: u64,
    },
    /// Any other note.
    Note(String),
    /// A key cannot move to another node, because that has it already.
    KeyOnTwoNodes(String),
}

impl Applied {
    /// The function that was called, with its prefix; none for a plain command.
    #[must_use]
    pub fn function(&self) -> Option<&str> {
        function_of(&self.argv)
    }
}

/// The function that a command calls; none for a plain command.
#[must_use]
pub fn function_of(argv: &[Vec<u8>]) -> Option<&str> {
    match argv {
        [verb, name, ..] if verb.eq_ignore_ascii_case(b"FCALL") => std::str::from_utf8(name).ok(),
        _ => None,
    }
}

/// The arguments of a function call, without its keys.
#[must_use]
pub fn arguments_of(argv: &[Vec<u8>]) -> &[Vec<u8>] {
    let keys = argv.get(2).and_then(|count| std::str::from_utf8(count).ok()?.parse().ok());
    argv.get(3 + keys.unwrap_or(0_usize)..).unwrap_or_default()
}

/// The keys of a function call.
#[must_use]
pub fn keys_of(argv: &[Vec<u8>]) -> &[Vec<u8>] {
    let keys = argv.get(2).and_then(|count| std::str::from_utf8(count).ok()?.parse().ok());
    argv.get(3..3 + keys.unwrap_or(0_usize)).unwrap_or_default()
}
