//! The parts of a line of a plan: its words, times, ordinals, and error messages.

use std::fmt;

/// An error in a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError {
    /// The line number, from 1.
    pub line: usize,
    /// The line itself.
    pub text: String,
    /// What is wrong.
    pub reason: String,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}\n  {}", self.line, self.reason, self.text)
    }
}

impl std::error::Error for PlanError {}

/// A hint at the name that may be meant: the most similar one.
#[must_use]
pub fn hint<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> String {
    let near = names.map(|name| (letters_between(word, name), name)).min();
    match near {
        Some((distance, name)) if distance <= 1 + word.len() / 4 => {
            format!("; did you mean `{name}`?")
        }
        _ => String::new(),
    }
}

/// The edit distance of two words.
fn letters_between(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.to_lowercase().chars().count()).collect();
    for (at, letter) in one.to_lowercase().chars().enumerate() {
        let mut corner = std::mem::replace(&mut row[0], at + 1);
        for (place, wanted) in (1..).zip(other.to_lowercase().chars()) {
            let changed = corner + usize::from(letter != wanted);
            let shifted = row[place].min(row[place - 1]) + 1;
            corner = std::mem::replace(&mut row[place], changed.min(shifted));
        }
    }
    row.last().copied().unwrap_or(0)
}

/// The words of a line.
pub(super) struct Tokens<'a> {
    tokens: Vec<&'a str>,
    at: usize,
}

impl<'a> Tokens<'a> {
    pub(super) fn of(line: &'a str) -> Self {
        Self { tokens: line.split_whitespace().collect(), at: 0 }
    }

    pub(super) fn peek(&self) -> Option<&'a str> {
        self.tokens.get(self.at).copied()
    }

    pub(super) fn next(&mut self) -> Option<&'a str> {
        let word = self.peek()?;
        self.at += 1;
        Some(word)
    }

    /// The next word; an error that names `what` if there is none.
    pub(super) fn want(&mut self, what: &str) -> Result<&'a str, String> {
        self.next().ok_or_else(|| format!("{what} is missing at the end of the line"))
    }

    /// Takes the next word if it is this one; returns whether it was.
    pub(super) fn take(&mut self, word: &str) -> bool {
        let found = self.peek() == Some(word);
        self.at += usize::from(found);
        found
    }

    pub(super) fn end(&self) -> Result<(), String> {
        self.peek().map_or(Ok(()), |word| Err(format!("`{word}` is unexpected")))
    }

    pub(super) fn rest(&mut self) -> &[&'a str] {
        let rest = &self.tokens[self.at..];
        self.at = self.tokens.len();
        rest
    }
}

/// Reads `350ms`, `41.2s`, `2m` or `1h` as milliseconds.
pub(super) fn read_ms(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a time: expected one like 350ms, 41.2s, 2m or 1h");
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(wrong()),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let number = |digits: &str| digits.parse::<u64>().map_err(|_| wrong());
    let whole = number(whole)?.checked_mul(unit).ok_or_else(wrong)?;
    if part.is_empty() {
        return Ok(whole);
    }
    let places = u32::try_from(part.len()).map_err(|_| wrong())?;
    let scale = 10_u64.checked_pow(places).ok_or_else(wrong)?;
    let part = number(part)?.checked_mul(unit).ok_or_else(wrong)?;
    if part % scale != 0 {
        return Err(format!("`{text}` is finer than a millisecond"));
    }
    whole.checked_add(part / scale).ok_or_else(wrong)
}

/// Writes milliseconds as [`read_ms`] reads them.
pub(super) fn show_ms(ms: u64) -> String {
    if ms < 1_000 && ms > 0 {
        return format!("{ms}ms");
    }
    let (whole, part) = (ms / 1_000, ms % 1_000);
    if part == 0 {
        return format!("{whole}s");
    }
    format!("{whole}.{}s", format!("{part:03}").trim_end_matches('0'))
}

/// Reads `3rd`, `1st`, `12th`, or a number without a suffix.
pub(super) fn read_ordinal(text: &str) -> Result<u32, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let nth = digits.parse().ok().filter(|nth| *nth > 0);
    nth.filter(|nth| text == digits || text == show_ordinal(*nth))
        .ok_or_else(|| format!("`{text}` is not an ordinal: expected one like 3rd"))
}

/// Writes an ordinal.
pub(super) fn show_ordinal(nth: u32) -> String {
    let ending = match (nth % 100, nth % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{nth}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_round_trip() {
        for ms in [0, 1, 350, 1_000, 1_050, 41_200, 3_600_000, 86_400_001] {
            assert_eq!(read_ms(&show_ms(ms)), Ok(ms), "{}", show_ms(ms));
        }
        assert_eq!(read_ms("2m"), Ok(120_000));
        assert_eq!(read_ms("1.5h"), Ok(5_400_000));
        for wrong in
            ["", "7", "s", "-1s", "1.2.3s", "1d", "99999999999999999999s", "18446744073709551.999s"]
        {
            assert!(read_ms(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_misspelt_name_gets_a_hint() {
        let names = || ["engines", "shards", "at"].into_iter();
        assert_eq!(hint("engine", names()), "; did you mean `engines`?");
        assert_eq!(hint("Shard", names()), "; did you mean `shards`?");
        assert_eq!(hint("nothing", names()), "");
        assert_eq!(hint("", names()), "");
        assert_eq!(hint("größe", ["große"].into_iter()), "; did you mean `große`?");
    }

    #[test]
    fn ordinals_round_trip() {
        for nth in [1, 2, 3, 4, 11, 12, 13, 21, 101, 111, 112] {
            assert_eq!(read_ordinal(&show_ordinal(nth)), Ok(nth));
        }
        for wrong in ["0th", "third", "3st", "11st", "2th"] {
            assert!(read_ordinal(wrong).is_err(), "{wrong}");
        }
    }
}
