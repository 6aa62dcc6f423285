//! Conformance: the same random sequences on the host, on Valkey and on Redis.
//!
//! A seed makes a [`Sequence`]; [`three_stores`] runs its steps on all three and compares each
//! reply and, after each step, the whole keyspace. [`known_differences`] lists what Redis does
//! differently. A sequence that differs is [shrunk](selvedge_sim::search::shrink_list) to the steps
//! that matter. [`slot_moves`] compares host and servers while a slot moves between two nodes.

mod command_words;
pub mod commands;
pub mod compare;
mod grammar;
pub mod known_differences;
pub mod run;
pub mod scripts;
pub mod slot_moves;
pub mod three_stores;

use selvedge_sim::search::Draws;

pub use compare::Comparison;

/// Some commands, to be carried out in order from an empty keyspace.
#[derive(Clone, Debug)]
pub struct Sequence {
    /// The commands.
    pub steps: Vec<Step>,
    /// Whether Redis takes part. It does not where Valkey is known to store something else.
    pub on_redis: bool,
}

/// One command, and how its reply is to be compared.
#[derive(Clone, Debug)]
pub struct Step {
    /// The command as a client sends it.
    pub command: Vec<Vec<u8>>,
    /// What must be equal.
    pub comparison: Comparison,
    /// Carried out right behind the command and before the keyspaces are compared, where the
    /// store itself chooses what the command leaves.
    pub cleanup: Option<Vec<Vec<u8>>>,
}

impl Step {
    /// A command whose reply has to be the same to the last byte.
    #[must_use]
    pub fn exact(command: &[impl AsRef<[u8]>]) -> Self {
        let command = command.iter().map(|word| word.as_ref().to_vec()).collect();
        Self::compared(command, Comparison::Exact)
    }

    /// A command whose reply is compared in this way.
    #[must_use]
    pub fn compared(command: Vec<Vec<u8>>, comparison: Comparison) -> Self {
        Self { command, comparison, cleanup: None }
    }
}

/// What a sequence is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Data commands over all types.
    Commands,
    /// Lua bodies, as functions and as scripts.
    Scripts,
}

impl Family {
    /// All of them, with the names they have on the command line.
    pub const ALL: [(&'static str, Self); 2] =
        [("commands", Self::Commands), ("scripts", Self::Scripts)];

    /// The sequence of a seed.
    #[must_use]
    pub fn sequence(self, seed: u64, steps: usize) -> Sequence {
        match self {
            Self::Commands => commands::sequence(seed, steps),
            Self::Scripts => scripts::sequence(seed, steps),
        }
    }

    /// The family of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, family)| *family)
    }

    /// The name of the family.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, family)| *family == self).map_or("", |(name, _)| name)
    }
}

/// One of the choices, of which there must be some.
pub(crate) fn one_of<'a, T: ?Sized>(draws: &mut Draws, choices: &[&'a T]) -> &'a T {
    choices[draws.index(choices.len())]
}
