//! Streams.

use super::options::{integer, is_word};
use super::{Env, Failure, Handled, bulk, count, read, wrote_if, wrote_instead};
use crate::host::keyspace::{Cutoff, Stream, StreamId};
use crate::host::number::parse_unsigned;
use selvedge_core::value::Value;

/// How many entries an approximate trim removes at most unless LIMIT says otherwise: a hundred
/// nodes' worth.
const TRIM_LIMIT: u64 = 10_000;

const INVALID_ID: Failure =
    Failure::text("ERR Invalid stream ID specified as stream command argument");
const NOT_BEHIND: Failure = Failure::text(
    "ERR The ID specified in XADD is equal or smaller than the target stream top item",
);

pub(super) fn xlen(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let length = env.read::<Stream>(&argv[1])?.map_or(0, Stream::len);
    read(Value::Int(i64::try_from(length).unwrap_or(i64::MAX)))
}

/// The words of XADD and XTRIM between the key and the rest.
#[derive(Default)]
struct TrimOptions {
    cutoff: Option<Cutoff>,
    approximate: bool,
    limit: Option<u64>,
    no_new_stream: bool,
}

impl TrimOptions {
    /// Reads one option off the front of the words. Answers false if there is none.
    fn take(&mut self, words: &mut &[Vec<u8>], adding: bool) -> Result<bool, Failure> {
        match words {
            [word, rest @ ..] if adding && is_word(word, "nomkstream") => {
                self.no_new_stream = true;
                *words = rest;
            }
            [word, number, rest @ ..] if is_word(word, "limit") => {
                let limit = u64::try_from(integer(number)?);
                let negative = Failure::text("ERR The LIMIT argument must be >= 0.");
                self.limit = Some(limit.map_err(|_| negative)?);
                *words = rest;
            }
            [word, _, ..] if is_word(word, "maxlen") || is_word(word, "minid") => {
                if self.cutoff.is_some() {
                    return Err(Failure::text(
                        "ERR syntax error, MAXLEN and MINID options at the same time are not \
                         compatible",
                    ));
                }
                let by_length = is_word(word, "maxlen");
                *words = &words[1..];
                if let [sign, _, ..] = words
                    && (sign == b"~" || sign == b"=")
                {
                    self.approximate = sign == b"~";
                    *words = &words[1..];
                }
                self.cutoff = Some(cutoff(by_length, &words[0])?);
                *words = &words[1..];
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn check(&self) -> Result<(), Failure> {
        if self.limit.is_some_and(|limit| limit > 0) && self.cutoff.is_none() {
            return Err(Failure::text(
                "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy",
            ));
        }
        if self.limit.is_some() && !self.approximate {
            return Err(Failure::text(
                "ERR syntax error, LIMIT cannot be used without the special ~ option",
            ));
        }
        Ok(())
    }

    fn trim(&self, stream: &mut Stream) -> u64 {
        let Some(cutoff) = self.cutoff else { return 0 };
        if !self.approximate {
            return stream.trim_exactly(cutoff);
        }
        // A limit of zero means none.
        stream.trim_nodes(cutoff, Some(self.limit.unwrap_or(TRIM_LIMIT)).filter(|max| *max > 0))
    }
}

fn cutoff(by_length: bool, text: &[u8]) -> Result<Cutoff, Failure> {
    if !by_length {
        return Ok(Cutoff::Id(strict_id(text, 0)?));
    }
    let negative = Failure::text("ERR The MAXLEN argument must be >= 0.");
    Ok(Cutoff::Length(u64::try_from(integer(text)?).map_err(|_| negative)?))
}

/// The id that XADD was given.
#[derive(Clone, Copy)]
enum WantedId {
    /// `*`
    Any,
    /// `ms-*`
    Within(u64),
    Exactly(StreamId),
}

impl WantedId {
    fn parse(text: &[u8]) -> Result<Self, Failure> {
        if text == b"*" {
            return Ok(Self::Any);
        }
        match text.strip_suffix(b"-*") {
            Some(ms) => Ok(Self::Within(parse_unsigned(ms).ok_or(INVALID_ID)?)),
            None => Ok(Self::Exactly(strict_id(text, 0)?)),
        }
    }

    /// The id for the next entry behind `last`.
    fn behind(self, last: StreamId, now_ms: i64) -> Result<StreamId, Failure> {
        let exhausted = Failure::text(
            "ERR The stream has exhausted the last possible ID, unable to add more items",
        );
        let next = last.next().ok_or(exhausted)?;
        let chosen = match self {
            Self::Any => {
                let ms = u64::try_from(now_ms).unwrap_or(0);
                if ms > last.ms { StreamId { ms, seq: 0 } } else { next }
            }
            Self::Within(ms) if ms == last.ms => {
                Some(next).filter(|id| id.ms == ms).ok_or(NOT_BEHIND)?
            }
            Self::Within(ms) => StreamId { ms, seq: 0 },
            Self::Exactly(id) => id,
        };
        if chosen > last { Ok(chosen) } else { Err(NOT_BEHIND) }
    }
}

pub(super) fn xadd(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let mut options = TrimOptions::default();
    let mut words = &argv[2..];
    while options.take(&mut words, true)? {}
    let [id, fields @ ..] = words else {
        return Err(Failure::arity("xadd"));
    };
    let id_place = argv.len() - words.len();
    let wanted = WantedId::parse(id)?;
    options.check()?;
    if fields.is_empty() || !fields.len().is_multiple_of(2) {
        return Err(Failure::arity("xadd"));
    }
    if matches!(wanted, WantedId::Exactly(StreamId::MIN)) {
        return Err(Failure::text("ERR The ID specified in XADD must be greater than 0-0"));
    }
    let now_ms = env.now_ms();
    let stream = env.read::<Stream>(&argv[1])?;
    if stream.is_none() && options.no_new_stream {
        return read(Value::Nil);
    }
    let last = stream.map_or(StreamId::MIN, Stream::last_id);
    let id = wanted.behind(last, now_ms)?.to_string().into_bytes();
    let stream = env.edit_or_new::<Stream>(&argv[1])?;
    stream.append(wanted.behind(last, now_ms)?, fields.to_vec());
    options.trim(stream);
    let mut spelled = argv.to_vec();
    spelled[id_place].clone_from(&id);
    wrote_instead(vec![spelled], Value::Bulk(id))
}

pub(super) fn xtrim(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let mut options = TrimOptions::default();
    let mut words = &argv[2..];
    while options.take(&mut words, false)? {}
    if !words.is_empty() {
        return Err(Failure::SYNTAX);
    }
    options.check()?;
    let Some(stream) = env.edit::<Stream>(&argv[1])? else {
        return read(count(0));
    };
    let removed = options.trim(stream);
    wrote_if(removed > 0, Value::Int(i64::try_from(removed).unwrap_or(i64::MAX)))
}

pub(super) fn xdel(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    if env.read::<Stream>(&argv[1])?.is_none() {
        return read(count(0));
    }
    let ids = argv[2..].iter().map(|text| strict_id(text, 0)).collect::<Result<Vec<_>, _>>()?;
    let Some(stream) = env.edit::<Stream>(&argv[1])? else {
        return read(count(0));
    };
    let removed = ids.into_iter().filter(|id| stream.remove(*id)).count();
    wrote_if(removed > 0, count(removed))
}

pub(super) fn xrange(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    answer_range(env, argv, &argv[2], &argv[3], false)
}

pub(super) fn xrevrange(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    answer_range(env, argv, &argv[3], &argv[2], true)
}

fn answer_range(
    env: &Env<'_>,
    argv: &[Vec<u8>],
    start: &[u8],
    end: &[u8],
    reversed: bool,
) -> Handled {
    let outside = |text| Failure::text(text);
    let start = match interval_id(start, 0)? {
        (id, false) => id,
        (id, true) => id.next().ok_or(outside("ERR invalid start ID for the interval"))?,
    };
    let end = match interval_id(end, u64::MAX)? {
        (id, false) => id,
        (id, true) => id.previous().ok_or(outside("ERR invalid end ID for the interval"))?,
    };
    let mut number = usize::MAX;
    let mut words = &argv[4..];
    while let [word, rest @ ..] = words {
        let ([amount, rest @ ..], true) = (rest, is_word(word, "count")) else {
            return Err(Failure::SYNTAX);
        };
        number = usize::try_from(integer(amount)?).unwrap_or(0);
        words = rest;
    }
    let Some(stream) = env.read::<Stream>(&argv[1])? else {
        return read(Value::Array(Vec::new()));
    };
    if number == 0 {
        return read(Value::Nil);
    }
    let entries = stream.range(start, end);
    let replies = if reversed {
        entries.rev().take(number).map(entry_reply).collect()
    } else {
        entries.take(number).map(entry_reply).collect()
    };
    read(Value::Array(replies))
}

fn entry_reply((id, fields): (StreamId, &[Vec<u8>])) -> Value {
    let fields = fields.iter().map(|part| bulk(part)).collect();
    Value::Array(vec![Value::Bulk(id.to_string().into_bytes()), Value::Array(fields)])
}

/// XREAD that never waits, as inside a script.
pub(super) fn xread(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let mut number = usize::MAX;
    let mut words = &argv[1..];
    let streams = loop {
        match words {
            [word, streams @ ..] if is_word(word, "streams") && !streams.is_empty() => {
                break streams;
            }
            [word, amount, rest @ ..] if is_word(word, "count") => {
                let amount = usize::try_from(integer(amount)?).unwrap_or(0);
                number = if amount == 0 { usize::MAX } else { amount };
                words = rest;
            }
            [word, wait, rest @ ..] if is_word(word, "block") => {
                check_wait(wait)?;
                words = rest;
            }
            _ => return Err(Failure::SYNTAX),
        }
    };
    if !streams.len().is_multiple_of(2) {
        return Err(Failure::text(
            "ERR Unbalanced 'xread' list of streams: for each stream key an ID or '$' must be \
             specified.",
        ));
    }
    let (keys, ids) = streams.split_at(streams.len() / 2);
    let mut starts = Vec::with_capacity(keys.len());
    for (key, id) in keys.iter().zip(ids) {
        starts.push(read_start(env.read::<Stream>(key)?, id)?);
    }
    let mut replies = Vec::new();
    for (key, start) in keys.iter().zip(starts) {
        let (Some(stream), Some(start)) = (env.read::<Stream>(key)?, start) else { continue };
        let entries: Vec<_> =
            stream.range(start, StreamId::MAX).take(number).map(entry_reply).collect();
        if !entries.is_empty() {
            replies.push(Value::Array(vec![bulk(key), Value::Array(entries)]));
        }
    }
    read(if replies.is_empty() { Value::Nil } else { Value::Array(replies) })
}

fn check_wait(wait: &[u8]) -> Result<(), Failure> {
    let unreadable = Failure::text("ERR timeout is not an integer or out of range");
    let wait_ms = integer(wait).map_err(|_| unreadable)?;
    if wait_ms < 0 { Err(Failure::text("ERR timeout is negative")) } else { Ok(()) }
}

/// The first id to read: the one behind the given, or nothing if there can be none.
fn read_start(stream: Option<&Stream>, id: &[u8]) -> Result<Option<StreamId>, Failure> {
    match id {
        b"$" => Ok(stream.and_then(|stream| stream.last_id().next())),
        // The entry that was added last, and nothing once it is deleted.
        b"+" => Ok(stream.map(Stream::last_id)),
        b">" => Err(Failure::text(
            "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> \
             <consumer> option.",
        )),
        _ => Ok(strict_id(id, 0)?.next()),
    }
}

/// Reads an id in full or without its running number.
fn strict_id(text: &[u8], seq_missing: u64) -> Result<StreamId, Failure> {
    if text.len() > 127 {
        return Err(INVALID_ID);
    }
    let parsed = match text.iter().position(|byte| *byte == b'-') {
        None => parse_unsigned(text).map(|ms| StreamId { ms, seq: seq_missing }),
        Some(dash) => parse_unsigned(&text[..dash])
            .zip(parse_unsigned(&text[dash + 1..]))
            .map(|(ms, seq)| StreamId { ms, seq }),
    };
    parsed.ok_or(INVALID_ID)
}

/// Reads one end of an interval and whether it is left out.
fn interval_id(text: &[u8], seq_missing: u64) -> Result<(StreamId, bool), Failure> {
    match text {
        b"-" => Ok((StreamId::MIN, false)),
        b"+" => Ok((StreamId::MAX, false)),
        [b'(', id @ ..] => Ok((strict_id(id, seq_missing)?, true)),
        _ => Ok((strict_id(text, seq_missing)?, false)),
    }
}
