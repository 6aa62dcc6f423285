//! Explanations as sentences. Times are those of the server's clock, in UTC.

use std::time::Duration;

use selvedge::inspect::{
    Cause, DueBy, Engines, Explanation, FlowExplanation, UnblockedBy, Urgency, Wait,
};
use selvedge_core::time::ServerTime;

use crate::commands::output::{escape_control, with_times_as};

/// An explanation, with a word before it.
pub(super) fn explanation(why: &Explanation, before: &str) -> String {
    let namespace = escape_control(&why.namespace);
    let stands = match why.moved_at {
        Some(at) if !before.is_empty() => format!(", for {}", span(why.at.0 - at.0)),
        _ => String::new(),
    };
    let headline = told(&why.headline, why.at);
    let mut text =
        format!("{before}{} (namespace {namespace}{stands}): {headline}", why.execution_id);
    for (title, all) in [("waits for", &why.waits), ("in any case", &why.limits)] {
        for wait in all {
            text.push_str(&format!("\n  {title}: {}", sentence(wait, why.at, why.engines)));
        }
    }
    text
}

/// What a flow waits for.
pub(super) fn flow(why: &FlowExplanation) -> String {
    let namespace = escape_control(&why.flow.namespace);
    let causes = &why.causes;
    let stuck: usize = causes.causes.iter().map(|cause| cause.count).sum();
    let mut text = format!(
        "flow {} (namespace {namespace}): {} of its tasks do not move by themselves, {} wait for \
         others, {} run, {} have ended",
        why.flow.id, stuck, causes.dependent, causes.running, causes.ended
    );
    for cause in &causes.causes {
        text.push_str(&format!("\n{}", group(cause)));
    }
    match causes.causes.first() {
        Some(first) => {
            text.push_str(&foot(first.example.at, first.example.engines));
        }
        None if causes.running > 0 => text.push_str("\n  nothing holds it back: its tasks run"),
        None if causes.dependent > 0 => {
            text.push_str("\n  its tasks wait for others, none of which is in this flow");
        }
        None => text.push_str("\n  nothing holds it back: its tasks have ended"),
    }
    text
}

fn group(cause: &Cause) -> String {
    let example = &cause.example;
    let tasks = if cause.count == 1 { "task" } else { "tasks" };
    let word = urgency(cause.urgency);
    let mut text = format!("  {word}: {} {tasks}", cause.count);
    let such_as = if cause.count == 1 { ":" } else { ", such as" };
    let headline = told(&example.headline, example.at);
    text.push_str(&format!("{such_as} {}: {headline}", example.execution_id));
    let late = example.limits.iter().filter(|wait| matches!(wait.by, DueBy::Overdue(_)));
    for wait in example.waits.iter().chain(late) {
        let sentence = sentence(wait, example.at, example.engines);
        text.push_str(&format!("\n    waits for: {sentence}"));
    }
    text
}

/// The time for which something is said, and whether an engine runs.
pub(super) fn foot(at: ServerTime, engines: Engines) -> String {
    let engine = match engines {
        Engines::Alive(_) => String::new(),
        Engines::GoneSince(_) | Engines::Never => {
            format!("\n  {}; `selvedge serve` is one", none_runs(engines, at))
        }
    };
    format!("{engine}\n  at {} by the clock of the server", clock(at.0, None))
}

/// A wait in one sentence.
fn sentence(wait: &Wait, now: ServerTime, engines: Engines) -> String {
    let by = escape_control(&unblocked_by(&wait.unblocked_by));
    let mut text = format!("{} ({by})", told(&wait.on, now));
    let is_engines = matches!(wait.unblocked_by, UnblockedBy::Scanner(_));
    match wait.by {
        DueBy::Time(at) => {
            let at_clock = clock(at.0, Some(now));
            text.push_str(&format!(", by {at_clock}, in {}", span(at.0 - now.0)));
            if is_engines && !engines.are_alive() {
                text.push_str(", if an engine runs");
            }
        }
        DueBy::Overdue(at) => {
            let late = span(now.0 - at.0);
            let why = match engines {
                Engines::Alive(1) => "although 1 engine is running; `selvedge engines` shows \
                                      how far it is behind"
                    .to_owned(),
                Engines::Alive(alive) => format!(
                    "although {alive} engines are running; `selvedge engines` shows how far they \
                     are behind"
                ),
                Engines::GoneSince(_) | Engines::Never => none_runs(engines, now),
            };
            let joint = if engines.are_alive() { " " } else { ": " };
            text.push_str(&format!(", overdue by {late}{joint}{why}"));
        }
        DueBy::Unknown => {}
    }
    if !wait.now.is_empty() {
        text.push_str(&format!(": {}", told(&wait.now, now)));
    }
    text
}

