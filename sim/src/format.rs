//! Events as text: one line each, for reports and `cargo sim show`.

use std::collections::BTreeMap;

use selvedge_core::id::ExecutionId;
use selvedge_core::value::Value;

use crate::event::{
    Actor, Argv, Event, EventKind, HandlerStep, Learned, arguments_of, function_of,
};

/// An event as one line: time, ordinal, actor, and what happened.
#[must_use]
pub fn line(event: &Event) -> String {
    format!(
        "{:>4}.{:03}s #{:<6} {:<12} {}",
        event.at_ms / 1_000,
        event.at_ms % 1_000,
        event.ordinal,
        event.actor.to_string(),
        describe(event)
    )
}

/// What happened, without time and actor.
#[must_use]
pub fn describe(event: &Event) -> String {
    match &event.kind {
        EventKind::Sent { call, node, argv } => {
            format!("sends {call} to node-{node}: {}", words(argv))
        }
        EventKind::Applied(applied) => {
            let superseded = if applied.superseded { " on a branch that will be lost" } else { "" };
            let (call, argv) = (applied.call, words(&applied.argv));
            format!("applies {call}{superseded}: {argv} -> {}", value(&applied.reply))
        }
        EventKind::Delivered { call, learned } => {
            format!("gets the result of {call}: {}", knowledge(learned))
        }
        EventKind::Lost { call, applied } => {
            format!(
                "gets no result of {call}, {}",
                if *applied { "applied" } else { "not applied" }
            )
        }
        EventKind::Fault { fault, detail } => format!("FAULT {fault} {detail}"),
        EventKind::Observed(fact) => format!("observes {fact:?}"),
        EventKind::WorkerObserved(fact) => format!("observes {fact:?}"),
        EventKind::Handler { execution, step: HandlerStep::Started, .. } => {
            format!("starts the handler of {execution}")
        }
        EventKind::Handler { execution, step: HandlerStep::CancelRequested, .. } => {
            format!("tells the handler of {execution} to stop")
        }
        EventKind::Handler { execution, step: HandlerStep::Ended, .. } => {
            format!("handler of {execution} has ended")
        }
        EventKind::Capacity(capacity) => format!("may run {capacity} handlers"),
        EventKind::Invoked { call, function, .. } => format!("begins {function} ({call})"),
        EventKind::Returned { call, learned } => format!("ends {call}: {}", knowledge(learned)),
        EventKind::Waits { executions, .. } => format!("waits for {}", all_ids(executions)),
        EventKind::Succeeded { claim, executions } => {
            format!("is told {claim:?} for {}", all_ids(executions))
        }
        EventKind::WaitOver { ended: None, .. } => "cannot wait".to_owned(),
        EventKind::WaitOver { ended: Some(ended), .. } => {
            let ended = ended.iter().map(|(id, outcome)| format!("{id} {outcome}"));
            format!("notices the end of {}", ended.collect::<Vec<_>>().join(", "))
        }
        EventKind::Started => "starts".to_owned(),
        EventKind::Died => "dies".to_owned(),
        EventKind::Phase(phase) => format!("--- {phase:?} ---"),
        EventKind::CommitsLost { node, first, last } => {
            format!("node-{node} loses commits {first} to {last}")
        }
        EventKind::Note(note) => note.clone(),
        EventKind::KeyOnTwoNodes(key) => format!("BUSYKEY: both nodes have {key}"),
    }
}

