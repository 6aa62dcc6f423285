//! `selvedge fsck`: is the data sound? And with `--repair`: let the engine mend it.

use std::io::IsTerminal;

use clap::Args;
use selvedge::inspect::fsck;
use serde_json::json;

use super::context::Context;
use super::failure::{Exit, Failure};
use super::scan;

/// Whether to mend what is wrong.
#[derive(Args)]
pub(crate) struct Options {
    /// Let an engine make one round of all its scanners, which mend what can be mended, and check
    /// again.
    #[arg(long)]
    repair: bool,
}

/// Exit code 0 when nothing is wrong, 5 when something is.
pub(crate) async fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    let client = context.client_unless(!options.repair).await?;
    let mut report = fsck::check(&client, progress).await?;
    if options.repair && !report.is_clean() {
        let before = report.violations.len();
        scan::one_round(context, &client).await?;
        report = fsck::check(&client, progress).await?;
        let mended = before.saturating_sub(report.violations.len());
        context.output.say(
            &format!("a round of all scanners mended {mended} of {before}"),
            json!({ "mended": mended, "before": before }),
        )?;
    }
    for violation in &report.violations {
        context.output.say(
            &violation.to_string(),
            json!({
                "oracle": violation.oracle,
                "subject": violation.subject,
                "what": violation.what,
            }),
        )?;
    }
    let count = report.violations.len();
    let found = match count {
        0 => "all is sound".to_owned(),
        1 => "1 thing is wrong".to_owned(),
        _ => format!("{count} things are wrong"),
    };
    let summary = format!("{} keys in {} partitions: {found}", report.keys, report.partitions);
    let object = json!({
        "keys": report.keys,
        "strangers": report.strangers,
        "partitions": report.partitions,
        "violations": count,
    });
    context.output.say(&summary, object)?;
    if report.is_clean() {
        return Ok(());
    }
    let failure = Failure::new(Exit::Partial, found);
    Err(if options.repair {
        failure.hint("what is left needs a person; `selvedge why ID` tells more about an execution")
    } else {
        failure.hint("`selvedge fsck --repair` mends what the engine can mend")
    })
}

fn progress(done: usize, of: usize) {
    if std::io::stderr().is_terminal() {
        let end = if done == of { '\n' } else { '\r' };
        anstream::eprint!("judged {done} of {of} partitions{end}");
    }
}
