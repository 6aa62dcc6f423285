//! `exec cancel`, `replay` and `purge` of all executions that a filter finds.

use std::io::{BufRead, IsTerminal, Write};

use clap::Args;
use selvedge::client::Client;
use selvedge::inspect::{BulkAction, BulkProgress, BulkReport, ExecutionFilter, ListCursor};
use serde_json::{Value, json};

use super::context::Context;
use super::exec_list;
use super::failure::{Exit, Failure};
use super::where_options::Where;

/// Which executions to change, and how many.
#[derive(Args, Clone)]
pub(crate) struct Many {
    #[command(flatten)]
    pub(crate) of: Where,
    /// With --where: change at most so many.
    #[arg(long, default_value_t = 10_000, requires = "conditions", value_name = "COUNT")]
    max: u64,
    /// With --where: go on where an interrupted run stopped, with the cursor that it printed.
    #[arg(long, requires = "conditions", value_name = "CURSOR", value_parser = exec_list::cursor)]
    from: Option<ListCursor>,
    /// With --where: do not ask before the change.
    #[arg(long, requires = "conditions")]
    yes: bool,
}

/// What is done, in the words of the messages.
struct Words {
    verb: &'static str,
    done: &'static str,
}

pub(crate) async fn run(
    context: &Context,
    many: Many,
    action: BulkAction,
    dry_run: bool,
) -> Result<(), Failure> {
    let words = match action {
        BulkAction::Cancel(_) => Words { verb: "cancel", done: "cancelled" },
        BulkAction::Replay => Words { verb: "replay", done: "replayed" },
        BulkAction::Purge => Words { verb: "purge", done: "purged" },
    };
    let mut filter = many.of.filter(context)?;
    keep_changeable(&action, &mut filter)?;
    let asks = !dry_run && !many.yes;
    if asks && !std::io::stdin().is_terminal() {
        let what = format!("{} changes many executions", words.verb);
        return Err(Failure::usage(what).hint("look with --dry-run first, then give --yes"));
    }
    let client = context.client_unless(dry_run).await?;
    if dry_run || asks {
        show(context, &client, &filter, &many, &words).await?;
    }
    if dry_run || (asks && !is_confirmed()?) {
        return Ok(());
    }
    change(context, &client, filter, many, &action, &words).await
}

/// Restricts a filter to states in which the change makes sense.
fn keep_changeable(action: &BulkAction, filter: &mut ExecutionFilter) -> Result<(), Failure> {
    use selvedge::client::PublicState;
    let of_ended = !matches!(action, BulkAction::Cancel(_));
    let fits = |state: &PublicState| state.is_end() == of_ended;
    if let Some(state) = filter.states.iter().find(|state| !fits(state)) {
        let what = if of_ended { "have not ended" } else { "have ended" };
        return Err(Failure::usage(format!("executions that are {state} {what}")));
    }
    if filter.states.is_empty() {
        filter.states = PublicState::ALL.iter().copied().filter(fits).collect();
    }
    Ok(())
}

/// Says how many there are, and shows some.
async fn show(
    context: &Context,
    client: &Client,
    filter: &ExecutionFilter,
    many: &Many,
    words: &Words,
) -> Result<(), Failure> {
    let count = client.count_executions(filter).await?;
    let page = client.find_executions(filter, many.from.clone(), SHOWN).await?;
    exec_list::rows(context, &page.executions)?;
    let about = if count.is_exact { "" } else { "about " };
    let (verb, all, most) = (words.verb, count.estimate(), many.max);
    let capped = if all > most { format!(", --max {most} of them") } else { String::new() };
    let sentence = format!("would {verb} {about}{all}{capped}; these are the first");
    let object = json!({
        "would": verb, "count": all, "is_exact": count.is_exact, "max": most,
        "examined": count.examined, "entries": count.entries,
    });
    context.output.note(&sentence, object);
    Ok(())
}

