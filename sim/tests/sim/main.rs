//! Tests of the simulator as a whole.

mod canaries;
mod cli;
mod oracles;
mod seeds_and_stories;

use std::process::Command;

/// The `cargo sim` binary.
const SIM: &str = env!("CARGO_BIN_EXE_selvedge-sim");

/// Runs `cargo sim`; returns its exit code and its output, standard error last.
fn sim(arguments: &[&str]) -> (i32, String) {
    let ran = Command::new(SIM).args(arguments).output().expect("the binary is built");
    let output = [ran.stdout, ran.stderr].concat();
    (ran.status.code().unwrap_or(-1), String::from_utf8_lossy(&output).into_owned())
}
