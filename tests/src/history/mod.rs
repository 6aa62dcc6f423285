//! Random histories on the in-process host, checked after every call.
//!
//! A history is a list of [`Operation`]s: a verb and three small numbers each, so that a failing
//! one can be shrunk. The [`HistoryState`] performs them with the typed calls of the core, mostly
//! on executions for which they make sense, sometimes on others. After every call, all state
//! oracles of [`selvedge_core::audit`] and all history oracles of the simulator must agree. With a
//! moving slot, keys move to a second node meanwhile.

#[cfg(test)]
mod guarantees;
mod moving_slot;
pub mod operation;
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "there are many verbs; a rule names those that it is about"
)]
mod perform;
pub mod run;
pub mod state;

pub use operation::{Operation, Verb};
pub use state::HistoryState;

/// A history that went wrong: what each call did, and what was found after the last one.
#[derive(Clone, Debug)]
pub struct Failure {
    /// One line for each call, the last one first to blame.
    pub trace: Vec<String>,
    /// What the oracles found.
    pub findings: Vec<String>,
}

impl std::fmt::Display for Failure {
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
pub fn run(library: &str, operations: &[Operation]) -> Result<HistoryState, Box<Failure>> {
    run_on(HistoryState::new(library), operations)
}

/// The same with a slot that moves: when, and how far, the seed decides.
///
/// # Errors
/// As [`run()`].
pub fn run_migrating(
    library: &str,
    operations: &[Operation],
    seed: u64,
) -> Result<HistoryState, Box<Failure>> {
    run_on(HistoryState::migrating(library, seed), operations)
}

fn run_on(mut state: HistoryState, operations: &[Operation]) -> Result<HistoryState, Box<Failure>> {
    for operation in operations {
        state.perform(operation);
        if !state.findings().is_empty() {
            return Err(Box::new(state.failure()));
        }
    }
    state.compare_with_the_store();
    if state.findings().is_empty() { Ok(state) } else { Err(Box::new(state.failure())) }
}
