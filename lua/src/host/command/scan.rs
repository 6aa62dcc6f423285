//! Patterns, and walking large collections in pages.
//!
//! A cursor is a place in the order of the elements' hashes. That order does not move when
//! elements come and go, so whatever is there from the first page to the last is seen.

use super::options::{integer, is_word};
use super::{Env, Failure, Handled, bulk, read};
use crate::host::number::parse_unsigned;
use selvedge_core::value::Value;

/// A collection no larger than this is answered in one page, as the server answers those that
/// it stores compactly.
const ONE_PAGE_MAX: usize = 128;

/// How many elements a page has unless COUNT says otherwise.
const PAGE_LEN: usize = 10;

/// The options of a scan.
pub(super) struct ScanOptions {
    pattern: Option<Vec<u8>>,
    count: usize,
    /// For SCAN: only keys of this type.
    type_name: Option<String>,
    /// For HSCAN and ZSCAN: leave out the values or scores.
    pub(super) bare: bool,
}

impl ScanOptions {
    /// Reads the options. `bare` is the word that leaves out values, where there is one, and
    /// `typed` tells whether keys of one type may be asked for.
    pub(super) fn parse(
        words: &[Vec<u8>],
        bare: Option<&str>,
        typed: bool,
    ) -> Result<Self, Failure> {
        let mut options = Self { pattern: None, count: PAGE_LEN, type_name: None, bare: false };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if bare.is_some_and(|bare| is_word(word, bare)) {
                options.bare = true;
                continue;
            }
            let argument = words.next().ok_or(Failure::SYNTAX)?;
            if is_word(word, "count") {
                let count = usize::try_from(integer(argument)?).ok().filter(|count| *count > 0);
                options.count = count.ok_or(Failure::SYNTAX)?;
            } else if is_word(word, "match") {
                options.pattern = Some(argument.clone());
            } else if is_word(word, "type") && typed {
                options.type_name = Some(type_name(argument)?);
            } else {
                return Err(Failure::SYNTAX);
            }
        }
        Ok(options)
    }

    fn matches(&self, name: &[u8]) -> bool {
        self.pattern.as_ref().is_none_or(|pattern| glob(pattern, name))
    }
}

fn type_name(argument: &[u8]) -> Result<String, Failure> {
    let name = String::from_utf8_lossy(argument).to_ascii_lowercase();
    let known = ["string", "list", "set", "zset", "hash", "stream"];
    if known.contains(&name.as_str()) {
        return Ok(name);
    }
    let name = String::from_utf8_lossy(argument);
    Err(Failure::owned(format!("ERR unknown type name '{name}'")))
}

/// Reads a cursor: any unsigned number, as lenient as the server is.
pub(super) fn cursor(argument: &[u8]) -> Result<u64, Failure> {
    // Minus signs are refused here, though not by every reader of numbers.
    let unsigned = Some(argument).filter(|text| !text.contains(&b'-'));
    unsigned.and_then(parse_unsigned).ok_or(Failure::text("ERR invalid cursor"))
}

