//! Output of commands: tables for people, one JSON object per line for programs.

use std::io::{self, Write};
use std::time::{Duration, UNIX_EPOCH};

use comfy_table::{Table, presets};
use humantime::format_rfc3339_millis;
use serde_json::Value;

/// The output format.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    /// One JSON object per line.
    pub(crate) json: bool,
}

impl Output {
    /// Prints rows: each as an object whose members are named by the columns, or as a table.
    pub(crate) fn rows(self, columns: &[&str], rows: Vec<Vec<Value>>) -> io::Result<()> {
        let mut out = anstream::stdout().lock();
        if self.json {
            for row in rows {
                let object: serde_json::Map<String, Value> =
                    columns.iter().map(|name| name.replace(' ', "_")).zip(row).collect();
                writeln!(out, "{}", Value::Object(object))?;
            }
            return Ok(());
        }
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(columns.iter().map(|name| name.to_uppercase()));
        for row in rows {
            table.add_row(columns.iter().zip(&row).map(|(name, value)| display(name, value)));
        }
        for line in table.to_string().lines() {
            writeln!(out, "{}", line.trim())?;
        }
        Ok(())
    }

    /// Prints one thing: as an object, or as aligned lines of name and value.
    pub(crate) fn record(self, fields: Vec<(&str, Value)>) -> io::Result<()> {
        let mut out = anstream::stdout().lock();
        if self.json {
            let object: serde_json::Map<String, Value> =
                fields.into_iter().map(|(name, value)| (name.replace(' ', "_"), value)).collect();
            return writeln!(out, "{}", Value::Object(object));
        }
        let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
        for (name, value) in fields {
            let value = display(name, &value);
            if !value.is_empty() {
                writeln!(out, "{name:width$}  {value}")?;
            }
        }
        Ok(())
    }

    /// Prints a note to standard error, as a sentence or an object.
    pub(crate) fn note(self, sentence: &str, object: Value) {
        match self.json {
            true => anstream::eprintln!("{object}"),
            false => anstream::eprintln!("{sentence}"),
        }
    }

    /// Prints a sentence for people; programs get the object.
    pub(crate) fn message(self, sentence: &str, object: Value) -> io::Result<()> {
        let mut out = anstream::stdout().lock();
        if self.json { writeln!(out, "{object}") } else { writeln!(out, "{sentence}") }
    }
}

/// A named value as people read it: what happened `at` some millisecond is shown as a time.
fn display(name: &str, value: &Value) -> String {
    let time = value.as_u64().filter(|_| name.ends_with(" at")).and_then(as_time);
    time.unwrap_or_else(|| plain(value))
}

/// A sentence with its times as people read them. Times are in milliseconds since
/// 1970: thirteen digits, for some centuries, and no other number of a sentence has so many.
pub(crate) fn with_times(sentence: &str) -> String {
    with_times_as(sentence, as_time)
}

/// The same, with each time as `shown_as` writes it.
pub(crate) fn with_times_as(sentence: &str, shown_as: impl Fn(u64) -> Option<String>) -> String {
    let mut shown = String::new();
    let mut rest = sentence;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, from) = rest.split_at(start);
        let end = from.find(|c: char| !c.is_ascii_digit()).unwrap_or(from.len());
        let (digits, after) = from.split_at(end);
        let time = digits.parse().ok().filter(|_| digits.len() == 13).and_then(&shown_as);
        shown.push_str(before);
        shown.push_str(time.as_deref().unwrap_or(digits));
        rest = after;
    }
    shown.push_str(rest);
    shown
}

fn as_time(ms: u64) -> Option<String> {
    (ms < YEAR_10000_MS)
        .then(|| format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(ms)).to_string())
}

/// Text from the store, made safe for a terminal: control characters are escaped.
pub(crate) fn escape_control(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() {
            shown.extend(letter.escape_default());
        } else {
            shown.push(letter);
        }
    }
    shown
}

/// A value as text for people.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => escape_control(text),
        Value::Array(all) => all.iter().map(plain).collect::<Vec<_>>().join(", "),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
    }
}

/// Last time that the notation can express: the end of the year 9999.
const YEAR_10000_MS: u64 = 253_402_300_800_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(escape_control("it's \"né\"\u{1b}[2J\n"), "it's \"né\"\\u{1b}[2J\\n");
    }

    #[test]
    fn times_in_a_sentence_are_formatted_and_other_numbers_are_not() {
        assert_eq!(
            with_times(
                "{fp:12}:00000000-0000-4000-8000-123456789012 ran until 1700000000123, 3 of 4"
            ),
            "{fp:12}:00000000-0000-4000-8000-123456789012 ran until 2023-11-14T22:13:20.123Z, 3 of 4"
        );
        assert_eq!(with_times("1700000000000"), "2023-11-14T22:13:20.000Z");
        assert_eq!(with_times("for 17000000000000 of 99"), "for 17000000000000 of 99");
    }
}