fn none_runs(engines: Engines, now: ServerTime) -> String {
    match engines {
        Engines::GoneSince(at) => {
            format!("no engine is running since {}", clock(at.0, Some(now)))
        }
        Engines::Never | Engines::Alive(_) => "no engine is running".to_owned(),
    }
}

fn unblocked_by(unblocked_by: &UnblockedBy) -> String {
    match unblocked_by {
        UnblockedBy::Worker(who) | UnblockedBy::Signaller(who) => who.clone(),
        UnblockedBy::Scanner(scanner) => format!("an engine's {scanner}"),
        UnblockedBy::Upstream(id) => format!("see `selvedge why '{id}'`"),
        UnblockedBy::Submitter => "whoever submits the flow, by submitting it again".to_owned(),
        UnblockedBy::Operator => "an operator".to_owned(),
        UnblockedBy::Nobody => "nothing repairs it automatically: run `selvedge fsck`".to_owned(),
    }
}

/// An urgency in words.
pub(super) const fn urgency(urgency: Urgency) -> &'static str {
    match urgency {
        Urgency::Broken => "broken",
        Urgency::Overdue => "overdue",
        Urgency::NoWorker => "no worker",
        Urgency::Person => "needs a person",
        Urgency::Limit => "held by a limit",
        Urgency::Worker => "ready",
        Urgency::Engine => "in time",
        Urgency::Upstream => "waits for others",
        Urgency::Runs => "runs",
        Urgency::Ended => "ended",
    }
}

/// Text from the store, with its times as clock times.
fn told(text: &str, now: ServerTime) -> String {
    with_times_as(&escape_control(text), |ms| Some(clock(i64::try_from(ms).ok()?, Some(now))))
}

/// A time in UTC; without its day if that is today.
fn clock(ms: i64, today: Option<ServerTime>) -> String {
    let rfc = |ms: i64| {
        let since = Duration::from_millis(u64::try_from(ms).unwrap_or(0).min(LAST_MS));
        humantime::format_rfc3339_seconds(std::time::UNIX_EPOCH + since).to_string()
    };
    let text = rfc(ms);
    let (day, time) = text.split_once('T').unwrap_or(("", &text));
    let time = time.trim_end_matches('Z');
    if today.is_some_and(|today| rfc(today.0).starts_with(day)) {
        format!("{time} UTC")
    } else {
        format!("{day} {time} UTC")
    }
}

/// A length of time: tenths of a second when it is short, else whole seconds.
fn span(ms: i64) -> String {
    let ms = u64::try_from(ms).unwrap_or(0);
    let unit = if ms < 10_000 { 100 } else { 1_000 };
    humantime::format_duration(Duration::from_millis(ms.div_ceil(unit) * unit)).to_string()
}

/// The end of the year 9999, the last that the notation can express.
const LAST_MS: u64 = 253_402_300_799_999;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_anchored_to_the_clock_and_the_day() {
        let now = ServerTime(1_700_000_000_000);
        assert_eq!(clock(1_700_000_012_000, Some(now)), "22:13:32 UTC");
        assert_eq!(clock(1_700_100_000_000, Some(now)), "2023-11-16 02:00:00 UTC");
        assert_eq!(clock(1_700_000_012_000, None), "2023-11-14 22:13:32 UTC");
        assert_eq!(clock(i64::MAX, Some(now)), "9999-12-31 23:59:59 UTC");
        assert_eq!(
            (span(12_001), span(1_230), span(-5)),
            ("13s".into(), "1s 300ms".into(), "0s".into())
        );
        assert_eq!(told("until 1700000012000", now), "until 22:13:32 UTC");
    }
}