/// Answers one page of a collection's elements, each given by its name and what to reply for it.
pub(super) fn answer_page<'a, T>(
    elements: impl ExactSizeIterator<Item = (&'a [u8], T)>,
    cursor: u64,
    options: &ScanOptions,
    reply: impl Fn(&'a [u8], T) -> Vec<Value>,
) -> Handled {
    let one_page = cursor == 0 && elements.len() <= ONE_PAGE_MAX;
    let (next, page) =
        if one_page { (0, elements.collect()) } else { cut_page(elements, cursor, options.count) };
    let matching = page.into_iter().filter(|(name, _)| options.matches(name));
    let replies = matching.flat_map(|(name, rest)| reply(name, rest)).collect();
    read(Value::Array(vec![bulk(next.to_string().as_bytes()), Value::Array(replies)]))
}

/// Answers one page of a set as a server may whose table is changing its size: it begins anywhere,
/// and one page in four tells again of a member that an earlier one told of.
pub(super) fn answer_unruly_page<'a>(
    members: impl Iterator<Item = (&'a [u8], ())> + Clone,
    cursor: u64,
    options: &ScanOptions,
    drawn: u64,
) -> Handled {
    let (next, mut page) = cut_page(members.clone(), cursor, options.count);
    if !page.is_empty() {
        let turn = (drawn >> 8) as usize % page.len();
        page.rotate_left(turn);
    }
    if drawn.is_multiple_of(4) {
        page.extend(members.filter(|(name, ())| place(name) < cursor).take(1));
    }
    let matching = page.into_iter().filter(|(name, ())| options.matches(name));
    let replies = matching.map(|(name, ())| bulk(name)).collect();
    read(Value::Array(vec![bulk(next.to_string().as_bytes()), Value::Array(replies)]))
}

/// SCAN over the keys themselves.
pub(super) fn scan(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let cursor = cursor(&argv[1])?;
    let options = ScanOptions::parse(&argv[2..], None, true)?;
    let keys = env.keyspace.sorted(env.now_ms()).map(|(key, entry)| (&key[..], entry));
    let (next, page) = cut_page(keys, cursor, options.count);
    let wanted = page.into_iter().filter(|(key, entry)| {
        let type_fits =
            options.type_name.as_ref().is_none_or(|name| entry.data.type_name() == name);
        type_fits && options.matches(key)
    });
    let keys = Value::Array(wanted.map(|(key, _)| bulk(key)).collect());
    read(Value::Array(vec![bulk(next.to_string().as_bytes()), keys]))
}

/// The elements from the cursor on, about `count` of them, and the cursor of the next page.
fn cut_page<'a, T>(
    elements: impl Iterator<Item = (&'a [u8], T)>,
    cursor: u64,
    count: usize,
) -> (u64, Vec<(&'a [u8], T)>) {
    let placed = elements.map(|(name, rest)| (place(name), name, rest));
    let mut left: Vec<_> = placed.filter(|(place, _, _)| *place >= cursor).collect();
    let mut next = 0;
    if count < left.len() {
        // Elements of one place share a page, so that a cursor can stand between any two pages.
        let (_, last, rest) = left.select_nth_unstable_by_key(count - 1, |(place, _, _)| *place);
        let last_place = last.0;
        let later = rest.iter().map(|(place, _, _)| *place).filter(|place| *place > last_place);
        next = later.min().unwrap_or(0);
        left.retain(|(place, _, _)| *place <= last_place);
    }
    left.sort_unstable_by_key(|(place, name, _)| (*place, *name));
    (next, left.into_iter().map(|(_, name, rest)| (name, rest)).collect())
}

/// An element's place in the walk: its FNV-1a hash, never zero, for zero is where a walk begins
/// and ends.
fn place(name: &[u8]) -> u64 {
    let hash = name.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    hash.max(1)
}

/// Whether the text fits the pattern: `*`, `?`, `[a-z]`, `[^a]`, and `\` before a literal byte.
pub(crate) fn glob(pattern: &[u8], text: &[u8]) -> bool {
    // Where to go on if the text since the last star does not fit: one byte further.
    let mut retry: Option<(&[u8], &[u8])> = None;
    let (mut pattern_left, mut text_left) = (pattern, text);
    loop {
        let step = match (pattern_left, text_left) {
            ([], []) => return true,
            ([b'*', rest @ ..], _) => {
                retry = Some((rest, text_left));
                pattern_left = rest;
                continue;
            }
            (_, [byte, ..]) => match_one(pattern_left, *byte),
            (_, []) => None,
        };
        match (step, &mut retry) {
            (Some(rest), _) => {
                pattern_left = rest;
                text_left = &text_left[1..];
            }
            (None, Some((after_star, [_, further @ ..]))) => {
                pattern_left = after_star;
                text_left = further;
                retry = Some((pattern_left, text_left));
            }
            (None, Some((_, [])) | None) => return false,
        }
    }
}

/// Matches one byte against the head of the pattern and answers the rest of the pattern.
fn match_one(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    match pattern {
        [] => None,
        [b'?', rest @ ..] => Some(rest),
        [b'[', rest @ ..] => match_class(rest, byte),
        [b'\\', literal, rest @ ..] => (*literal == byte).then_some(rest),
        [literal, rest @ ..] => (*literal == byte).then_some(rest),
    }
}

/// Matches one byte against a class whose bracket is open. A class never closed ends with the
/// pattern.
fn match_class(class: &[u8], byte: u8) -> Option<&[u8]> {
    let (negated, mut left) = match class {
        [b'^', rest @ ..] => (true, rest),
        _ => (false, class),
    };
    let mut hit = false;
    loop {
        left = match left {
            [] => break,
            [b']', rest @ ..] => {
                left = rest;
                break;
            }
            [b'\\', literal, rest @ ..] => {
                hit |= *literal == byte;
                rest
            }
            [low, b'-', high, rest @ ..] => {
                hit |= (*low.min(high)..=*low.max(high)).contains(&byte);
                rest
            }
            [literal, rest @ ..] => {
                hit |= *literal == byte;
                rest
            }
        };
    }
    (hit != negated).then_some(left)
}

#[cfg(test)]
mod tests {
    use super::glob;

    #[test]
    fn patterns_match_as_on_the_server() {
        let fits = |pattern: &str, text: &str| glob(pattern.as_bytes(), text.as_bytes());
        assert!(fits("*", ""));
        assert!(fits("a*c", "abbbc"));
        assert!(!fits("a*c", "abbb"));
        assert!(fits("*a*b*", "xxaxxbxx"));
        assert!(fits("h?llo", "hello"));
        assert!(!fits("h?llo", "hllo"));
        assert!(fits("h[ae]llo", "hallo"));
        assert!(fits("h[^e]llo", "hallo"));
        assert!(!fits("h[^e]llo", "hello"));
        assert!(fits("h[z-a]llo", "hmllo"));
        assert!(fits(r"a\*b", "a*b"));
        assert!(!fits(r"a\*b", "axb"));
        assert!(fits("[a", "a"));
        assert!(!fits("", "a"));
    }
}
