//! `cargo sim replay` and `cargo sim show`: run a plan again and show its events.

use std::path::{Path, PathBuf};

use selvedge_sim::event::Event;
use selvedge_sim::failure::Failure;
use selvedge_sim::format;
use selvedge_sim::html::render;
use selvedge_sim::plan::{Mode, Plan};
use selvedge_sim::report::report;
use selvedge_sim::runner::{Outcome, RunOptions, run as simulate};

use super::out::{self, err, out};
use super::run::line;
use super::{CliError, at, plan_and_text_of};

/// A run, and the text of its plan.
struct Ran {
    plan: Plan,
    /// The text of the file or story; a seed has none.
    text: Option<String>,
    outcome: Outcome,
}

/// Which run, and which of its events.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// A seed, the name of a story, or a plan file.
    plan: String,
    /// Only events from this ordinal on.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Only events up to this ordinal.
    #[arg(long, default_value_t = u64::MAX)]
    until: u64,
    /// Only events that mention this name of the plan, id, or part of an id.
    #[arg(long)]
    only: Option<String>,
    /// Show the event with this ordinal and the 20 before it.
    #[arg(long = "break", value_name = "ORDINAL", conflicts_with_all = ["from", "until"])]
    break_at: Option<u64>,
    /// Also show reads and observations.
    #[arg(long)]
    all: bool,
    /// Print the plan first.
    #[arg(long)]
    plan_too: bool,
    /// For a seed: a small plan in which only engines crash.
    #[arg(long)]
    lite: bool,
    /// Write the events as a self-contained HTML page.
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

impl Options {
    fn run(&self) -> Result<Ran, CliError> {
        let mode = if self.lite { Mode::Lite } else { Mode::Swarm };
        let (plan, text) = plan_and_text_of(&self.plan, mode)?;
        if self.plan_too {
            out::text(&plan.to_string());
        }
        let options = RunOptions { keep_events: Some(EVENTS_KEPT), ..RunOptions::default() };
        let outcome = simulate(&plan, &options).map_err(CliError::Usage)?;
        Ok(Ran { plan, text, outcome })
    }

    /// Whether any option selects events.
    fn wants_events(&self) -> bool {
        self.from > 0
            || self.until < u64::MAX
            || self.only.is_some()
            || self.break_at.is_some()
            || self.all
    }

    /// The selected events.
    fn picked<'a>(&'a self, outcome: &'a Outcome) -> impl Iterator<Item = &'a Event> {
        let named = |only: &String| {
            let ids = outcome.names.iter().filter(move |(_, name)| *name == only);
            ids.map(|(id, _)| id.clone()).collect::<Vec<_>>()
        };
        let ids = self.only.as_ref().map(named).unwrap_or_default();
        outcome.trace.tail().filter(move |event| self.picks(event, &ids))
    }

    /// Whether an event is selected; `ids` are the ids of the name given with --only.
    fn picks(&self, event: &Event, ids: &[String]) -> bool {
        let (from, until) = match self.break_at {
            Some(at) => (at.saturating_sub(BEFORE_A_BREAK), at),
            None => (self.from, self.until),
        };
        (from..=until).contains(&event.ordinal)
            && (self.all || self.break_at.is_some() || format::matters(event))
            && self.only.as_ref().is_none_or(|text| {
                format::mentions(event, text) || ids.iter().any(|id| format::mentions(event, id))
            })
    }
}

/// Prints one line and, if the run fails, the report; events only on request.
pub(crate) fn replay(options: &Options) -> Result<(), CliError> {
    let ran = options.run()?;
    match &options.page {
        Some(path) => write_page(options, &ran.outcome, path)?,
        None if options.wants_events() => print_events(options, &ran.outcome),
        None => {}
    }
    finish(options, &ran)
}

/// Prints every event.
pub(crate) fn show(options: &Options) -> Result<(), CliError> {
    let ran = options.run()?;
    match &options.page {
        Some(path) => write_page(options, &ran.outcome, path)?,
        None => print_events(options, &ran.outcome),
    }
    finish(options, &ran)
}

fn write_page(options: &Options, outcome: &Outcome, path: &Path) -> Result<(), CliError> {
    let mut events: Vec<&Event> = options.picked(outcome).collect();
    tell_if_none(events.len(), outcome);
    let left_out = events.len().saturating_sub(PAGE_EVENTS);
    // A failure is at the end of the run.
    let which = if Failure::of(outcome).is_some() {
        events.drain(..left_out);
        "first"
    } else {
        events.truncate(PAGE_EVENTS);
        "last"
    };
    let cut = format!("truncated: the {which} {left_out} events are left out");
    let mut told = vec![line(&options.plan, outcome)];
    told.extend(outcome.violations.iter().map(|found| {
        let excuse = found.excuse.as_ref().map_or(String::new(), |why| format!(" ({why})"));
        format!("{} {}: {}{excuse}", found.oracle, found.subject, found.what)
    }));
    told.extend((left_out > 0).then(|| cut.clone()));
    std::fs::write(path, render(&options.plan, &told, &events, &outcome.names))
        .map_err(at(path))?;
    let cut = match left_out {
        0 => String::new(),
        _ => format!("; {cut}, select with --from or --only"),
    };
    out!("wrote {} events to {}{cut}", events.len(), path.display());
    Ok(())
}

fn print_events(options: &Options, outcome: &Outcome) {
    let mut count = 0;
    for event in options.picked(outcome) {
        out!("{}", format::named(&format::line(event), &outcome.names));
        count += 1;
    }
    tell_if_none(count, outcome);
}

/// Prints a hint when no event was selected.
fn tell_if_none(picked: usize, outcome: &Outcome) {
    if picked == 0 {
        let last = outcome.trace.events().saturating_sub(1);
        out!("no event matches; the run has events 0 to {last}, and --all includes reads");
    }
}

fn finish(options: &Options, ran: &Ran) -> Result<(), CliError> {
    let Ran { plan, text, outcome } = ran;
    out!("{}", line(&options.plan, outcome));
    // A seed draws more faults than its run can use; in a plan written by hand an unused fault is a
    // mistake.
    if let Some(text) = text {
        for (number, first, name) in plan.remade(text) {
            out!(
                "  line {number} creates another `{name}` than line {first}: only one of them takes effect"
            );
        }
        for at in &outcome.unused_faults {
            let number = Plan::line_of_fault(text, *at);
            out!("  fault on line {number} was never injected: {}", plan.faults[*at]);
        }
    }
    for found in outcome.violations.iter().filter(|found| found.excuse.is_some()) {
        let excuse = found.excuse.as_deref().unwrap_or_default();
        out!("  excused: {} {}: {} ({excuse})", found.oracle, found.subject, found.what);
    }
    match Failure::of(outcome) {
        None => Ok(()),
        Some(failure) => {
            err!("{}", report(&options.plan, plan, outcome, &failure).trim_end());
            Err(CliError::Failed(failure.class))
        }
    }
}

/// The most events that can be shown.
const EVENTS_KEPT: usize = 1_000_000;
/// The most events on a page.
const PAGE_EVENTS: usize = 5_000;
/// How many events --break shows before the one asked for.
const BEFORE_A_BREAK: u64 = 20;
