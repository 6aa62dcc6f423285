//! The command line of the simulator.

mod bench;
mod canary;
mod double;
mod kept;
mod out;
mod progress;
mod run;
mod show;
mod soak;
mod sweep;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use selvedge_sim::campaign::Mode;
use selvedge_sim::failure::Class;
use selvedge_sim::plan::{Plan, Seed};
use selvedge_sim::shelf::Shelf;
use selvedge_sim::story::Story;

use out::err;

/// Seeded simulations: the same engine and the same Lua under virtual time.
#[derive(Parser)]
#[command(name = "cargo sim", version, arg_required_else_help = true, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 all is well, 1 cannot be run, 2 wrong usage, 12 something \
did not come to rest, 13 something that must hold did not, 14 two runs of one seed differ, \
15 a fault or a mark was never seen or too much was excused, 101 panic.";

#[derive(Subcommand)]
enum Command {
    /// Run the world of each seed, and stop at the first that fails.
    Run(run::Options),
    /// Run very many seeds; count faults, marks and excuses. From 1,000 seeds on it fails as well
    /// when a fault or a mark was never seen, or when too many seeds had to be excused.
    Soak(soak::Options),
    /// Run a seed, a story or a plan file again, and say what happened.
    Replay(show::Options),
    /// Let an engine die at every boundary of every call of a story, and at every pair.
    Sweep(sweep::Options),
    /// Run seeds in two processes and compare every event.
    Double(double::Options),
    /// Make a failing plan as small as it can be.
    Shrink(kept::Shrink),
    /// List kept failures, grouped by oracle and shape.
    List(kept::List),
    /// Print every event of a run; with --page, write it as a page to look at.
    Show(show::Options),
    /// Turn the shrunk plan of a kept failure into a story.
    Promote(kept::Promote),
    /// Plant every known bug in turn; each must be caught by the oracle meant for it.
    Canary(canary::Options),
    /// Measure how fast seeds are run, 20 at least, and where the time goes.
    Bench(bench::Options),
    /// Print what a run came to, for another process to compare.
    #[command(hide = true)]
    Hashes(double::Hashes),
}

impl Command {
    /// Whether its exit code says how something fared.
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
    /// How many seeds, counting up.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Small worlds in which only engines die.
    #[arg(long)]
    lite: bool,
}

impl Seeds {
    fn mode(&self) -> Mode {
        if self.lite { Mode::Lite } else { Mode::Swarm }
    }
}

/// Where failures are kept.
#[derive(Args, Clone)]
pub(crate) struct Failures {
    /// The folder of kept failures.
    #[arg(long, default_value = "failures", value_name = "FOLDER")]
    failures: PathBuf,
}

impl Failures {
    fn shelf(&self) -> Shelf {
        Shelf::new(&self.failures)
    }
}

/// Why a command ends badly.
pub(crate) enum End {
    /// A simulation failed; it has been told.
    Failed(Class),
    /// The command cannot be carried out.
    Cannot(String),
    /// An input makes no sense.
    Usage(String),
    /// A simulation panicked.
    Panicked(String),
}

impl From<std::io::Error> for End {
    fn from(error: std::io::Error) -> Self {
        Self::Cannot(error.to_string())
    }
}

/// What cannot be read or written, and why not.
pub(crate) fn at(path: &Path) -> impl FnOnce(std::io::Error) -> End {
    move |error| End::Cannot(format!("{}: {error}", path.display()))
}

pub(crate) fn run() -> ExitCode {
    let command = Cli::parse().command;
    if command.judges() {
        out::go_on_unread();
    }
    let done = match command {
        Command::Run(options) => run::run(&options),
        Command::Soak(options) => soak::run(&options),
        Command::Replay(options) => show::replay(&options),
        Command::Sweep(options) => sweep::run(&options),
        Command::Double(options) => double::run(&options),
        Command::Shrink(options) => kept::shrink(&options),
        Command::List(options) => kept::list(&options),
        Command::Show(options) => show::show(&options),
        Command::Promote(options) => kept::promote(&options),
        Command::Canary(options) => canary::run(&options),
        Command::Bench(options) => bench::run(&options),
        Command::Hashes(options) => double::hashes(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(End::Failed(class)) => ExitCode::from(class.exit_code()),
        Err(End::Cannot(why)) => {
            err!("cargo sim: {why}");
            ExitCode::FAILURE
        }
        Err(End::Usage(why)) => {
            err!("cargo sim: {why}");
            ExitCode::from(2)
        }
        Err(End::Panicked(why)) => {
            err!("cargo sim: {why}");
            ExitCode::from(101)
        }
    }
}

/// A plan by what people call it: a seed, a story, or a file.
pub(crate) fn plan_of(name: &str, mode: Mode) -> Result<Plan, End> {
    plan_and_text_of(name, mode).map(|(plan, _)| plan)
}

/// A plan, and the text that it was read from; a seed has none.
pub(crate) fn plan_and_text_of(name: &str, mode: Mode) -> Result<(Plan, Option<String>), End> {
    let text = if let Some(story) = Story::find(name) {
        story.text.to_owned()
    } else if let Ok(seed) = name.parse::<Seed>() {
        return Ok((mode.plan(seed), None));
    } else {
        let bytes = std::fs::read(name).map_err(|error| {
            End::Usage(format!("`{name}` is no seed, no story and no readable file: {error}"))
        })?;
        String::from_utf8(bytes).map_err(|error| {
            let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = 1 + good.iter().filter(|byte| **byte == b'\n').count();
            End::Usage(format!("{name}: line {line}: this is no text: not UTF-8"))
        })?
    };
    let plan = Plan::parse(&text).map_err(|error| End::Usage(format!("{name}: {error}")))?;
    Ok((plan, Some(text)))
}
