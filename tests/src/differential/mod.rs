//! One stream of operations on the library in the host and on the library in Valkey: every answer,
//! everything published and every keyspace agree.
//!
//! A [`Tape`] is what somebody asked, and when. Tapes come from random [`crate::history`]s, whose
//! answers its own oracles and the reference [`model`] judge as well, and from the calls of the
//! spec files, which are chosen to reach the answers that nobody has given yet ([`coverage`]). The
//! [`pair`] plays a tape on both stores. What differs is cut down to the steps that matter and shown.

pub mod campaign;
pub mod coverage;
pub mod model;
pub mod pair;
pub mod source;

/// One command, and the time at which it comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The clock, in microseconds since the epoch.
    pub now_us: u64,
    /// The command as a client sends it.
    pub command: Vec<Vec<u8>>,
}

impl Step {
    fn is_call(&self) -> bool {
        self.command.first().is_some_and(|name| name == b"FCALL")
    }
}

/// Some commands from an empty keyspace on.
pub type Tape = Vec<Step>;

/// Where a steered library finds the time on a server, whose own clock nobody can move.
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
    library.replace("cjson.encode", "steady_json").replace(DOORS, include_str!("steered.lua"))
}