fn all_ids(executions: &[ExecutionId]) -> String {
    executions.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// Whether an event is worth showing: reads and observations fill most of a trace.
#[must_use]
pub fn matters(event: &Event) -> bool {
    match &event.kind {
        EventKind::Sent { argv, .. } => !only_reads(argv),
        EventKind::Applied(applied) => !applied.writes.is_empty(),
        EventKind::Delivered { learned, .. } => !matches!(learned, Learned::Reply(_)),
        EventKind::Observed(_) | EventKind::WorkerObserved(_) => false,
        EventKind::Lost { .. }
        | EventKind::Fault { .. }
        | EventKind::Handler { .. }
        | EventKind::Capacity(_)
        | EventKind::Invoked { .. }
        | EventKind::Returned { .. }
        | EventKind::Succeeded { .. }
        | EventKind::Waits { .. }
        | EventKind::WaitOver { .. }
        | EventKind::Started
        | EventKind::Died
        | EventKind::Phase(_)
        | EventKind::CommitsLost { .. }
        | EventKind::KeyOnTwoNodes(_)
        | EventKind::Note(_) => true,
    }
}

/// Whether an event mentions this text: an id, a key, or a part of one.
#[must_use]
pub fn mentions(event: &Event, text: &str) -> bool {
    let holds = |word: &Vec<u8>| String::from_utf8_lossy(word).contains(text);
    match &event.kind {
        EventKind::Sent { argv, .. } | EventKind::Invoked { argv, .. } => argv.iter().any(holds),
        EventKind::Applied(applied) => {
            applied.argv.iter().any(holds) || applied.writes.iter().flatten().any(holds)
        }
        EventKind::Delivered { .. }
        | EventKind::Lost { .. }
        | EventKind::Fault { .. }
        | EventKind::Observed(_)
        | EventKind::WorkerObserved(_)
        | EventKind::Handler { .. }
        | EventKind::Capacity(_)
        | EventKind::Returned { .. }
        | EventKind::Succeeded { .. }
        | EventKind::Waits { .. }
        | EventKind::WaitOver { .. }
        | EventKind::Started
        | EventKind::Died
        | EventKind::Phase(_)
        | EventKind::CommitsLost { .. }
        | EventKind::KeyOnTwoNodes(_)
        | EventKind::Note(_) => describe(event).contains(text),
    }
}

/// The actor in whose lane an event is shown.
#[must_use]
pub const fn lane(event: &Event) -> Actor {
    event.actor
}

fn only_reads(argv: &Argv) -> bool {
    match function_of(argv) {
        Some(name) => {
            name == "ff_scan_partition"
                || name == "ff_audit_executions"
                || name.starts_with("ff_read")
        }
        None => true,
    }
}

/// A command as text: the function and its arguments, without the keys.
#[must_use]
pub fn words(argv: &Argv) -> String {
    let text = |word: &Vec<u8>| {
        let mut text = String::from_utf8_lossy(word).escape_debug().to_string();
        if let Some((at, _)) = text.char_indices().nth(WORD_MAX) {
            text.truncate(at);
            text.push('…');
        }
        text
    };
    let (name, rest) = match function_of(argv) {
        Some(name) => (name.trim_start_matches("ff_").to_owned(), arguments_of(argv)),
        None => (argv.first().map(text).unwrap_or_default(), argv.get(1..).unwrap_or_default()),
    };
    let mut words = vec![name];
    words.extend(rest.iter().filter(|word| !word.is_empty()).take(WORDS_MAX).map(text));
    words.join(" ")
}

fn knowledge(learned: &Learned) -> String {
    match learned {
        Learned::Reply(reply) => value(reply),
        Learned::NotApplied(why) => format!("not applied: {why}"),
        Learned::PerhapsApplied(why) => format!("perhaps applied: {why}"),
    }
}

/// Whether a reply is an error or a refusal.
#[must_use]
pub fn is_refusal(reply: &Value) -> bool {
    match reply {
        Value::Error(_) => true,
        Value::Array(words) => matches!(words.as_slice(), [Value::Int(0), Value::Bulk(_), ..]),
        Value::Nil | Value::Int(_) | Value::Bulk(_) | Value::Status(_) => false,
    }
}

/// A reply as text.
#[must_use]
pub fn value(reply: &Value) -> String {
    match reply {
        Value::Nil => "nothing".to_owned(),
        Value::Int(number) => number.to_string(),
        Value::Bulk(bytes) => {
            let text = String::from_utf8_lossy(bytes);
            text.chars().take(WORD_MAX).collect::<String>().escape_debug().to_string()
        }
        Value::Status(text) => text.clone(),
        Value::Error(text) => format!("error {text}"),
        Value::Array(all) => {
            let some: Vec<String> = all.iter().take(WORDS_MAX).map(value).collect();
            let more = if all.len() > WORDS_MAX { " …" } else { "" };
            format!("[{}{more}]", some.join(" "))
        }
    }
}

/// Puts the plan's name in front of every id that has one.
#[must_use]
pub fn named(text: &str, names: &BTreeMap<String, String>) -> String {
    let (mut said, mut from) = (String::with_capacity(text.len()), 0);
    for id in ids(text) {
        let start = id.as_ptr() as usize - text.as_ptr() as usize;
        // The id of an execution includes its partition.
        let tag = text[from..start].ends_with("}:").then(|| text[from..start].rfind('{')).flatten();
        let starts = [tag.map(|tag| from + tag), Some(start)].into_iter().flatten();
        let end = start + id.len();
        let known = starts.filter_map(|start| Some((start, names.get(&text[start..end])?)));
        if let Some((start, name)) = known.take(1).next() {
            said.push_str(&format!("{}{name}=", &text[from..start]));
            from = start;
        }
        said.push_str(&text[from..end]);
        from = end;
    }
    said + &text[from..]
}

/// The uuids in a text.
pub fn ids(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_hexdigit() || c == '-';
    text.split(move |c| !is_part(c)).filter(|word| word.len() == 36)
}

/// Longer words are cut off.
const WORD_MAX: usize = 60;
/// Only this many words are shown.
const WORDS_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "550e8400-e29b-41d4-a716-446655440000";

    #[test]
    fn ids_are_shown_with_their_names() {
        let execution = format!("{{fp:7}}:{ID}");
        let names = BTreeMap::from([(execution.clone(), "F1.0".to_owned())]);
        let other = ID.replace('5', "6");
        let text = format!("{execution} is stuck, ff:exec:{{fp:7}}:{execution}:core, {other}.");
        let told =
            format!("F1.0={execution} is stuck, ff:exec:{{fp:7}}:F1.0={execution}:core, {other}.");
        assert_eq!(named(&text, &names), told);
        let flows = BTreeMap::from([(ID.to_owned(), "F1".to_owned())]);
        assert_eq!(
            named(&format!("ff:flow:{{fp:7}}:{ID}:core"), &flows),
            format!("ff:flow:{{fp:7}}:F1={ID}:core")
        );
    }

    #[test]
    fn ids_are_found_in_any_text() {
        let text = format!("{{fp:7}}:{ID} left ff:idx, cafe");
        assert_eq!(ids(&text).collect::<Vec<_>>(), [ID]);
    }
}
