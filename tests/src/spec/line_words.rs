//! [`Words`]: the words of a line, read one after the other into patterns.

use crate::spec::syntax::{Pairs, Pattern};
use crate::spec::word::{self, Word};

/// The words of one line that are not read yet.
pub(super) struct Words {
    rest: std::vec::IntoIter<Word>,
}

impl Words {
    pub(super) fn of(line: &str) -> Result<Self, String> {
        Ok(Self { rest: word::split(line)?.into_iter() })
    }

    pub(super) fn next(&mut self) -> Option<Word> {
        self.rest.next()
    }

    pub(super) fn peek(&self) -> Option<&str> {
        self.rest.as_slice().first().and_then(Word::bare)
    }

    pub(super) fn word(&mut self) -> Result<Word, String> {
        self.next().ok_or_else(|| "the line ends too early".to_owned())
    }

    pub(super) fn name(&mut self) -> Result<String, String> {
        self.word()?.bare().map(str::to_owned).ok_or_else(|| "a name is plain text".to_owned())
    }

    pub(super) fn sentence(&mut self) -> Result<String, String> {
        let words: Option<Vec<_>> =
            self.rest().iter().map(|word| word.bare().map(str::to_owned)).collect();
        Ok(words.ok_or("a setup's name is plain words")?.join(" "))
    }

    pub(super) fn rest(&mut self) -> Vec<Word> {
        self.rest.by_ref().collect()
    }

    pub(super) fn end(&mut self) -> Result<(), String> {
        match self.next() {
            None => Ok(()),
            Some(word) => Err(format!("more than belongs here, from {word:?}")),
        }
    }

    pub(super) fn until_keyword(&mut self) -> Vec<Word> {
        let mut words = Vec::new();
        while !matches!(self.peek(), Some("omit" | "extra" | "extra-keys")) {
            let Some(word) = self.next() else { break };
            words.push(word);
        }
        words
    }

    pub(super) fn names_until_keyword(&mut self) -> Result<Vec<String>, String> {
        let names: Option<Vec<_>> =
            self.until_keyword().iter().map(|word| word.bare().map(str::to_owned)).collect();
        names.ok_or_else(|| "a position has a plain name".to_owned())
    }

    pub(super) fn pattern(&mut self) -> Result<Pattern, String> {
        let word = self.word()?;
        self.pattern_from(word)
    }

    /// Patterns up to the end, or to the closing parenthesis, which stays.
    pub(super) fn patterns(&mut self) -> Result<Vec<Pattern>, String> {
        let mut patterns = Vec::new();
        while !matches!(self.peek(), Some(")")) {
            let Some(word) = self.next() else { break };
            patterns.push(self.pattern_from(word)?);
        }
        Ok(patterns)
    }

    pub(super) fn pairs(&mut self) -> Result<Pairs, String> {
        let complete = |(name, pattern): (Word, Option<Pattern>)| match pattern {
            Some(pattern) => Ok((name, pattern)),
            None => Err(format!("{name:?} needs =value")),
        };
        self.members()?.into_iter().map(complete).collect()
    }

    /// `name` or `name=pattern`, up to the end or to the closing parenthesis, which stays.
    pub(super) fn members(&mut self) -> Result<Vec<(Word, Option<Pattern>)>, String> {
        let mut members = Vec::new();
        while !matches!(self.peek(), Some(")")) {
            let Some(word) = self.next() else { break };
            members.push(match word.split_pair() {
                // `name=( … )`: the parenthesis is a word of its own, and begins an array.
                Some((name, value)) if value.pieces().is_empty() && self.peek() == Some("(") => {
                    (name, Some(self.pattern()?))
                }
                Some((name, value)) => (name, Some(self.pattern_from(value)?)),
                None => (word, None),
            });
        }
        Ok(members)
    }

    pub(super) fn groups(&mut self) -> Result<Vec<Pairs>, String> {
        let mut groups = Vec::new();
        while self.peek().is_some() {
            groups.push(self.group(Self::pairs)?);
        }
        Ok(groups)
    }

    pub(super) fn group<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<T, String> {
        self.expect("(")?;
        let content = read(self)?;
        self.expect(")")?;
        Ok(content)
    }

    pub(super) fn expect(&mut self, sign: &str) -> Result<(), String> {
        match self.next() {
            Some(word) if word.bare() == Some(sign) => Ok(()),
            _ => Err(format!("a {sign} is missing")),
        }
    }

    pub(super) fn pattern_from(&mut self, word: Word) -> Result<Pattern, String> {
        for (prefix, pattern) in PREFIXED {
            if let Some(rest) = word.after_prefix(prefix) {
                return pattern(rest);
            }
        }
        let Some(bare) = word.bare() else { return Ok(Pattern::Text(word)) };
        Ok(match bare {
            "*" => Pattern::Any,
            "..." => Pattern::Rest,
            "~nil" => Pattern::Nil,
            "~true" => Pattern::Boolean(true),
            "~false" => Pattern::Boolean(false),
            "~integer" => Pattern::Digits,
            "~uuid" => Pattern::Uuid,
            "~text" => Pattern::NonEmpty,
            "~any-order" => Pattern::AnyOrder(self.group(Self::patterns)?),
            "~json" => Pattern::Json(self.group(Self::pairs)?),
            "(" => {
                let inner = self.patterns()?;
                self.expect(")")?;
                Pattern::Array(inner)
            }
            ")" => return Err("a ( is missing".to_owned()),
            unknown if unknown.starts_with('~') => {
                return Err(format!("{unknown} is no pattern; quote it if it is text"));
            }
            colon if colon.starts_with(':') && colon.len() > 1 => {
                Pattern::Integer(colon[1..].parse().map_err(|_| "a : stands before an integer")?)
            }
            _ => Pattern::Text(word),
        })
    }
}

type Build = fn(Word) -> Result<Pattern, String>;

const PREFIXED: [(&str, Build); 4] = [
    ("~starts:", |rest| Ok(Pattern::Starts(rest))),
    ("~status:", |rest| Ok(Pattern::Status(rest))),
    ("~keep:", |rest| {
        rest.bare().map(|name| Pattern::Keep(name.to_owned())).ok_or("a plain name".to_owned())
    }),
    ("~now", now_pattern),
];

fn now_pattern(offset: Word) -> Result<Pattern, String> {
    let text = offset.bare().ok_or("~now takes a plain offset")?;
    if text.is_empty() {
        return Ok(Pattern::Now { from: 0, to: 0 });
    }
    if !text.starts_with(['+', '-']) {
        return Err("~now takes +offset or -offset".to_owned());
    }
    let (from, to) = text.split_once("..").unwrap_or((text, text));
    let number = |text: &str| text.parse().map_err(|_| format!("{text} is no offset"));
    Ok(Pattern::Now { from: number(from)?, to: number(to)? })
}
