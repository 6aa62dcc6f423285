//! The command line of the simulator.

mod bench;
mod canary;
mod double;
mod failures;
mod out;
mod progress;
mod run;
mod show;
mod soak;
mod sweep;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use selvedge_sim::failure::Class;
use selvedge_sim::failure_store::FailureStore;
use selvedge_sim::plan::{Mode, Plan, Seed};
use selvedge_sim::story::Story;

use out::err;

/// Deterministic simulation of Selvedge: the real engine and Lua functions on virtual time.
#[derive(Parser)]
#[command(name = "cargo sim", version, arg_required_else_help = true, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 success, 1 cannot run, 2 wrong usage, 12 liveness: something \
did not come to rest, 13 correctness: a safety oracle failed, 14 two runs of one seed differ, \
15 coverage: a fault kind or a mark never occurred or too many seeds were excused, 101 panic.";

#[derive(Subcommand)]
enum Command {
    /// Run seeds and stop at the first failure.
    Run(run::Options),
    /// Run many seeds and count faults, marks and excuses. From 1,000 seeds on, also fail if a
    /// fault kind or a mark never occurred, or if too many seeds were excused.
    Soak(soak::Options),
    /// Run a seed, a story or a plan file again and print the result.
    Replay(show::Options),
    /// Run a story with an engine crash at every boundary of every call, alone and in pairs.
    Sweep(sweep::Options),
    /// Run seeds in two processes and compare every event.
    Double(double::Options),
    /// Shrink a failing plan to the lines that the failure needs.
    Shrink(failures::Shrink),
    /// List saved failures, grouped by oracle and shape.
    List(failures::List),
    /// Print every event of a run, or write them as an HTML page with --page.
    Show(show::Options),
    /// Turn the shrunk plan of a saved failure into a story.
    Promote(failures::Promote),
    /// Run with each planted bug; its oracle must find it.
    Canary(canary::Options),
    /// Measure how fast seeds run (at least 20) and where the time goes.
    Bench(bench::Options),
    /// Print hashes of runs, for comparison by another process.
    #[command(hide = true)]
    Hashes(double::Hashes),
}

impl Command {
    /// Whether the exit code is the result of a simulation.
    const fn judges(&self) -> bool {
        match self {
            Self::Run(_)
            | Self::Soak(_)
            | Self::Replay(_)
            | Self::Sweep(_)
            | Self::Double(_)
            | Self::Canary(_) => true,
            Self::Shrink(_)
            | Self::List(_)
            | Self::Show(_)
            | Self::Promote(_)
            | Self::Bench(_)
            | Self::Hashes(_) => false,
        }
    }
}

/// Which seeds.
#[derive(Args, Clone)]
pub(crate) struct Seeds {
    /// The first seed: a number or a commit id.
    #[arg(long, default_value_t = Seed::from(0))]
    seed: Seed,
    /// How many seeds to run, counting up from the first.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Small plans in which only engines crash.
    #[arg(long)]
    lite: bool,
}

impl Seeds {
    fn mode(&self) -> Mode {
        if self.lite { Mode::Lite } else { Mode::Swarm }
    }
}

/// Where failures are saved.
#[derive(Args, Clone)]
pub(crate) struct Failures {
    /// The folder of saved failures.
    #[arg(long, default_value = "failures", value_name = "FOLDER")]
    failures: PathBuf,
}

impl Failures {
    fn store(&self) -> FailureStore {
        FailureStore::new(&self.failures)
    }
}

/// Why a command fails.
pub(crate) enum CliError {
    /// A simulation failed and was reported.
    Failed(Class),
    /// The command could not be carried out.
    Cannot(String),
    /// Wrong arguments or input.
    Usage(String),
    /// A simulation panicked.
    Panicked(String),
}

impl From<std::io::Error> for CliError {
    fn from(error: std::io::Error) -> Self {
        Self::Cannot(error.to_string())
    }
}

/// Adds the path to an I/O error.
pub(crate) fn at(path: &Path) -> impl FnOnce(std::io::Error) -> CliError {
    move |error| CliError::Cannot(format!("{}: {error}", path.display()))
}

pub(crate) fn run() -> ExitCode {
    let command = Cli::parse().command;
    if command.judges() {
        out::ignore_closed_output();
    }
    let done = match command {
        Command::Run(options) => run::run(&options),
        Command::Soak(options) => soak::run(&options),
        Command::Replay(options) => show::replay(&options),
        Command::Sweep(options) => sweep::run(&options),
        Command::Double(options) => double::run(&options),
        Command::Shrink(options) => failures::shrink(&options),
        Command::List(options) => failures::list(&options),
        Command::Show(options) => show::show(&options),
        Command::Promote(options) => failures::promote(&options),
        Command::Canary(options) => canary::run(&options),
        Command::Bench(options) => bench::run(&options),
        Command::Hashes(options) => double::hashes(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(CliError::Failed(class)) => ExitCode::from(class.exit_code()),
        Err(CliError::Cannot(why)) => {
            err!("cargo sim: {why}");
            ExitCode::FAILURE
        }
        Err(CliError::Usage(why)) => {
            err!("cargo sim: {why}");
            ExitCode::from(2)
        }
        Err(CliError::Panicked(why)) => {
            err!("cargo sim: {why}");
            ExitCode::from(101)
        }
    }
}

/// The plan of a seed, a story, or a file.
pub(crate) fn plan_of(name: &str, mode: Mode) -> Result<Plan, CliError> {
    plan_and_text_of(name, mode).map(|(plan, _)| plan)
}

/// A plan, and the text it was read from; a seed has no text.
pub(crate) fn plan_and_text_of(name: &str, mode: Mode) -> Result<(Plan, Option<String>), CliError> {
    let text = if let Some(story) = Story::find(name) {
        story.text.to_owned()
    } else if let Ok(seed) = name.parse::<Seed>() {
        return Ok((mode.plan(seed), None));
    } else {
        let bytes = std::fs::read(name).map_err(|error| {
            CliError::Usage(format!("`{name}` is not a seed, a story or a readable file: {error}"))
        })?;
        String::from_utf8(bytes).map_err(|error| {
            let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = 1 + good.iter().filter(|byte| **byte == b'\n').count();
            CliError::Usage(format!("{name}: line {line}: not UTF-8 text"))
        })?
    };
    let plan = Plan::parse(&text).map_err(|error| CliError::Usage(format!("{name}: {error}")))?;
    Ok((plan, Some(text)))
}
