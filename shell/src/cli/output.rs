//! What a command prints: a table for people, one JSON object per line for programs.

use std::io::{self, Write};
use std::time::{Duration, UNIX_EPOCH};

use comfy_table::{Table, presets};
use humantime::format_rfc3339_millis;
use serde_json::Value;

/// How to print.
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
            table.add_row(columns.iter().zip(&row).map(|(name, value)| told(name, value)));
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
            let value = told(name, &value);
            if !value.is_empty() {
                writeln!(out, "{name:width$}  {value}")?;
            }
        }
        Ok(())
    }

    /// Prints a sentence for people; programs get the object.
    pub(crate) fn say(self, sentence: &str, object: Value) -> io::Result<()> {
        let mut out = anstream::stdout().lock();
        if self.json { writeln!(out, "{object}") } else { writeln!(out, "{sentence}") }
    }
}

/// A named value as people read it: what happened `at` some millisecond is told as a time.
fn told(name: &str, value: &Value) -> String {
    match value.as_u64() {
        Some(ms) if name.ends_with(" at") && ms < YEAR_10000_MS => {
            format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(ms)).to_string()
        }
        Some(_) | None => plain(value),
    }
}

/// A value as people read it.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.escape_default().to_string(),
        Value::Array(all) => all.iter().map(plain).collect::<Vec<_>>().join(", "),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
    }
}

/// The notation of times ends with the year 9999.
const YEAR_10000_MS: u64 = 253_402_300_800_000;
