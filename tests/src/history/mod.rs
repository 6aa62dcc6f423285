//! Random histories on the in-process host, judged after every call.
//!
//! A history is a list of [`Operation`]s: a verb and three small numbers each, so that a failing
//! one shrinks. The [`World`] carries them out with the typed calls of the core, in season or out
//! of season; it looks the truth up in the same snapshot that the oracles judge. After every call
//! all state oracles of [`selvedge_core::audit`] and all history oracles of the simulator must agree.

pub mod campaign;
pub mod operation;
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "there are many verbs; a rule names those that it is about"
)]
mod perform;
#[cfg(test)]
mod promises;
pub mod world;

pub use operation::{Operation, Verb};
pub use world::World;

/// A history that went wrong: what each call did, and what was found after the last one.
#[derive(Clone, Debug)]
pub struct Downfall {
    /// One line for each call, the last one first to blame.
    pub trace: Vec<String>,
    /// What the oracles found.
    pub findings: Vec<String>,
}

impl std::fmt::Display for Downfall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for line in &self.trace {
            writeln!(f, "  {line}")?;
        }
        for finding in &self.findings {
            writeln!(f, "* {finding}")?;
        }
        Ok(())
    }
}

/// Carries out a whole history on a library.
///
/// # Errors
/// The trace up to the first call after which an oracle disagreed.
pub fn run(library: &str, operations: &[Operation]) -> Result<World, Box<Downfall>> {
    let mut world = World::new(library);
    for operation in operations {
        world.perform(operation);
        if !world.findings().is_empty() {
            return Err(Box::new(world.downfall()));
        }
    }
    world.compare_with_the_store();
    if world.findings().is_empty() { Ok(world) } else { Err(Box::new(world.downfall())) }
}
