//! `cargo sim double`: runs seeds in two processes and compares every event.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

use selvedge_sim::failure::Class;
use selvedge_sim::format;
use selvedge_sim::plan::{Mode, Seed};
use selvedge_sim::runner::{RunOptions, run as simulate};
use selvedge_sim::trace::CHECKPOINT_EVERY;

use super::out::{err, out};
use super::{CliError, Seeds, progress};

/// Which seeds.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    seeds: Seeds,
}

/// What to print for another process.
#[derive(clap::Args)]
pub(crate) struct Hashes {
    #[command(flatten)]
    seeds: Seeds,
    /// Print the events of the first seed from this ordinal on, instead of hashes.
    #[arg(long)]
    events_from: Option<u64>,
}

/// Prints one line per seed: hash, digest, draws and checkpoints.
pub(crate) fn hashes(options: &Hashes) -> Result<(), CliError> {
    for step in 0..options.seeds.seeds {
        let plan = options.seeds.mode().plan(options.seeds.seed.plus(step));
        let keep_events = Some(if options.events_from.is_some() { usize::MAX } else { 0 });
        let options_of_run = RunOptions { keep_events, ..RunOptions::default() };
        let outcome = simulate(&plan, &options_of_run).map_err(CliError::Cannot)?;
        if let Some(from) = options.events_from {
            let block = from..from + CHECKPOINT_EVERY;
            outcome
                .trace
                .tail()
                .filter(|event| block.contains(&event.ordinal))
                .for_each(|event| out!("{}", format::line(event)));
            return Ok(());
        }
        let points: Vec<String> =
            outcome.trace.checkpoints().iter().map(|point| format!("{point:x}")).collect();
        out!(
            "{:x} {:x} {:?} | {}",
            outcome.trace.hash(),
            outcome.digest,
            outcome.draws,
            points.join(" ")
        );
    }
    Ok(())
}

pub(crate) fn run(options: &Options) -> Result<(), CliError> {
    let (mut one, mut two) =
        (ChildRun::start(&options.seeds, None)?, ChildRun::start(&options.seeds, None)?);
    for step in 0..options.seeds.seeds {
        let seed = options.seeds.seed.plus(step);
        let (Some(first), Some(second)) = (one.next_line(), two.next_line()) else {
            progress::done();
            let status = one.status().filter(|status| !status.success()).or_else(|| two.status());
            return Err(ended(seed, options.seeds.mode(), status.and_then(|status| status.code())));
        };
        if first != second {
            progress::done();
            err!("FAIL  seed {seed}: two runs differ");
            let alone = Seeds { seed, seeds: 1, ..options.seeds.clone() };
            print_first_difference(&alone, &first, &second)?;
            return Err(CliError::Failed(Class::Nondeterminism));
        }
        progress::show(&format!("{} of {} seeds compared", step + 1, options.seeds.seeds));
    }
    progress::done();
    out!("{} seeds, each the same in two processes", options.seeds.seeds);
    Ok(())
}

/// The error when a process ended before it printed a seed.
fn ended(seed: Seed, mode: Mode, code: Option<i32>) -> CliError {
    let replay = mode.replay(seed);
    match code {
        Some(PANIC) => CliError::Panicked(format!("seed {seed} panicked;  {replay}")),
        Some(code) => {
            CliError::Cannot(format!("seed {seed}: a process ended with {code};  {replay}"))
        }
        None => CliError::Cannot(format!("seed {seed}: a process was killed;  {replay}")),
    }
}

/// Prints the first event in which two runs differ.
fn print_first_difference(seed: &Seeds, first: &str, second: &str) -> Result<(), CliError> {
    let points = |line: &str| -> Vec<String> {
        let after = line.split_once('|').map(|(_, points)| points).unwrap_or_default();
        after.split_whitespace().map(str::to_owned).collect()
    };
    let (first, second) = (points(first), points(second));
    let same = first.iter().zip(&second).take_while(|(one, two)| one == two).count();
    let from = same as u64 * CHECKPOINT_EVERY;
    let (mut one, mut two) =
        (ChildRun::start(seed, Some(from))?, ChildRun::start(seed, Some(from))?);
    loop {
        let (first, second) = (one.next_line(), two.next_line());
        if first != second {
            err!("  one:   {}", first.unwrap_or_default());
            err!("  other: {}", second.unwrap_or_default());
            return Ok(());
        }
        if first.is_none() {
            err!("  the printed events are the same, but their hashes differ");
            return Ok(());
        }
    }
}

/// A child process that runs the same seeds.
struct ChildRun {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl ChildRun {
    fn start(seeds: &Seeds, events_from: Option<u64>) -> Result<Self, CliError> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["hashes", "--seed", &seeds.seed.to_string()]);
        command.args(["--seeds", &seeds.seeds.to_string()]);
        if seeds.lite {
            command.arg("--lite");
        }
        if let Some(from) = events_from {
            command.args(["--events-from", &from.to_string()]);
        }
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let Some(out) = child.stdout.take() else {
            return Err(CliError::Cannot("the child process has no output".to_owned()));
        };
        Ok(Self { child, lines: BufReader::new(out).lines() })
    }

    fn next_line(&mut self) -> Option<String> {
        self.lines.next().and_then(Result::ok)
    }

    /// How the process ended, if it did.
    fn status(&mut self) -> Option<ExitStatus> {
        self.lines.by_ref().next().is_none().then(|| self.child.wait().ok()).flatten()
    }
}

impl Drop for ChildRun {
    fn drop(&mut self) {
        // It ended already, unless the two runs differed.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The exit code of a process that panicked.
const PANIC: i32 = 101;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_dies_is_reported_with_its_seed() {
        let told = |code| ended(7.into(), Mode::Lite, code);
        let CliError::Panicked(why) = told(Some(101)) else { panic!("a panic has its own code") };
        assert!(why.contains("seed 7 panicked") && why.contains("replay 7 --lite"), "{why}");
        for (code, word) in [(Some(1), "ended with 1"), (None, "was killed")] {
            let CliError::Cannot(why) = told(code) else { panic!("{code:?} is no panic") };
            assert!(why.contains(word), "{why}");
        }
    }

    #[test]
    fn a_child_reports_its_exit_code() {
        let mut child = Command::new("false").stdout(Stdio::piped()).spawn().expect("a process");
        let out = child.stdout.take().expect("a pipe");
        let mut child = ChildRun { child, lines: BufReader::new(out).lines() };
        assert_eq!(child.next_line(), None);
        assert_eq!(child.status().and_then(|status| status.code()), Some(1));
    }
}
