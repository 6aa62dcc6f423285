//! `selvedge fsck`: check the data, repair what other records hold, and give up what none does.

use std::io::IsTerminal;

use clap::Args;
use selvedge::client::Client;
use selvedge::inspect::fsck::{self, Report};
use selvedge_core::audit::Violation;
use selvedge_core::id::{ExecutionId, FlowId};
use serde_json::json;

use super::context::Context;
use super::failure::{Exit, Failure};
use super::output::escape_control;
use super::scan;

/// Whether to repair.
#[derive(Args)]
pub(crate) struct Options {
    /// Correct everything that other records hold, and run all scanners once; then check again.
    #[arg(long)]
    repair: bool,
    /// Give up what a finding names: an execution (it ends as cancelled), a flow without a record,
    /// a key (it is deleted) or its fields that are no numbers. Repairs the rest, too.
    #[arg(long, value_name = "ID|KEY")]
    accept: Vec<String>,
}

/// The reason of an execution that an operator gave up.
const REASON: &str = "its records were damaged; an operator accepted the loss";

/// Exit code 0 without violations, 5 with some.
pub(crate) async fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    let repairs = options.repair || !options.accept.is_empty();
    let client = context.client_unless(!repairs).await?;
    if !options.accept.is_empty() {
        for accepted in fsck::accept(&client, &options.accept, REASON).await? {
            let object = json!({ "accepted": accepted.subject, "what": accepted.what });
            let sentence = format!("accepted {}: {}", accepted.subject, accepted.what);
            context.output.message(&escape_control(&sentence), object)?;
        }
    }
    let mut report = fsck::check(&client, |done, of| progress("checked", done, of)).await?;
    if repairs {
        report = repair(context, &client, report).await?;
    }
    for violation in &report.violations {
        print(context, violation, repairs)?;
    }
    for fsck::SetAsideEntry { key, entry, reason, .. } in &report.set_aside {
        let sentence = format!(
            "set aside in {key}: `{}`, {}\n  to do: look at it, then selvedge fsck --accept '{key}'",
            escape_control(entry),
            escape_control(reason)
        );
        context
            .output
            .message(&sentence, json!({ "set_aside": entry, "in": key, "reason": reason }))?;
    }
    summarize(context, &report, repairs)
}

/// Repairs, runs all scanners once, and checks again.
async fn repair(context: &Context, client: &Client, before: Report) -> Result<Report, Failure> {
    let repaired = fsck::repair(client, |done, of| progress("repaired", done, of)).await?;
    scan::scan_once(context, client).await?;
    let report = fsck::check(client, |done, of| progress("checked", done, of)).await?;
    for loss in &repaired.losses {
        let object = json!({ "lost": loss.what, "subject": loss.subject });
        let sentence = format!("lost: {}: {}", loss.subject, loss.what);
        context.output.message(&escape_control(&sentence), object)?;
    }
    if before.is_clean() {
        return Ok(report);
    }
    let (had, left) = (before.violations.len(), report.violations.len());
    let mended = had.saturating_sub(left);
    context.output.message(
        &format!("repaired {mended} of {had} violations"),
        json!({ "repaired": mended, "before": had, "lost": repaired.losses.len() }),
    )?;
    Ok(report)
}

fn print(context: &Context, violation: &Violation, repaired: bool) -> Result<(), Failure> {
    let remedy = repaired.then(|| remedy(violation));
    let mut sentence = escape_control(&violation.to_string());
    if let Some(remedy) = &remedy {
        sentence.push_str(&format!("\n  to do: {}", escape_control(remedy)));
    }
    let object = json!({
        "oracle": violation.oracle,
        "subject": violation.subject,
        "what": violation.what,
        "to_do": remedy,
    });
    Ok(context.output.message(&sentence, object)?)
}

fn summarize(context: &Context, report: &Report, repaired: bool) -> Result<(), Failure> {
    let count = report.violations.len();
    let found = match count {
        0 => "no violations".to_owned(),
        1 => "1 violation".to_owned(),
        _ => format!("{count} violations"),
    };
    let summary = format!("{} keys in {} partitions: {found}", report.keys, report.partitions);
    let object = json!({
        "keys": report.keys,
        "foreign_keys": report.foreign_keys,
        "partitions": report.partitions,
        "violations": count,
        "set_aside": report.set_aside.len(),
    });
    context.output.message(&summary, object)?;
    if report.is_clean() {
        return Ok(());
    }
    let failure = Failure::new(Exit::Partial, found);
    Err(if repaired {
        failure.hint("no record holds the rest: do what is said above, then run it again")
    } else {
        failure.hint("`selvedge fsck --repair` repairs what can be derived")
    })
}

/// What an operator can do about a violation that no repair ends.
fn remedy(violation: &Violation) -> String {
    let subject = &violation.subject;
    let accept = |then: &str| format!("selvedge fsck --accept '{subject}' ({then})");
    if subject.parse::<ExecutionId>().is_ok() {
        return accept("ends it as cancelled; `selvedge why` tells what it waits for");
    }
    if subject.parse::<FlowId>().is_ok() {
        return accept("deletes what is left of the flow; its executions go on");
    }
    match violation.oracle {
        "RightKind" if violation.what.starts_with("holds a") => {
            accept("deletes the value; indexes, sets and counts are filled again from the records")
        }
        "RightKind" if violation.what.ends_with("not a number") => {
            accept("removes the field, which then counts as nothing")
        }
        _ => accept("deletes it"),
    }
}

/// A line on a terminal that is written over.
fn progress(what: &str, done: usize, of: usize) {
    const WIDTH: usize = 30;
    if std::io::stderr().is_terminal() {
        let full = (done * WIDTH).checked_div(of).unwrap_or(WIDTH);
        let bar = format!("{}{}", "#".repeat(full), ".".repeat(WIDTH - full));
        let end = if done == of { '\n' } else { '\r' };
        anstream::eprint!("[{bar}] {what} {done} of {of} partitions{end}");
    }
}
