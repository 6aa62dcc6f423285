//! [`ConformanceRun`]: runs many sequences, and reports the first that fails.

use std::fmt;
use std::ops::ControlFlow;

use selvedge_sim::search::{Tries, run_seeds, shrink_list};

use super::three_stores::{RunError, ThreeStores, spell};
use super::{Family, Sequence, Step, known_differences};
use crate::command_line::{COUNTS, SEEDS, STEPS, jobs, within};

/// What to run.
#[derive(Clone, Debug)]
pub struct ConformanceRun {
    /// The kinds of sequences, each run in full.
    pub families: Vec<Family>,
    /// The seed of the first sequence; each further one has the next number.
    pub seed: u64,
    /// How many sequences of each family.
    pub sequences: u64,
    /// How many steps each has.
    pub steps: usize,
    /// How many threads run them, each with servers of its own.
    pub jobs: usize,
}

/// What was run without a divergence.
#[derive(Clone, Debug)]
pub struct Report {
    sequences: u64,
    steps: u64,
}

/// A sequence that failed.
#[derive(Debug)]
pub struct Failure {
    /// Runs this very sequence again.
    again: String,
    error: String,
    /// The steps that matter, if stores disagreed.
    shrunk: Option<(Sequence, String)>,
}

/// Runs every sequence until one fails.
pub fn run(options: &ConformanceRun) -> Result<Report, Box<Failure>> {
    let mut report = Report { sequences: 0, steps: 0 };
    for family in &options.families {
        let sequence = |at: u64| family.sequence(options.seed + at, options.steps);
        let run = |stores: &mut Result<ThreeStores, RunError>, at| match stores {
            Ok(stores) => {
                let sequence = sequence(at);
                let ran = stores.run(&sequence).map(|()| sequence.steps.len() as u64);
                ran.map_err(|error| failure(stores, &sequence, error))
            }
            Err(error) => {
                Err(Failure { again: String::new(), error: error.to_string(), shrunk: None })
            }
        };
        let mut failed = None;
        run_seeds(options.sequences, options.jobs, ThreeStores::start, run, |at, result| {
            match result.unwrap_or_else(|panic| {
                Err(Failure { again: String::new(), error: panic, shrunk: None })
            }) {
                Ok(steps) => {
                    report.sequences += 1;
                    report.steps += steps;
                    ControlFlow::Continue(())
                }
                Err(mut failure) => {
                    failure.again = format!(
                        "--family {} --sequences 1 --steps {} --seed {}",
                        family.name(),
                        options.steps,
                        options.seed + at
                    );
                    failed = Some(Box::new(failure));
                    ControlFlow::Break(())
                }
            }
        });
        if let Some(failure) = failed {
            return Err(failure);
        }
    }
    Ok(report)
}

/// With the steps that matter, if stores disagreed.
fn failure(stores: &mut ThreeStores, sequence: &Sequence, error: RunError) -> Failure {
    let mut failure = Failure { again: String::new(), error: error.to_string(), shrunk: None };
    if !matches!(error, RunError::Diverged(_)) {
        return failure;
    }
    let with = |steps: &[Step]| Sequence { steps: steps.to_vec(), ..sequence.clone() };
    let diverges = |steps: &[Step]| matches!(stores.run(&with(steps)), Err(RunError::Diverged(_)));
    let tries = &mut Tries::at_most(TRIES_MAX);
    let shrunk = with(&shrink_list(&sequence.steps, |_| true, tries, diverges));
    if let Err(error) = stores.run(&shrunk) {
        failure.shrunk = Some((shrunk, error.to_string()));
    }
    failure
}

impl ConformanceRun {
    /// Reads `--family NAME`, `--sequences N`, `--steps N` and `--seed N`. The error says how.
    pub fn from_arguments(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            families: Family::ALL.iter().map(|(_, family)| *family).collect(),
            seed: 1,
            sequences: 2000,
            steps: 50,
            jobs: jobs(),
        };
        let mut arguments = arguments;
        while let Some(name) = arguments.next() {
            let value = arguments.next().unwrap_or_default();
            let number =
                || value.parse::<u64>().map_err(|_| format!("{name} wants a number\n{USAGE}"));
            match name.as_str() {
                "--seed" => options.seed = within(&name, number()?, SEEDS)?,
                "--sequences" => options.sequences = within(&name, number()?, COUNTS)?,
                "--steps" => {
                    let steps = within(&name, number()?, STEPS)?;
                    options.steps = usize::try_from(steps).unwrap_or(usize::MAX);
                }
                "--family" => options.families = vec![Family::named(&value).ok_or(USAGE)?],
                _ => return Err(USAGE.to_owned()),
            }
        }
        Ok(options)
    }
}

/// How many shorter sequences are tried.
const TRIES_MAX: usize = 1_000;

const USAGE: &str = "usage: conformance [--family NAME] [--sequences N] [--steps N] [--seed N]";

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sequences, steps } = self;
        writeln!(
            f,
            "{sequences} sequences, {steps} steps, no divergence of the host from Valkey;"
        )?;
        writeln!(f, "Redis differs only in what is known:")?;
        known_differences::names().try_for_each(|name| writeln!(f, "  {name}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.error)?;
        // Without a server there was nothing to see.
        if !self.again.is_empty() {
            writeln!(f, "to see it again: {}", self.again)?;
        }
        let Some((sequence, error)) = &self.shrunk else { return Ok(()) };
        writeln!(f, "the same in {} steps:", sequence.steps.len())?;
        for step in &sequence.steps {
            writeln!(f, "  {}", spell(&step.command))?;
        }
        write!(f, "{error}")
    }
}
