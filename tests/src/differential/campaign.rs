//! Tapes in a row, until enough was asked, and the report of what was answered.

use std::fmt;
use std::path::Path;

use selvedge_core::audit::Snapshot;
use selvedge_core::value::Value;

use super::coverage::Coverage;
use super::model::Books;
use super::pair::Pair;
use super::source::Source;
use super::{Step, steered};
use crate::hostile::Campaign as Spec;
use crate::hostile::contract::Contract;

/// What to run.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// At least so many calls of functions.
    pub operations: u64,
    /// Where the tapes begin; each has the next number.
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
    /// Tapes played.
    pub tapes: u64,
    /// What was answered.
    pub coverage: Coverage,
}

impl Campaign {
    /// Plays tapes until enough was asked.
    ///
    /// # Errors
    /// The first divergence, or why nothing can be compared.
    pub fn run(&self, library: &str, root: &Path) -> Result<Report, String> {
        let library = steered(library);
        // First of all: without a server there is nothing to compare with.
        let mut pair = Pair::start(&library).map_err(|error| error.to_string())?;
        let spec = Spec::prepare(&library, &root.join("lua"), &root.join("tests/spec"))?;
        let source = Source::new(&library, spec);
        let coverage = Coverage::of(source.contracts());
        let mut report =
            Report { operations: 0, judged: 0, modelled: 0, messages: 0, tapes: 0, coverage };
        for seed in self.seed.. {
            if report.operations >= self.operations {
                break;
            }
            let told = |error: String| format!("tape {seed}: {error}");
            let (tape, end) = if seed % 2 == 0 {
                source.history(seed).map(|(tape, end)| (tape, Some(end)))?
            } else {
                (source.spec_calls(seed, &report.coverage), None)
            };
            let replies = pair.play(&tape).map_err(|error| told(error.to_string()))?;
            if let Some(end) = end {
                report.modelled += model(&tape, &replies, &end).map_err(told)?;
                report.judged += calls(&source, &tape).count() as u64;
            }
            for (at, contract) in calls(&source, &tape) {
                report.coverage.count(contract, &replies[at]);
                report.operations += 1;
            }
            report.tapes += 1;
            report.messages = pair.messages();
        }
        Ok(report)
    }
}

/// The calls of functions among the steps of a tape, by their places.
fn calls<'a>(source: &'a Source, tape: &'a [Step]) -> impl Iterator<Item = (usize, &'a Contract)> {
    tape.iter().enumerate().filter_map(|(at, step)| {
        let [name, function, ..] = step.command.as_slice() else { return None };
        let function = str::from_utf8(function).ok().filter(|_| name == b"FCALL")?;
        Some((at, source.contracts().get(function)?))
    })
}

/// Lets the reference model judge a history; answers how many answers it had an opinion about.
fn model(tape: &[Step], replies: &[Value], end: &Snapshot) -> Result<u64, String> {
    let mut books = Books::default();
    for (step, reply) in tape.iter().zip(replies) {
        books.hear(&step.command, reply)?;
    }
    books.close(end)?;
    Ok(books.judged)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operations, judged, modelled, messages, tapes, coverage } = self;
        writeln!(f, "{operations} operations on {tapes} tapes, the host and Valkey agree")?;
        writeln!(f, "{messages} messages were published by both")?;
        writeln!(f, "{judged} of them were judged by the oracles of histories as well,")?;
        writeln!(f, "{modelled} answers also by the reference model")?;
        write!(f, "{coverage}")
    }
}