fn is_confirmed() -> Result<bool, Failure> {
    anstream::eprint!("Go on? [y/N] ");
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

async fn change(
    context: &Context,
    client: &Client,
    filter: ExecutionFilter,
    many: Many,
    action: &BulkAction,
    words: &Words,
) -> Result<(), Failure> {
    let mut progress = BulkProgress::new(filter, many.from, many.max);
    let is_watched = std::io::stderr().is_terminal() && !context.output.json;
    let mut stopped = None;
    while stopped.is_none() && !progress.is_done && progress.left > 0 {
        stopped = change_page(client, action, &mut progress).await.err();
        if is_watched {
            let report = &progress.report;
            let (done, refused) = (report.done, report.refused_count());
            anstream::eprint!(
                "\r{} {done}, refused {refused}, failed {} ",
                words.done,
                report.failed
            );
        }
    }
    if is_watched {
        anstream::eprintln!();
    }
    finish(context, &progress, stopped, words)
}

/// Changes the executions of one page. If it is interrupted, it finishes what has begun.
async fn change_page(
    client: &Client,
    action: &BulkAction,
    progress: &mut BulkProgress,
) -> Result<(), Failure> {
    let mut changing = std::pin::pin!(client.change_many(action, progress));
    let mut is_interrupted = false;
    loop {
        tokio::select! {
            changed = &mut changing => {
                changed?;
                let interrupted = || Failure::new(Exit::Partial, "interrupted");
                return if is_interrupted { Err(interrupted()) } else { Ok(()) };
            }
            _ = tokio::signal::ctrl_c(), if !is_interrupted => {
                anstream::eprintln!("finishing what has begun");
                is_interrupted = true;
            }
        }
    }
}

/// Prints what was done; what was not done is a failure.
fn finish(
    context: &Context,
    progress: &BulkProgress,
    stopped: Option<Failure>,
    words: &Words,
) -> Result<(), Failure> {
    let report = &progress.report;
    let (done, refused, failed) = (report.done, report.refused_count(), report.failed);
    let next = progress.cursor.as_ref().filter(|_| !progress.is_done).map(ToString::to_string);
    let refusals: Vec<Value> = (report.refused.iter())
        .map(|(reason, (count, example))| {
            let example = example.as_ref().map(ToString::to_string);
            json!({ "reason": reason, "count": count, "example": example })
        })
        .collect();
    let mut sentence = format!("{} {done}, refused {refused}, failed {failed}", words.done);
    for (reason, (count, example)) in &report.refused {
        let example = example.as_ref().map(ToString::to_string).unwrap_or_default();
        sentence.push_str(&format!("\n  {count} refused: {reason}, such as {example}"));
    }
    if let Some(error) = &report.last_failure {
        sentence.push_str(&format!("\n  the last failure: {error}"));
    }
    let object = json!({
        words.done: done, "refused": refused, "failed": failed, "refusals": refusals,
        "last_failure": report.last_failure, "examined": report.examined, "next": next,
    });
    context.output.message(&sentence, object)?;
    let go_on = match &next {
        Some(next) => format!("run it again, or go on with --from '{next}'"),
        None => "run it again to go on".to_owned(),
    };
    match (stopped, exit(report)) {
        (Some(failure), _) => Err(failure.hint(go_on)),
        (None, Some((exit, what))) => Err(Failure::new(exit, what)),
        (None, None) if !progress.is_done => {
            Err(Failure::new(Exit::Partial, "stopped at --max").hint(go_on))
        }
        (None, None) => Ok(()),
    }
}

/// How the command ends, unless all is done.
fn exit(report: &BulkReport) -> Option<(Exit, &'static str)> {
    match (report.done, report.refused_count(), report.failed) {
        (0, 0, 0) => Some((Exit::Refused, "no execution matches: nothing to do")),
        (0, _, 0) => Some((Exit::Refused, "all were refused")),
        (0, 0, _) => Some((Exit::Error, "all failed")),
        (_, 0, 0) => None,
        _ => Some((Exit::Partial, "not all were changed")),
    }
}

/// Executions shown before a change.
const SHOWN: usize = 10;
