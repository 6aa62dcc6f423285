//! Runs call sequences until enough calls were made, and reports which answers were seen.

use std::fmt;
use std::path::Path;

use selvedge_core::audit::Snapshot;
use selvedge_core::value::Value;

use super::coverage::Coverage;
use super::host_and_valkey::HostAndValkey;
use super::model_check::ModelCheck;
use super::sequences::SequenceSource;
use super::{SequenceStep, steered};
use crate::hostile::HostileRunner;
use crate::hostile::contract::Contract;

/// What to run.
#[derive(Clone, Debug)]
pub struct DifferentialRun {
    /// At least so many calls of functions.
    pub operations: u64,
    /// Where the sequences begin; each has the next number.
    pub seed: u64,
}

/// What was run without a divergence.
#[derive(Clone, Debug)]
pub struct Report {
    /// Calls of functions.
    pub operations: u64,
    /// How many of them a history made, whose oracles judged them too.
    pub judged: u64,
    /// How many answers the reference model had an opinion about.
    pub modelled: u64,
    /// Messages that were published by both.
    pub messages: u64,
    /// Sequences run.
    pub sequences: u64,
    /// What was answered.
    pub coverage: Coverage,
}

impl DifferentialRun {
    /// Plays sequences until enough was asked.
    ///
    /// # Errors
    /// The first divergence, or why nothing can be compared.
    pub fn run(&self, library: &str, root: &Path) -> Result<Report, String> {
        let library = steered(library);
        // First of all: without a server there is nothing to compare with.
        let mut stores = HostAndValkey::start(&library).map_err(|error| error.to_string())?;
        let spec = HostileRunner::prepare(&library, &root.join("lua"), &root.join("tests/spec"))?;
        let source = SequenceSource::new(&library, spec);
        let coverage = Coverage::of(source.contracts());
        let mut report =
            Report { operations: 0, judged: 0, modelled: 0, messages: 0, sequences: 0, coverage };
        for seed in self.seed.. {
            if report.operations >= self.operations {
                break;
            }
            let told = |error: String| format!("sequence {seed}: {error}");
            let (sequence, end) = if seed % 2 == 0 {
                source.history(seed).map(|(sequence, end)| (sequence, Some(end)))?
            } else {
                (source.spec_calls(seed, &report.coverage), None)
            };
            let replies = stores.play(&sequence).map_err(|error| told(error.to_string()))?;
            if let Some(end) = end {
                report.modelled += model(&sequence, &replies, &end).map_err(told)?;
                report.judged += calls(&source, &sequence).count() as u64;
            }
            for (at, contract) in calls(&source, &sequence) {
                report.coverage.count(contract, &replies[at]);
                report.operations += 1;
            }
            report.sequences += 1;
            report.messages = stores.messages();
        }
        Ok(report)
    }
}

/// The calls of functions among the steps of a sequence, by their places.
fn calls<'a>(
    source: &'a SequenceSource,
    sequence: &'a [SequenceStep],
) -> impl Iterator<Item = (usize, &'a Contract)> {
    sequence.iter().enumerate().filter_map(|(at, step)| {
        let [name, function, ..] = step.command.as_slice() else { return None };
        let function = str::from_utf8(function).ok().filter(|_| name == b"FCALL")?;
        Some((at, source.contracts().get(function)?))
    })
}

/// Lets the reference model judge a history; answers how many answers it had an opinion about.
fn model(sequence: &[SequenceStep], replies: &[Value], end: &Snapshot) -> Result<u64, String> {
    let mut check = ModelCheck::default();
    for (step, reply) in sequence.iter().zip(replies) {
        check.hear(&step.command, reply)?;
    }
    check.close(end)?;
    Ok(check.judged)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operations, judged, modelled, messages, sequences, coverage } = self;
        writeln!(f, "{operations} operations on {sequences} sequences, the host and Valkey agree")?;
        writeln!(f, "{messages} messages were published by both")?;
        writeln!(f, "{judged} of them were judged by the oracles of histories as well,")?;
        writeln!(f, "{modelled} answers also by the reference model")?;
        write!(f, "{coverage}")
    }
}
