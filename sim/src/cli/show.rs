//! `cargo sim replay` and `cargo sim show`

use std::path::{Path, PathBuf};

use selvedge_sim::event::Event;
use selvedge_sim::failure::Failure;
use selvedge_sim::page::page;
use selvedge_sim::plan::Plan;
use selvedge_sim::report::report;
use selvedge_sim::runner::{Outcome, RunOptions, run as simulate};
use selvedge_sim::say;

use super::out::{self, err, out};
use super::run::line;
use super::{End, at, plan_and_text_of};
use selvedge_sim::campaign::Mode;

/// A run, and where its plan came from.
struct Ran {
    plan: Plan,
    /// As somebody wrote it; a seed has none.
    text: Option<String>,
    outcome: Outcome,
}

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
    /// Only events that speak of this: a name of the plan, an id or a part of one.
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
    fn run(&self) -> Result<Ran, End> {
        let mode = if self.lite { Mode::Lite } else { Mode::Swarm };
        let (plan, text) = plan_and_text_of(&self.plan, mode)?;
        if self.plan_too {
            out::text(&plan.to_string());
        }
        let options = RunOptions { keep_events: Some(EVENTS_KEPT), ..RunOptions::default() };
        let outcome = simulate(&plan, &options).map_err(End::Usage)?;
        Ok(Ran { plan, text, outcome })
    }

    /// Whether anybody asked for events.
    fn wants_events(&self) -> bool {
        self.from > 0
            || self.until < u64::MAX
            || self.only.is_some()
            || self.break_at.is_some()
            || self.all
    }

    /// The events that were asked for.
    fn picked<'a>(&'a self, outcome: &'a Outcome) -> impl Iterator<Item = &'a Event> {
        let named = |only: &String| {
            let ids = outcome.names.iter().filter(move |(_, name)| *name == only);
            ids.map(|(id, _)| id.clone()).collect::<Vec<_>>()
        };
        let ids = self.only.as_ref().map(named).unwrap_or_default();
        outcome.trace.tail().filter(move |event| self.picks(event, &ids))
    }

    /// Whether an event was asked for, where these are the ids of what was named.
    fn picks(&self, event: &Event, ids: &[String]) -> bool {
        let (from, until) = match self.break_at {
            Some(at) => (at.saturating_sub(BEFORE_A_BREAK), at),
            None => (self.from, self.until),
        };
        (from..=until).contains(&event.ordinal)
            && (self.all || self.break_at.is_some() || say::matters(event))
            && self.only.as_ref().is_none_or(|text| {
                say::mentions(event, text) || ids.iter().any(|id| say::mentions(event, id))
            })
    }
}

/// Quiet first: one line, and the report when it fails; events on request.
pub(crate) fn replay(options: &Options) -> Result<(), End> {
    let ran = options.run()?;
    match &options.page {
        Some(path) => write_page(options, &ran.outcome, path)?,
        None if options.wants_events() => print_events(options, &ran.outcome),
        None => {}
    }
    finish(options, &ran)
}

/// Every event.
pub(crate) fn show(options: &Options) -> Result<(), End> {
    let ran = options.run()?;
    match &options.page {
        Some(path) => write_page(options, &ran.outcome, path)?,
        None => print_events(options, &ran.outcome),
    }
    finish(options, &ran)
}

fn write_page(options: &Options, outcome: &Outcome, path: &Path) -> Result<(), End> {
    let mut events: Vec<&Event> = options.picked(outcome).collect();
    tell_if_none(events.len(), outcome);
    let left_out = events.len().saturating_sub(PAGE_EVENTS);
    // A failure is at the end of its run.
    let which = if Failure::of(outcome).is_some() {
        events.drain(..left_out);
        "first"
    } else {
        events.truncate(PAGE_EVENTS);
        "last"
    };
    let cut = format!("cut short: the {which} {left_out} are not drawn");
    let mut told = vec![line(&options.plan, outcome)];
    told.extend(outcome.violations.iter().map(|found| {
        let excuse = found.excuse.as_ref().map_or(String::new(), |why| format!(" ({why})"));
        format!("{} {}: {}{excuse}", found.oracle, found.subject, found.what)
    }));
    told.extend((left_out > 0).then(|| cut.clone()));
    std::fs::write(path, page(&options.plan, &told, &events, &outcome.names)).map_err(at(path))?;
    let cut = match left_out {
        0 => String::new(),
        _ => format!("; {cut}, choose with --from or --only"),
    };
    out!("{} events on {}{cut}", events.len(), path.display());
    Ok(())
}

fn print_events(options: &Options, outcome: &Outcome) {
    let mut count = 0;
    for event in options.picked(outcome) {
        out!("{}", say::named(&say::line(event), &outcome.names));
        count += 1;
    }
    tell_if_none(count, outcome);
}

/// Says so when nothing was picked: silence could mean that nothing happened.
fn tell_if_none(picked: usize, outcome: &Outcome) {
    if picked == 0 {
        let last = outcome.trace.events().saturating_sub(1);
        out!("no event matches; this run has events 0 to {last}, and --all shows reads too");
    }
}

fn finish(options: &Options, ran: &Ran) -> Result<(), End> {
    let Ran { plan, text, outcome } = ran;
    out!("{}", line(&options.plan, outcome));
    // A seed draws far more faults than find their call; who writes one by hand means it.
    if let Some(text) = text {
        for (number, first, name) in plan.remade(text) {
            out!(
                "  line {number} makes another `{name}` than line {first}: one of them comes about"
            );
        }
        for at in &outcome.unstruck {
            let number = Plan::line_of_fault(text, *at);
            out!("  fault on line {number} never struck: {}", plan.faults[*at]);
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
