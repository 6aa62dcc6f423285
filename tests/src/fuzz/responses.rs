//! [`Response`]: how a command of a machine is answered, by a host or by anything.

use arbitrary::Arbitrary;
use selvedge_core::command::{Answer, Command};
use selvedge_core::error::ServerError;
use selvedge_core::value::Value;
use selvedge_lua::host::Host;

use super::reply_notation;

/// How one command of a batch is answered.
#[derive(Arbitrary, Debug)]
pub(super) enum Response {
    /// By the server.
    Truth,
    /// By the server, but the answer is lost.
    TruthLost,
    /// With what these lines spell.
    Lines(Vec<u8>),
    /// With a server's error.
    Error(u8),
    /// It was never sent.
    NeverSent,
    /// No answer.
    Silence,
}

impl Response {
    /// The answer to a command; none stands for a batch of somebody else.
    pub(super) fn to(&self, host: &mut Host, command: Option<&Command>) -> Answer {
        let mut truth = || command.map_or(Value::Nil, |command| host.call(&command.argv));
        match self {
            Self::Truth => Answer::Applied(truth()),
            Self::TruthLost => {
                truth();
                Answer::PerhapsApplied(ServerError::silence("lost"))
            }
            Self::Lines(lines) => {
                let reply = reply_notation::read(lines).into_iter().next();
                Answer::Applied(reply.unwrap_or(Value::Nil))
            }
            Self::Error(which) => {
                let text = ERRORS[usize::from(*which) % ERRORS.len()];
                Answer::Applied(Value::Error(text.to_owned()))
            }
            Self::NeverSent => Answer::NotApplied(ServerError::never_sent("not sent")),
            Self::Silence => Answer::PerhapsApplied(ServerError::silence("silence")),
        }
    }
}

/// The answers to a batch: fewer or more than commands, as it comes; the truth if nothing is said.
pub(super) fn answers(
    host: &mut Host,
    batch: &[Command],
    said: Option<&Vec<Response>>,
) -> Vec<Answer> {
    match said {
        None => batch.iter().map(|one| Response::Truth.to(host, Some(one))).collect(),
        Some(said) => {
            let placed = said.iter().enumerate();
            placed.map(|(place, said)| said.to(host, batch.get(place))).collect()
        }
    }
}

/// The keys of a command as a machine spells it.
pub(super) fn keys(command: &Command) -> &[Vec<u8>] {
    match command.argv.as_slice() {
        [name, _, count, rest @ ..] if name == b"FCALL" => {
            let count = str::from_utf8(count).ok().and_then(|count| count.parse().ok());
            &rest[..count.unwrap_or(0).min(rest.len())]
        }
        [_, key, ..] => std::slice::from_ref(key),
        _ => &[],
    }
}

/// One of each class.
const ERRORS: [&str; 8] = [
    "LOADING server is loading the dataset in memory",
    "MOVED 7 127.0.0.1:7001",
    "ERR Function not found",
    "WRONGTYPE Operation against a key holding the wrong kind of value",
    "OOM command not allowed when used memory > 'maxmemory'",
    "ERR user_script:1: boom script: ff_x, on @user_function:1.",
    "NOSCRIPT",
    "",
];
