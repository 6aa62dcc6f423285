//! The `cargo sim` command.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use selvedge_sim::run::{Outcome, run};

/// Seeded simulations: the same engine and the same Lua under virtual time.
#[derive(Parser)]
#[command(name = "cargo sim", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the world of each seed; workers and engines die in it, every task must end.
    Run {
        /// The first seed.
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// How many seeds, counting up.
        #[arg(long, default_value_t = 1)]
        seeds: u64,
    },
    /// Run the world of each seed twice and compare.
    Double {
        /// The first seed.
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// How many seeds, counting up.
        #[arg(long, default_value_t = 1)]
        seeds: u64,
    },
}

/// A task did not end.
const LIVENESS: u8 = 12;
/// A call was refused that had to pass.
const CORRECTNESS: u8 = 13;
/// Two runs of one seed differ.
const NONDETERMINISM: u8 = 14;

fn main() -> ExitCode {
    let (seed, seeds, twice) = match Cli::parse().command {
        Command::Run { seed, seeds } => (seed, seeds, false),
        Command::Double { seed, seeds } => (seed, seeds, true),
    };
    for seed in seed..seed.saturating_add(seeds) {
        let outcome = match run(seed) {
            Ok(outcome) => outcome,
            Err(error) => {
                eprintln!("FAIL  seed {seed}: {error}\n  replay   cargo sim run --seed {seed}");
                return ExitCode::from(CORRECTNESS);
            }
        };
        println!("{}", line(seed, &outcome));
        if twice && run(seed).as_ref() != Ok(&outcome) {
            eprintln!("FAIL  seed {seed}: two runs differ");
            return ExitCode::from(NONDETERMINISM);
        }
        if !outcome.unfinished.is_empty() {
            for (task, state) in &outcome.unfinished {
                eprintln!("  {task} is {state}");
            }
            eprintln!("FAIL  seed {seed}\n  replay   cargo sim run --seed {seed}");
            return ExitCode::from(LIVENESS);
        }
    }
    ExitCode::SUCCESS
}

fn line(seed: u64, outcome: &Outcome) -> String {
    format!(
        "seed {seed}: {} tasks done after {:.1}s, {} workers and {} engines died, {} commands, {:016x}",
        outcome.tasks - outcome.unfinished.len(),
        outcome.elapsed_ms as f64 / 1000.0,
        outcome.dead_workers,
        outcome.dead_engines,
        outcome.commands,
        outcome.fingerprint,
    )
}
