//! Sorted sets: members and their scores. Ranges are in [`super::zset_range`].

use super::options::{is_word, positive};
use super::scan::{ScanOptions, answer_page, cursor};
use super::{Env, Failure, Handled, bulk, count, read, wrote, wrote_if};
use crate::host::keyspace::Zset;
use crate::host::number::{format_float, parse_float};
use selvedge_core::value::Value;

pub(super) fn score_reply(score: f64) -> Value {
    Value::Bulk(format_float(score).into_bytes())
}

fn score_or_nil(score: Option<f64>) -> Value {
    score.map_or(Value::Nil, score_reply)
}

pub(super) fn zscore(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let zset = env.read::<Zset>(&argv[1])?;
    read(score_or_nil(zset.and_then(|zset| zset.score(&argv[2]))))
}

pub(super) fn zmscore(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let zset = env.read::<Zset>(&argv[1])?;
    let scores = argv[2..].iter().map(|member| zset.and_then(|zset| zset.score(member)));
    read(Value::Array(scores.map(score_or_nil).collect()))
}

pub(super) fn zcard(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    read(count(env.read::<Zset>(&argv[1])?.map_or(0, Zset::len)))
}

pub(super) fn zrem(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let Some(zset) = env.edit::<Zset>(&argv[1])? else {
        return read(count(0));
    };
    let removed = argv[2..].iter().filter(|member| zset.remove(member).is_some()).count();
    env.drop_if_drained(&argv[1]);
    wrote_if(removed > 0, count(removed))
}

pub(super) fn zrank(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    tell_rank(env, argv, |rank, _| rank)
}

pub(super) fn zrevrank(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    tell_rank(env, argv, |rank, size| size - 1 - rank)
}

fn tell_rank(
    env: &Env<'_>,
    argv: &[Vec<u8>],
    seen_from: impl Fn(usize, usize) -> usize,
) -> Handled {
    let with_score = match &argv[3..] {
        [] => false,
        [word] if is_word(word, "withscore") => true,
        [_] => return Err(Failure::SYNTAX),
        _ => return Err(Failure::arity(&String::from_utf8_lossy(&argv[0]).to_lowercase())),
    };
    let Some(zset) = env.read::<Zset>(&argv[1])? else {
        return read(Value::Nil);
    };
    let (Some(rank), Some(score)) = (zset.rank(&argv[2]), zset.score(&argv[2])) else {
        return read(Value::Nil);
    };
    let rank = count(seen_from(rank, zset.len()));
    read(if with_score { Value::Array(vec![rank, score_reply(score)]) } else { rank })
}

/// The options of ZADD.
#[derive(Clone, Copy, Default)]
struct AddOptions {
    only_new: bool,
    only_known: bool,
    only_greater: bool,
    only_less: bool,
    count_changed: bool,
    increment: bool,
}

/// What became of one member.
enum Added {
    /// A condition did not hold.
    Refused,
    /// It has the score it had.
    Same(f64),
    Updated(f64),
    New(f64),
}

impl AddOptions {
    /// Reads the options and answers how many words they took.
    fn parse(words: &[Vec<u8>]) -> (Self, usize) {
        let mut options = Self::default();
        for (taken, word) in words.iter().enumerate() {
            let place = match word.to_ascii_lowercase().as_slice() {
                b"nx" => &mut options.only_new,
                b"xx" => &mut options.only_known,
                b"gt" => &mut options.only_greater,
                b"lt" => &mut options.only_less,
                b"ch" => &mut options.count_changed,
                b"incr" => &mut options.increment,
                _ => return (options, taken),
            };
            *place = true;
        }
        (options, words.len())
    }

    fn check(&self, pairs: usize) -> Result<(), Failure> {
        if self.only_new && self.only_known {
            return Err(Failure::text("ERR XX and NX options at the same time are not compatible"));
        }
        if [self.only_new, self.only_greater, self.only_less].iter().filter(|on| **on).count() > 1 {
            return Err(Failure::text(
                "ERR GT, LT, and/or NX options at the same time are not compatible",
            ));
        }
        if self.increment && pairs > 1 {
            return Err(Failure::text("ERR INCR option supports a single increment-element pair"));
        }
        Ok(())
    }

