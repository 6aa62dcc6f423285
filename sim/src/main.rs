//! The `cargo sim` command.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use selvedge_sim::plan::{Seed, plan_from_seed};
use selvedge_sim::runner::{Outcome, RunOptions, Verdict, run};

/// Seeded simulations: the same engine and the same Lua under virtual time.
#[derive(Parser)]
#[command(name = "cargo sim", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the world of each seed.
    Run(Seeds),
    /// Run the world of each seed twice and compare.
    Double(Seeds),
}

#[derive(clap::Args)]
struct Seeds {
    /// The first seed: a number or a commit id.
    #[arg(long, default_value_t = Seed::from(0))]
    seed: Seed,
    /// How many seeds, counting up.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
}

/// Something did not come to rest.
const LIVENESS: u8 = 12;
/// Something that must hold did not.
const CORRECTNESS: u8 = 13;
/// Two runs of one seed differ.
const NONDETERMINISM: u8 = 14;

fn main() -> ExitCode {
    let (seeds, twice) = match Cli::parse().command {
        Command::Run(seeds) => (seeds, false),
        Command::Double(seeds) => (seeds, true),
    };
    for step in 0..seeds.seeds {
        let seed = seeds.seed.plus(step);
        let plan = plan_from_seed(seed);
        let again = || run(&plan, &RunOptions::default());
        let outcome = match again() {
            Ok(outcome) => outcome,
            Err(error) => {
                eprintln!("FAIL  seed {seed}: {error}");
                return ExitCode::from(CORRECTNESS);
            }
        };
        println!("{}", line(seed, &outcome));
        let same = |other: &Outcome| {
            (other.trace.hash(), other.digest) == (outcome.trace.hash(), outcome.digest)
                && other.draws == outcome.draws
        };
        if twice && !again().is_ok_and(|other| same(&other)) {
            eprintln!("FAIL  seed {seed}: two runs differ");
            return ExitCode::from(NONDETERMINISM);
        }
        for found in &outcome.violations {
            eprintln!("  {} {}: {}", found.oracle, found.subject, found.what);
        }
        for name in &outcome.pending {
            eprintln!("  {name}");
        }
        let class = match outcome.verdict {
            Verdict::Passed | Verdict::Excused => continue,
            Verdict::Incorrect => CORRECTNESS,
            Verdict::Stuck => LIVENESS,
        };
        eprintln!("FAIL  seed {seed}\n  replay   cargo sim run --seed {seed}");
        return ExitCode::from(class);
    }
    ExitCode::SUCCESS
}

fn line(seed: Seed, outcome: &Outcome) -> String {
    format!(
        "seed {seed}: {:?} after {}.{}s, {} calls, {} engines died, {} faults, trace {:016x}",
        outcome.verdict,
        outcome.elapsed_ms / 1_000,
        outcome.elapsed_ms % 1_000 / 100,
        outcome.counters.calls,
        outcome.counters.engine_deaths,
        outcome.counters.faults.values().sum::<u64>(),
        outcome.trace.hash(),
    )
}
