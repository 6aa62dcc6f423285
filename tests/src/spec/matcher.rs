//! Compares replies and values with patterns.

use selvedge_core::value::Value;

use crate::spec::scope::Scope;
use crate::spec::syntax::{Pairs, Pattern};

/// Judges values within one act.
#[derive(Debug)]
pub struct Matcher<'s, 'a> {
    /// The names of the case; `~keep` adds to them.
    pub scope: &'s mut Scope<'a>,
    /// The server's clock, in milliseconds, right before and right after the act.
    pub window: (i64, i64),
}

impl Matcher<'_, '_> {
    /// The reply element fits the pattern. An error means that the spec itself is wrong.
    pub fn fits(&mut self, pattern: &Pattern, value: &Value) -> Result<bool, String> {
        Ok(match (pattern, value) {
            (Pattern::Any | Pattern::Rest, _) | (Pattern::Nil, Value::Nil) => true,
            (Pattern::Integer(wanted), Value::Int(got)) => wanted == got,
            (Pattern::Boolean(wanted), Value::Status(got)) => wanted.to_string() == *got,
            (Pattern::Status(wanted), Value::Status(got)) => {
                self.scope.value(wanted)? == got.as_bytes()
            }
            (Pattern::Text(wanted), Value::Bulk(got)) => self.scope.value(wanted)? == *got,
            (Pattern::Starts(wanted), Value::Bulk(got)) => {
                got.starts_with(&self.scope.value(wanted)?)
            }
            (Pattern::Now { from, to }, Value::Bulk(got)) => {
                let (before, after) = self.window;
                integer(got).is_some_and(|at| before + from <= at && at <= after + to)
            }
            (Pattern::Digits, Value::Bulk(got)) => integer(got).is_some(),
            (Pattern::NonEmpty, Value::Bulk(got)) => !got.is_empty(),
            (Pattern::Uuid, Value::Bulk(got)) => is_uuid(got),
            (Pattern::Keep(name), Value::Bulk(got)) => {
                self.scope.set(name, got.clone());
                true
            }
            (Pattern::Json(members), Value::Bulk(got)) => self.json_fits(members, got)?,
            (Pattern::Array(patterns), Value::Array(values)) => {
                self.sequence_fits(patterns, values)?
            }
            (Pattern::AnyOrder(patterns), Value::Array(values)) => {
                self.unordered_fits(patterns, values)?
            }
            _ => false,
        })
    }

    /// The text fits the pattern.
    pub fn text_fits(&mut self, pattern: &Pattern, text: &[u8]) -> Result<bool, String> {
        self.fits(pattern, &Value::Bulk(text.to_vec()))
    }

    /// The score fits: as a number where a plain value is wanted.
    pub fn score_fits(&mut self, pattern: &Pattern, score: &[u8]) -> Result<bool, String> {
        if let Pattern::Text(wanted) = pattern {
            return Ok(float(&self.scope.value(wanted)?)? == float(score)?);
        }
        self.text_fits(pattern, score)
    }

    /// The values are exactly those of the patterns, in order; `...` stands for any number.
    pub fn sequence_fits(
        &mut self,
        patterns: &[Pattern],
        values: &[Value],
    ) -> Result<bool, String> {
        let Some((first, patterns)) = patterns.split_first() else { return Ok(values.is_empty()) };
        if matches!(first, Pattern::Rest) {
            for skipped in 0..=values.len() {
                if self.sequence_fits(patterns, &values[skipped..])? {
                    return Ok(true);
                }
            }
            return Ok(false);
        }
        let Some((value, values)) = values.split_first() else { return Ok(false) };
        Ok(self.fits(first, value)? && self.sequence_fits(patterns, values)?)
    }

    /// The values are exactly those of the patterns in any order: each pattern takes the first
    /// value that fits and is not taken yet, so put the narrow patterns first.
    pub fn unordered_fits(
        &mut self,
        patterns: &[Pattern],
        values: &[Value],
    ) -> Result<bool, String> {
        let mut left: Vec<&Value> = values.iter().collect();
        for pattern in patterns {
            let mut taken = None;
            for (index, value) in left.iter().enumerate() {
                if self.fits(pattern, value)? {
                    taken = Some(index);
                    break;
                }
            }
            let Some(index) = taken else { return Ok(false) };
            left.swap_remove(index);
        }
        Ok(left.is_empty())
    }

    fn json_fits(&mut self, members: &Pairs, text: &[u8]) -> Result<bool, String> {
        let Ok(serde_json::Value::Object(object)) = serde_json::from_slice(text) else {
            return Ok(false);
        };
        for (name, pattern) in members {
            let name = String::from_utf8_lossy(&self.scope.value(name)?).into_owned();
            match object.get(&name) {
                Some(value) if self.fits(pattern, &from_json(value))? => {}
                Some(_) | None => return Ok(false),
            }
        }
        Ok(object.len() == members.len())
    }
}

/// JSON in the shapes of a reply: an object stays text for `~json`, a boolean becomes a status.
fn from_json(value: &serde_json::Value) -> Value {
    match value {
        serde_json::Value::Null => Value::Nil,
        serde_json::Value::Bool(flag) => Value::Status(flag.to_string()),
        serde_json::Value::Number(number) => {
            number.as_i64().map_or_else(|| Value::Status(number.to_string()), Value::Int)
        }
        serde_json::Value::String(text) => Value::Bulk(text.clone().into_bytes()),
        serde_json::Value::Array(elements) => {
            Value::Array(elements.iter().map(from_json).collect())
        }
        object @ serde_json::Value::Object(_) => Value::Bulk(object.to_string().into_bytes()),
    }
}

fn integer(text: &[u8]) -> Option<i64> {
    str::from_utf8(text).ok()?.parse().ok()
}

fn float(text: &[u8]) -> Result<f64, String> {
    let text = String::from_utf8_lossy(text);
    text.parse().map_err(|_| format!("{text} is no score"))
}

fn is_uuid(text: &[u8]) -> bool {
    text.len() == 36
        && text.iter().enumerate().all(|(at, sign)| match at {
            8 | 13 | 18 | 23 => *sign == b'-',
            _ => sign.is_ascii_hexdigit(),
        })
}
