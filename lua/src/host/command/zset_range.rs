//! Ranges of sorted sets: by rank, by score and by member, forward and back.

use super::options::{integer, is_word};
use super::zset::score_reply;
use super::{Env, Failure, Handled, bulk, count, read, wrote_if};
use crate::host::keyspace::{LexBound, LexRange, ScoreRange, Zset};
use selvedge_core::value::Value;

/// Which members.
enum Selection {
    /// From one rank to another, negative from the end.
    Ranks(i64, i64),
    Scores(ScoreRange),
    Members(LexRange),
}

/// How a range is asked for and answered.
#[derive(Default)]
struct RangeOptions {
    by_score: bool,
    by_lex: bool,
    reversed: bool,
    with_scores: bool,
    /// Skip so many, then answer so many at most; a negative number means all, a negative skip
    /// means none.
    limit: Option<(i64, i64)>,
}

pub(super) fn zrange(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let options = RangeOptions::parse(&argv[4..], RangeOptions::default(), true)?;
    answer_range(env, argv, options)
}

pub(super) fn zrevrange(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let preset = RangeOptions { reversed: true, ..RangeOptions::default() };
    answer_range(env, argv, RangeOptions::parse(&argv[4..], preset, false)?)
}

pub(super) fn zrangebyscore(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let preset = RangeOptions { by_score: true, ..RangeOptions::default() };
    answer_range(env, argv, RangeOptions::parse(&argv[4..], preset, false)?)
}

pub(super) fn zrevrangebyscore(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let preset = RangeOptions { by_score: true, reversed: true, ..RangeOptions::default() };
    answer_range(env, argv, RangeOptions::parse(&argv[4..], preset, false)?)
}

pub(super) fn zcount(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let range = score_range(&argv[2], &argv[3])?;
    read(count(env.read::<Zset>(&argv[1])?.map_or(0, |zset| zset.by_score(range).count())))
}

pub(super) fn zremrangebyscore(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let range = score_range(&argv[2], &argv[3])?;
    remove_selected(env, &argv[1], &Selection::Scores(range))
}

pub(super) fn zremrangebyrank(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let ranks = Selection::Ranks(integer(&argv[2])?, integer(&argv[3])?);
    remove_selected(env, &argv[1], &ranks)
}

impl RangeOptions {
    /// Reads the options over those that the command's name already says. Only ZRANGE itself may
    /// choose what it ranges over.
    fn parse(words: &[Vec<u8>], mut options: Self, choosing: bool) -> Result<Self, Failure> {
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let ranked = !options.by_score && !options.by_lex;
            if is_word(word, "withscores") {
                options.with_scores = true;
            } else if is_word(word, "limit") {
                let (Some(skip), Some(number)) = (words.next(), words.next()) else {
                    return Err(Failure::SYNTAX);
                };
                options.limit = Some((integer(skip)?, integer(number)?));
            } else if choosing && is_word(word, "rev") && !options.reversed {
                options.reversed = true;
            } else if choosing && is_word(word, "bylex") && ranked {
                options.by_lex = true;
            } else if choosing && is_word(word, "byscore") && ranked {
                options.by_score = true;
            } else {
                return Err(Failure::SYNTAX);
            }
        }
        let ranked = !options.by_score && !options.by_lex;
        if ranked && options.limit.is_some_and(|(_, number)| number != -1) {
            return Err(Failure::text(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or \
                 BYLEX",
            ));
        }
        if options.with_scores && options.by_lex {
            return Err(Failure::text(
                "ERR syntax error, WITHSCORES not supported in combination with BYLEX",
            ));
        }
        Ok(options)
    }

    /// Reads the two ends. Reversed ranges by score or member name the upper end first.
    fn select(&self, first: &[u8], second: &[u8]) -> Result<Selection, Failure> {
        if !self.by_score && !self.by_lex {
            return Ok(Selection::Ranks(integer(first)?, integer(second)?));
        }
        let (min, max) = if self.reversed { (second, first) } else { (first, second) };
        if self.by_score {
            return Ok(Selection::Scores(score_range(min, max)?));
        }
        Ok(Selection::Members(LexRange { min: lex_bound(min)?, max: lex_bound(max)? }))
    }
}

