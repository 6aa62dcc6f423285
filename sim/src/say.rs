//! Events in words: one line each, as reports and `cargo sim show` print them.

use std::collections::BTreeMap;

use selvedge_core::value::Value;

use crate::event::{Actor, Argv, Event, Learned, What, arguments_of, function_of};

/// One line: when, which, who, what.
#[must_use]
pub fn line(event: &Event) -> String {
    format!(
        "{:>4}.{:03}s #{:<6} {:<12} {}",
        event.at_ms / 1_000,
        event.at_ms % 1_000,
        event.ordinal,
        event.actor.to_string(),
        what(event)
    )
}

/// What happened, without when and to whom.
#[must_use]
pub fn what(event: &Event) -> String {
    match &event.what {
        What::Sent { call, node, argv } => format!("sends {call} to node-{node}: {}", words(argv)),
        What::Applied(applied) => {
            let stray = if applied.stray { " on a branch that will be lost" } else { "" };
            let (call, argv) = (applied.call, words(&applied.argv));
            format!("applies {call}{stray}: {argv} -> {}", value(&applied.reply))
        }
        What::Delivered { call, learned } => format!("learns of {call}: {}", knowledge(learned)),
        What::Lost { call, applied } => {
            format!("never hears of {call}, {}", if *applied { "applied" } else { "not applied" })
        }
        What::Fault { fault, detail } => format!("FAULT {fault} {detail}"),
        What::Observed(fact) => format!("observes {fact:?}"),
        What::Invoked { call, function, .. } => format!("begins {function} ({call})"),
        What::Returned { call, learned } => format!("ends {call}: {}", knowledge(learned)),
        What::Started => "comes up".to_owned(),
        What::Died => "dies".to_owned(),
        What::Phase(phase) => format!("--- {phase:?} ---"),
        What::CommitsLost { node, first, last } => {
            format!("node-{node} loses commits {first} to {last}")
        }
        What::Note(note) => note.clone(),
    }
}

/// Whether an event is more than a look: reads and idle scans fill most of a trace.
#[must_use]
pub fn matters(event: &Event) -> bool {
    match &event.what {
        What::Sent { argv, .. } => !only_reads(argv),
        What::Applied(applied) => !applied.writes.is_empty(),
        What::Delivered { learned, .. } => !matches!(learned, Learned::Reply(_)),
        What::Observed(_) => false,
        What::Lost { .. }
        | What::Fault { .. }
        | What::Invoked { .. }
        | What::Returned { .. }
        | What::Started
        | What::Died
        | What::Phase(_)
        | What::CommitsLost { .. }
        | What::Note(_) => true,
    }
}

/// Whether an event speaks of this text: an id, a key or a part of one.
#[must_use]
pub fn mentions(event: &Event, text: &str) -> bool {
    let holds = |word: &Vec<u8>| String::from_utf8_lossy(word).contains(text);
    match &event.what {
        What::Sent { argv, .. } | What::Invoked { argv, .. } => argv.iter().any(holds),
        What::Applied(applied) => {
            applied.argv.iter().any(holds) || applied.writes.iter().flatten().any(holds)
        }
        What::Delivered { .. }
        | What::Lost { .. }
        | What::Fault { .. }
        | What::Observed(_)
        | What::Returned { .. }
        | What::Started
        | What::Died
        | What::Phase(_)
        | What::CommitsLost { .. }
        | What::Note(_) => what(event).contains(text),
    }
}

/// Whose lane an event belongs to.
#[must_use]
pub const fn lane(event: &Event) -> Actor {
    event.actor
}

fn only_reads(argv: &Argv) -> bool {
    match function_of(argv) {
        Some(name) => name == "ff_scan_partition" || name.starts_with("ff_read"),
        None => true,
    }
}

/// A command as people say it: the function and its arguments, the keys left out.
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
        Learned::NotApplied(why) => format!("surely not applied: {why}"),
        Learned::Perhaps(why) => format!("perhaps applied: {why}"),
    }
}

/// Whether a reply says that nothing was done: an error, or a refusal with its code.
#[must_use]
pub fn is_refusal(reply: &Value) -> bool {
    match reply {
        Value::Error(_) => true,
        Value::Array(words) => matches!(words.as_slice(), [Value::Int(0), Value::Bulk(_), ..]),
        Value::Nil | Value::Int(_) | Value::Bulk(_) | Value::Status(_) => false,
    }
}

/// A reply as people say it.
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

/// The text with the plan's name in front of every id that has one.
#[must_use]
pub fn named(text: &str, names: &BTreeMap<String, String>) -> String {
    let (mut said, mut from) = (String::with_capacity(text.len()), 0);
    for id in ids(text) {
        let start = id.as_ptr() as usize - text.as_ptr() as usize;
        // The id of an execution begins with its partition.
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

/// The uuids in a text: what events can be told by.
pub fn ids(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_hexdigit() || c == '-';
    text.split(move |c| !is_part(c)).filter(|word| word.len() == 36)
}

/// Longer words are cut.
const WORD_MAX: usize = 60;
/// Of more words only the first are said.
const WORDS_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "550e8400-e29b-41d4-a716-446655440000";

    #[test]
    fn ids_are_told_with_their_names() {
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
