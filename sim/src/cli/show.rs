//! `cargo sim replay` and `cargo sim show`

use std::path::PathBuf;

use selvedge_sim::event::Event;
use selvedge_sim::failure::Failure;
use selvedge_sim::page::page;
use selvedge_sim::plan::Plan;
use selvedge_sim::report::report;
use selvedge_sim::runner::{Outcome, RunOptions, run as simulate};
use selvedge_sim::say;

use super::run::line;
use super::{End, plan_of};
use selvedge_sim::campaign::Mode;

/// Which run, and what of it.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// A seed, the name of a story, or a plan file.
    plan: String,
    /// Only events from this one on, by number.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Only events up to this one, by number.
    #[arg(long, default_value_t = u64::MAX)]
    until: u64,
    /// Only events that speak of this: an id or a part of one.
    #[arg(long)]
    only: Option<String>,
    /// Show the event with this number and what came just before it.
    #[arg(long = "break", value_name = "ORDINAL", conflicts_with_all = ["from", "until"])]
    break_at: Option<u64>,
    /// Show reads and observations too.
    #[arg(long)]
    all: bool,
    /// Print the plan before it is run.
    #[arg(long)]
    plan_too: bool,
    /// Small worlds in which only engines die, for seeds.
    #[arg(long)]
    lite: bool,
    /// Write the run as one self-contained page.
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

impl Options {
    fn run(&self) -> Result<(Plan, Outcome), End> {
        let mode = if self.lite { Mode::Lite } else { Mode::Swarm };
        let plan = plan_of(&self.plan, mode)?;
        if self.plan_too {
            print!("{plan}");
        }
        let options = RunOptions { keep_events: Some(EVENTS_KEPT), ..RunOptions::default() };
        let outcome = simulate(&plan, &options).map_err(End::Usage)?;
        Ok((plan, outcome))
    }

    /// Whether anybody asked for events.
    fn wants_events(&self) -> bool {
        self.from > 0
            || self.until < u64::MAX
            || self.only.is_some()
            || self.break_at.is_some()
            || self.all
    }

    fn picks(&self, event: &Event) -> bool {
        let (from, until) = match self.break_at {
            Some(at) => (at.saturating_sub(BEFORE_A_BREAK), at),
            None => (self.from, self.until),
        };
        (from..=until).contains(&event.ordinal)
            && (self.all || self.break_at.is_some() || say::matters(event))
            && self.only.as_ref().is_none_or(|text| say::mentions(event, text))
    }
}

/// Quiet first: one line, and the report when it fails; events on request.
pub(crate) fn replay(options: &Options) -> Result<(), End> {
    let (plan, outcome) = options.run()?;
    if options.wants_events() {
        print_events(options, &outcome);
    }
    finish(options, &plan, &outcome)
}

/// Every event.
pub(crate) fn show(options: &Options) -> Result<(), End> {
    let (plan, outcome) = options.run()?;
    if let Some(path) = &options.page {
        let events: Vec<&Event> =
            outcome.trace.tail().filter(|event| options.picks(event)).take(PAGE_EVENTS).collect();
        std::fs::write(path, page(&options.plan, &events))?;
        println!("{} events on {}", events.len(), path.display());
    } else {
        print_events(options, &outcome);
    }
    finish(options, &plan, &outcome)
}

fn print_events(options: &Options, outcome: &Outcome) {
    for event in outcome.trace.tail().filter(|event| options.picks(event)) {
        println!("{}", say::line(event));
    }
}

fn finish(options: &Options, plan: &Plan, outcome: &Outcome) -> Result<(), End> {
    println!("{}", line(&options.plan, outcome));
    for found in outcome.violations.iter().filter(|found| found.excuse.is_some()) {
        let excuse = found.excuse.as_deref().unwrap_or_default();
        println!("  excused: {} {}: {} ({excuse})", found.oracle, found.subject, found.what);
    }
    match Failure::of(outcome) {
        None => Ok(()),
        Some(failure) => {
            eprint!("{}", report(&options.plan, plan, outcome, &failure));
            Err(End::Failed(failure.class))
        }
    }
}

/// Events that are kept to be shown.
const EVENTS_KEPT: usize = 1_000_000;
/// Events that a page shows, at most.
const PAGE_EVENTS: usize = 5_000;
/// Events that are shown before a break.
const BEFORE_A_BREAK: u64 = 20;
