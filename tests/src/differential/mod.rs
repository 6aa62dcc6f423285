//! The library in the host against the library in Valkey: replies, published messages and keyspaces
//! must be equal.
//!
//! A [`CallSequence`] is a list of commands with their times. Some come from random
//! [`crate::history`]s, whose replies are also checked by their oracles and by the reference
//! [model](model_check); others from the calls of the spec files, chosen to reach answers that were
//! not seen yet ([`coverage`]). [`host_and_valkey`] runs a sequence on both stores, and shrinks one
//! that differs.

pub mod coverage;
pub mod host_and_valkey;
pub mod model_check;
pub mod run;
pub mod sequences;

/// One command, and the time at which it comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequenceStep {
    /// The clock, in microseconds since the epoch.
    pub now_us: u64,
    /// The command as a client sends it.
    pub command: Vec<Vec<u8>>,
}

impl SequenceStep {
    fn is_call(&self) -> bool {
        self.command.first().is_some_and(|name| name == b"FCALL")
    }
}

/// Some commands from an empty keyspace on.
pub type CallSequence = Vec<SequenceStep>;

/// The key of a server in which a steered library finds the time; the server's own clock cannot be
/// set.
const CLOCK: &str = "selvedge:clock";

/// Whether a library is [`steered`].
#[must_use]
pub fn is_steered(library: &str) -> bool {
    library.contains(CLOCK)
}

/// The library with its clock, its draws and every order taken out of the store's hands.
///
/// # Panics
/// When the library spells its door to the store in another way.
#[must_use]
pub fn steered(library: &str) -> String {
    const DOORS: &str = "local call, try\n\
        call = function(...)\n  call = redis.call\n  return call(...)\nend\n\
        try = function(...)\n  try = redis.pcall\n  return try(...)\nend\n";
    assert_eq!(library.matches(DOORS).count(), 1, "the library calls the store in another way");
    library
        .replace("cjson.encode", "steady_json")
        .replace(DOORS, include_str!("deterministic_calls.lua"))
}
