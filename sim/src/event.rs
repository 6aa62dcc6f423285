//! What happens in a world, one event after the other. Oracles, marks and reports see nothing else
//! of a run than this stream and the keyspace.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use selvedge_core::engine::Observation;
use selvedge_core::value::Value;
use selvedge_lua::host::Message;

use crate::fault::Fault;
use crate::oracle::call::{Answer, Signature};

/// One call on its way, numbered through the whole run. A duplicate keeps the number.
pub type CallId = u64;

/// A command, shared by all events that speak of it.
pub type Argv = Arc<Vec<Vec<u8>>>;

/// Who did something, or to whom it happened. Numbers count from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Actor {
    /// The world itself.
    World,
    /// A replica of the engine.
    Engine(u8),
    /// A worker.
    Worker(u8),
    /// Somebody who submits, cancels and asks.
    Caller(u8),
    /// Somebody who sends signals.
    Signaller(u8),
    /// Somebody who has no business here.
    Foreign(u8),
    /// A server.
    Node(u8),
}

impl Actor {
    /// Its kind and its number, as numbers.
    #[must_use]
    pub const fn place(self) -> (u64, u8) {
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
                "`{text}` is nobody: expected engine-N, worker-N, caller-N, signaller-N, foreign-N or node-N"
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

/// One thing that happened.
#[derive(Clone, Debug)]
pub struct Event {
    /// Virtual milliseconds since the world began.
    pub at_ms: u64,
    /// How many events came before.
    pub ordinal: u64,
    /// Whose event it is.
    pub actor: Actor,
    /// What happened.
    pub what: What,
}

/// The parts of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Faults are on, and every safety oracle looks at every event.
    Safety,
    /// A healthy set is drawn; faults inside it stop for good, damage outside stays.
    Settle,
    /// The healthy set must come to rest within a bound.
    Liveness,
    /// Two more cycles of every scanner must change nothing.
    Rest,
}

/// A call that a server carried out.
#[derive(Clone, Debug)]
pub struct Applied {
    /// Which call.
    pub call: CallId,
    /// Where.
    pub node: u8,
    /// Whether another node had taken that node's place by then: the write will be lost, and the
    /// keyspace that oracles see does not have it.
    pub stray: bool,
    /// Its words.
    pub argv: Argv,
    /// How its words are called, if it calls a function of the library.
    pub signature: Option<&'static Signature>,
    /// What the server answered.
    pub reply: Value,
    /// The same as oracles read it.
    pub answer: Answer,
    /// Every command that changed something, inner ones included, in order.
    pub writes: Vec<Vec<Vec<u8>>>,
    /// What it published.
    pub published: Vec<Message>,
    /// Its number in the node's ledger, if it wrote.
    pub commit: Option<u64>,
    /// The node's clock.
    pub server_time_us: u64,
    /// How many commands its script asked for.
    pub inner_commands: usize,
}

/// What the sender of a call learned about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Learned {
    /// The server's reply; an error reply counts.
    Reply(Value),
    /// It surely had no effect, for this reason.
    NotApplied(String),
    /// Nobody knows, for this reason.
    Perhaps(String),
}

/// What happened.
#[derive(Clone, Debug)]
pub enum What {
    /// A call left its sender.
    Sent {
        /// Which.
        call: CallId,
        /// To which node.
        node: u8,
        /// Its words.
        argv: Argv,
    },
    /// A server carried a call out, or refused it.
    Applied(Box<Applied>),
    /// The sender learned what became of its call.
    Delivered {
        /// Which.
        call: CallId,
        /// What it learned.
        learned: Learned,
    },
    /// A call or its reply went missing, and the sender hears nothing.
    Lost {
        /// Which.
        call: CallId,
        /// Whether the server had carried it out by then.
        applied: bool,
    },
    /// Something was done to the world on purpose.
    Fault {
        /// What.
        fault: Fault,
        /// To whom, and how.
        detail: String,
    },
    /// An engine observed a fact.
    Observed(Observation),
    /// Somebody began an operation that a caller can see the result of.
    Invoked {
        /// The call that carries it.
        call: CallId,
        /// The function, without the prefix.
        function: &'static str,
        /// Its words.
        argv: Argv,
    },
    /// That operation returned.
    Returned {
        /// The call that carried it.
        call: CallId,
        /// With what.
        learned: Learned,
    },
    /// An actor came up.
    Started,
    /// An actor died, and with it all it knew.
    Died,
    /// The run entered a phase.
    Phase(Phase),
    /// A failover or an amnesia lost acknowledged commits of a node.
    CommitsLost {
        /// The node that had them.
        node: u8,
        /// The first that is lost.
        first: u64,
        /// The last that is lost.
        last: u64,
    },
    /// Anything worth a line.
    Note(String),
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

/// The arguments of a function call, behind its keys.
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
