//! [`Campaign`]: many sequences in a row, and the story of the first that fails.

use std::fmt;

use super::shrink::shrink;
use super::trio::{RunError, Trio, spell};
use super::{Family, Sequence, difference};
use crate::words::{COUNTS, SEEDS, STEPS, within};

/// What to run.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// The kinds of sequences, each run in full.
    pub families: Vec<Family>,
    /// The seed of the first sequence; each further one has the next number.
    pub seed: u64,
    /// How many sequences of each family.
    pub sequences: u64,
    /// How many steps each has.
    pub steps: usize,
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
    error: RunError,
    /// The steps that matter, if stores disagreed.
    shrunk: Option<(Sequence, RunError)>,
}

/// Runs every sequence until one fails.
pub fn run(campaign: &Campaign) -> Result<Report, Box<Failure>> {
    let failure =
        |again: &str, error| Box::new(Failure { again: again.to_owned(), error, shrunk: None });
    let mut trio = Trio::start().map_err(|error| failure("", error))?;
    let mut report = Report { sequences: 0, steps: 0 };
    for family in &campaign.families {
        for seed in campaign.seed..campaign.seed.saturating_add(campaign.sequences) {
            let sequence = family.sequence(seed, campaign.steps);
            if let Err(error) = trio.run(&sequence) {
                let again = format!(
                    "--family {} --sequences 1 --steps {} --seed {seed}",
                    family.name(),
                    campaign.steps
                );
                let mut failure = failure(&again, error);
                failure.shrunk = shrunk(&mut trio, &sequence, &failure.error);
                return Err(failure);
            }
            report.sequences += 1;
            report.steps += sequence.steps.len() as u64;
        }
    }
    Ok(report)
}

fn shrunk(trio: &mut Trio, sequence: &Sequence, error: &RunError) -> Option<(Sequence, RunError)> {
    let RunError::Diverged(_) = error else { return None };
    let shrunk =
        shrink(sequence, |shorter| matches!(trio.run(shorter), Err(RunError::Diverged(_))));
    let error = trio.run(&shrunk).err()?;
    Some((shrunk, error))
}

impl Campaign {
    /// Reads `--family NAME`, `--sequences N`, `--steps N` and `--seed N`. The error says how.
    pub fn from_arguments(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut campaign = Self {
            families: Family::ALL.iter().map(|(_, family)| *family).collect(),
            seed: 1,
            sequences: 2000,
            steps: 50,
        };
        let mut arguments = arguments;
        while let Some(name) = arguments.next() {
            let value = arguments.next().unwrap_or_default();
            let number =
                || value.parse::<u64>().map_err(|_| format!("{name} wants a number\n{USAGE}"));
            match name.as_str() {
                "--seed" => campaign.seed = within(&name, number()?, SEEDS)?,
                "--sequences" => campaign.sequences = within(&name, number()?, COUNTS)?,
                "--steps" => {
                    let steps = within(&name, number()?, STEPS)?;
                    campaign.steps = usize::try_from(steps).unwrap_or(usize::MAX);
                }
                "--family" => campaign.families = vec![Family::named(&value).ok_or(USAGE)?],
                _ => return Err(USAGE.to_owned()),
            }
        }
        Ok(campaign)
    }
}

const USAGE: &str = "usage: conformance [--family NAME] [--sequences N] [--steps N] [--seed N]";

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sequences, steps } = self;
        writeln!(
            f,
            "{sequences} sequences, {steps} steps, no divergence of the host from Valkey;"
        )?;
        writeln!(f, "Redis differs only in what is known:")?;
        difference::names().try_for_each(|name| writeln!(f, "  {name}"))
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
