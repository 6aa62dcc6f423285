//! `selvedge fsck`: check the data, and with `--repair` let the scanners repair it.

use std::collections::BTreeSet;
use std::io::IsTerminal;

use clap::Args;
use selvedge::inspect::fsck;
use selvedge_core::audit::Violation;
use serde_json::json;

use super::context::Context;
use super::failure::{Exit, Failure};
use super::output::escape_control;
use super::scan;

/// Whether to repair.
#[derive(Args)]
pub(crate) struct Options {
    /// Run all scanners once, which repair what they can, then check again.
    #[arg(long)]
    repair: bool,
}

/// Exit code 0 without violations, 5 with some.
pub(crate) async fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    let client = context.client_unless(!options.repair).await?;
    let mut report = fsck::check(&client, progress).await?;
    if options.repair && !report.is_clean() {
        let before = report.violations.len();
        scan::scan_once(context, &client).await?;
        report = fsck::check(&client, progress).await?;
        let repaired = before.saturating_sub(report.violations.len());
        context.output.message(
            &format!("one pass of all scanners repaired {repaired} of {before}"),
            json!({ "repaired": repaired, "before": before }),
        )?;
    }
    let mut advised = BTreeSet::new();
    for violation in &report.violations {
        let remedy = options.repair.then(|| remedy(violation));
        let mut sentence = escape_control(&violation.to_string());
        if let Some(remedy) = remedy.filter(|remedy| advised.insert(*remedy)) {
            sentence.push_str(&format!("\n  to do: {remedy}"));
        }
        let object = json!({
            "oracle": violation.oracle,
            "subject": violation.subject,
            "what": violation.what,
            "to_do": remedy,
        });
        context.output.message(&sentence, object)?;
    }
    for fsck::SetAsideEntry { key, entry, reason, .. } in &report.set_aside {
        let sentence = format!(
            "set aside in {key}: `{}`, {}; look at it, then HDEL it",
            escape_control(entry),
            escape_control(reason)
        );
        context
            .output
            .message(&sentence, json!({ "set_aside": entry, "in": key, "reason": reason }))?;
    }
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
    Err(if options.repair {
        failure.hint("the rest needs an operator: do what is said above, then run it again")
    } else {
        failure.hint("`selvedge fsck --repair` repairs what can be derived")
    })
}

/// What an operator can do about a violation that no scanner repairs.
fn remedy(violation: &Violation) -> &'static str {
    match violation.oracle {
        "RightKind" if violation.what.starts_with("holds a") => {
            "somebody else wrote there: RENAME the key out of the way, or DEL it; this command \
             then fills indexes again from the records"
        }
        "RightKind" => "HSET the field to the number that it should be",
        "PoisonAside" => "no scanner took this entry out: ZREM or SREM it by hand",
        "OneHome" if violation.what.contains("flow_index") => {
            "SADD the flow to ff:idx:{fp:N}:flow_index of its partition, and an engine sees to it"
        }
        "GroupCounts" | "EdgeByTruth" | "NoRunBeforeParents" | "PendingCancelsIndexed" => {
            "its dependencies cannot be reconstructed: `selvedge exec cancel` the execution, or \
             `selvedge flow cancel` its flow, and submit it again"
        }
        "NoOrphans" => "no scanner removes this key: look at it, then DEL it",
        "LedgerAdds" => "set the count right by hand, or let the next reset of its period do it",
        "OneSlot" => "it can never be reached from there: remove the member or the record by hand",
        _ => "`selvedge why ID` tells more; `selvedge exec cancel ID` ends what cannot go on",
    }
}

fn progress(done: usize, of: usize) {
    if std::io::stderr().is_terminal() {
        let end = if done == of { '\n' } else { '\r' };
        anstream::eprint!("checked {done} of {of} partitions{end}");
    }
}