fn answer_range(env: &Env<'_>, argv: &[Vec<u8>], options: RangeOptions) -> Handled {
    let selection = options.select(&argv[2], &argv[3])?;
    let Some(zset) = env.read::<Zset>(&argv[1])? else {
        return read(Value::Array(Vec::new()));
    };
    let ranked = matches!(selection, Selection::Ranks(..));
    let (skip, number) = options.limit.filter(|_| !ranked).unwrap_or((0, -1));
    let Ok(skip) = usize::try_from(skip) else {
        return read(Value::Array(Vec::new()));
    };
    let number = usize::try_from(number).unwrap_or(usize::MAX);
    let mut replies = Vec::new();
    selection.walk(zset, options.reversed, &mut |members| {
        for (member, score) in members.skip(skip).take(number) {
            replies.push(bulk(member));
            if options.with_scores {
                replies.push(score_reply(score));
            }
        }
    });
    read(Value::Array(replies))
}

fn remove_selected(env: &mut Env<'_>, key: &[u8], selection: &Selection) -> Handled {
    let Some(zset) = env.edit::<Zset>(key)? else {
        return read(count(0));
    };
    let mut doomed: Vec<Vec<u8>> = Vec::new();
    selection.walk(zset, false, &mut |members| {
        doomed.extend(members.map(|(member, _)| member.to_vec()));
    });
    for member in &doomed {
        zset.remove(member);
    }
    env.drop_if_drained(key);
    wrote_if(!doomed.is_empty(), count(doomed.len()))
}

type Members<'m, 'z> = &'m mut dyn Iterator<Item = (&'z [u8], f64)>;

impl Selection {
    /// Hands the selected members over, one by one, in the wanted direction.
    fn walk<'z>(&self, zset: &'z Zset, reversed: bool, visit: &mut dyn FnMut(Members<'_, 'z>)) {
        match (self, reversed) {
            (Selection::Ranks(first, last), _) => {
                let (skip, number) = rank_window(*first, *last, zset.len());
                if reversed {
                    visit(&mut zset.iter().rev().skip(skip).take(number));
                } else {
                    visit(&mut zset.iter().skip(skip).take(number));
                }
            }
            (Selection::Scores(range), false) => visit(&mut zset.by_score(*range)),
            (Selection::Scores(range), true) => visit(&mut zset.by_score(*range).rev()),
            (Selection::Members(range), false) => visit(&mut zset.by_lex(range).into_iter()),
            (Selection::Members(range), true) => {
                visit(&mut zset.by_lex_reversed(range).into_iter());
            }
        }
    }
}

/// Turns two ranks, negative from the end, into how many to skip and how many to take.
fn rank_window(first: i64, last: i64, size: usize) -> (usize, usize) {
    let size = i64::try_from(size).unwrap_or(i64::MAX);
    let from_start = |rank: i64| if rank < 0 { rank.saturating_add(size) } else { rank };
    let first = from_start(first).max(0);
    let last = from_start(last).min(size - 1);
    let number = (last.saturating_add(1)).saturating_sub(first);
    (usize::try_from(first).unwrap_or(0), usize::try_from(number).unwrap_or(0))
}

fn score_range(min: &[u8], max: &[u8]) -> Result<ScoreRange, Failure> {
    let (min, min_exclusive) = score_bound(min)?;
    let (max, max_exclusive) = score_bound(max)?;
    Ok(ScoreRange { min, min_exclusive, max, max_exclusive })
}

/// Reads one end of a range of scores. More lenient than a score: nothing at all is zero, and a
/// number too large to tell is an infinity.
fn score_bound(text: &[u8]) -> Result<(f64, bool), Failure> {
    let (text, exclusive) = match text {
        [b'(', rest @ ..] => (rest, true),
        _ => (text, false),
    };
    if text.is_empty() {
        return Ok((0.0, exclusive));
    }
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok());
    let number = number.filter(|number| !number.is_nan());
    let number = number.ok_or(Failure::text("ERR min or max is not a float"))?;
    Ok((number, exclusive))
}

fn lex_bound(text: &[u8]) -> Result<LexBound, Failure> {
    match text {
        b"-" => Ok(LexBound::Lowest),
        b"+" => Ok(LexBound::Highest),
        [b'[', rest @ ..] => Ok(LexBound::Included(rest.to_vec())),
        [b'(', rest @ ..] => Ok(LexBound::Excluded(rest.to_vec())),
        _ => Err(Failure::text("ERR min or max not valid string range item")),
    }
}