    /// Works out what adding this member means, without doing it.
    fn judge(&self, known: Option<f64>, score: f64) -> Result<Added, Failure> {
        let Some(known) = known else {
            return Ok(if self.only_known { Added::Refused } else { Added::New(score) });
        };
        if self.only_new {
            return Ok(Added::Refused);
        }
        let score = if self.increment { known + score } else { score };
        if score.is_nan() {
            return Err(Failure::text("ERR resulting score is not a number (NaN)"));
        }
        if (self.only_greater && score <= known) || (self.only_less && score >= known) {
            return Ok(Added::Refused);
        }
        Ok(if score == known { Added::Same(score) } else { Added::Updated(score) })
    }
}

pub(super) fn zadd(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let (options, taken) = AddOptions::parse(&argv[2..]);
    add(env, &argv[1], options, &argv[2 + taken..])
}

/// ZINCRBY is ZADD with INCR, down to the options in front of the score, which never leave enough
/// words behind them.
pub(super) fn zincrby(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let (options, taken) = AddOptions::parse(&argv[2..]);
    add(env, &argv[1], AddOptions { increment: true, ..options }, &argv[2 + taken..])
}

fn add(env: &mut Env<'_>, key: &[u8], options: AddOptions, pairs: &[Vec<u8>]) -> Handled {
    if pairs.is_empty() || !pairs.len().is_multiple_of(2) {
        return Err(Failure::SYNTAX);
    }
    options.check(pairs.len() / 2)?;
    let scores = pairs.iter().step_by(2).map(|text| parse_float(text).ok_or(Failure::NOT_A_FLOAT));
    let scores = scores.collect::<Result<Vec<_>, _>>()?;
    if env.read::<Zset>(key)?.is_none() && options.only_known {
        return read(if options.increment { Value::Nil } else { count(0) });
    }
    let zset = env.edit_or_new::<Zset>(key)?;
    let (mut added, mut updated, mut last) = (0, 0, None);
    for (member, score) in pairs.iter().skip(1).step_by(2).zip(scores) {
        let judged = options.judge(zset.score(member), score)?;
        last = match judged {
            Added::Refused => None,
            Added::Same(score) => Some(score),
            Added::Updated(score) => {
                updated += 1;
                zset.set(member, score);
                Some(score)
            }
            Added::New(score) => {
                added += 1;
                zset.set(member, score);
                Some(score)
            }
        };
    }
    let answer = match (options.increment, options.count_changed) {
        (true, _) => score_or_nil(last),
        (false, true) => count(added + updated),
        (false, false) => count(added),
    };
    wrote_if(added + updated > 0, answer)
}

pub(super) fn zpopmin(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    pop(env, argv, |zset, number| owned(zset.iter().take(number)))
}

pub(super) fn zpopmax(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    pop(env, argv, |zset, number| owned(zset.iter().rev().take(number)))
}

fn owned<'a>(members: impl Iterator<Item = (&'a [u8], f64)>) -> Vec<(Vec<u8>, f64)> {
    members.map(|(member, score)| (member.to_vec(), score)).collect()
}

fn pop(
    env: &mut Env<'_>,
    argv: &[Vec<u8>],
    choose: impl Fn(&Zset, usize) -> Vec<(Vec<u8>, f64)>,
) -> Handled {
    let number = match &argv[2..] {
        [] => 1,
        [number] => usize::try_from(positive(number)?).unwrap_or(usize::MAX),
        _ => return Err(Failure::SYNTAX),
    };
    let Some(zset) = env.edit::<Zset>(&argv[1])? else {
        return read(Value::Array(Vec::new()));
    };
    let popped = choose(zset, number);
    for (member, _) in &popped {
        zset.remove(member);
    }
    env.drop_if_drained(&argv[1]);
    let replies = popped.iter().flat_map(|(member, score)| [bulk(member), score_reply(*score)]);
    let answer = Value::Array(replies.collect());
    if popped.is_empty() { read(answer) } else { wrote(answer) }
}

pub(super) fn zscan(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let cursor = cursor(&argv[2])?;
    let Some(zset) = env.read::<Zset>(&argv[1])? else {
        return read(Value::Array(vec![bulk(b"0"), Value::Array(Vec::new())]));
    };
    let options = ScanOptions::parse(&argv[3..], Some("noscores"), false)?;
    answer_page(zset.iter(), cursor, &options, |member, score| {
        if options.bare { vec![bulk(member)] } else { vec![bulk(member), score_reply(score)] }
    })
}
