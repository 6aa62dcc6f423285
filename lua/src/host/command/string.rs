//! Strings, and the numbers kept in them.

use super::options::{ExpiryUnit, integer, is_word};
use super::{Env, Failure, Handled, bulk, bulk_or_nil, count, flag, ok, read, wrote};
use crate::host::keyspace::{Data, Entry, Text};
use crate::host::number::parse_int;
use selvedge_core::value::Value;

/// The longest string there may be: the server's `proto-max-bulk-len`.
const TEXT_BYTES_MAX: usize = 512 * 1024 * 1024;

pub(super) fn get(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    read(bulk_or_nil(env.read::<Text>(&argv[1])?.map(Vec::as_slice)))
}

pub(super) fn getdel(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let Some(text) = env.edit::<Text>(&argv[1])? else {
        return read(Value::Nil);
    };
    let text = std::mem::take(text);
    let now_ms = env.now_ms();
    env.keyspace.remove(&argv[1], now_ms);
    wrote(Value::Bulk(text))
}

pub(super) fn strlen(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    read(count(env.read::<Text>(&argv[1])?.map_or(0, Vec::len)))
}

/// MGET answers nil for a key of another type: it never fails.
pub(super) fn mget(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let values = argv[1..].iter().map(|key| match env.data(key) {
        Some(Data::Text(text)) => bulk(text),
        Some(Data::Hash(_) | Data::Set(_) | Data::Zset(_) | Data::Stream(_)) | None => Value::Nil,
    });
    read(Value::Array(values.collect()))
}

pub(super) fn mset(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    if argv.len().is_multiple_of(2) {
        return Err(Failure::arity("mset"));
    }
    for pair in argv[1..].chunks_exact(2) {
        env.put(&pair[0], pair[1].clone());
    }
    wrote(ok())
}

pub(super) fn setnx(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    if env.data(&argv[1]).is_some() {
        return read(flag(false));
    }
    env.put(&argv[1], argv[2].clone());
    wrote(flag(true))
}

pub(super) fn append(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let before = env.read::<Text>(&argv[1])?;
    let length = before.map_or(0, Vec::len) + argv[2].len();
    if before.is_some() && length > TEXT_BYTES_MAX {
        return Err(Failure::TOO_LONG);
    }
    env.edit_or_new::<Text>(&argv[1])?.extend_from_slice(&argv[2]);
    wrote(count(length))
}

/// The options of SET.
#[derive(Default)]
struct SetOptions {
    only_if_absent: bool,
    only_if_present: bool,
    answer_old: bool,
    keep_expiry: bool,
    expiry: Option<(ExpiryUnit, Vec<u8>)>,
    only_if_equal: Option<Vec<u8>>,
}

impl SetOptions {
    fn parse(words: &[Vec<u8>]) -> Result<Self, Failure> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let conditional = options.only_if_absent
                || options.only_if_present
                || options.only_if_equal.is_some();
            let unit = expiry_unit(word);
            let timed = options.keep_expiry || options.expiry.is_some();
            if is_word(word, "nx") && !options.only_if_present && options.only_if_equal.is_none() {
                options.only_if_absent = true;
            } else if is_word(word, "xx")
                && !options.only_if_absent
                && options.only_if_equal.is_none()
            {
                options.only_if_present = true;
            } else if is_word(word, "get") {
                options.answer_old = true;
            } else if is_word(word, "keepttl") && options.expiry.is_none() {
                options.keep_expiry = true;
            } else if let (Some(unit), false) = (unit, timed) {
                let amount = words.next().ok_or(Failure::SYNTAX)?;
                options.expiry = Some((unit, amount.clone()));
            } else if is_word(word, "ifeq") && !conditional {
                options.only_if_equal = Some(words.next().ok_or(Failure::SYNTAX)?.clone());
            } else {
                return Err(Failure::SYNTAX);
            }
        }
        Ok(options)
    }
}

fn expiry_unit(word: &[u8]) -> Option<ExpiryUnit> {
    let units = [
        ("ex", ExpiryUnit::EX),
        ("px", ExpiryUnit::PX),
        ("exat", ExpiryUnit::EXAT),
        ("pxat", ExpiryUnit::PXAT),
    ];
    units.into_iter().find(|(name, _)| is_word(word, name)).map(|(_, unit)| unit)
}

pub(super) fn set(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let (key, value) = (&argv[1], &argv[2]);
    let options = SetOptions::parse(&argv[3..])?;
    let expiry = match &options.expiry {
        None => None,
        Some((unit, amount)) => {
            let amount = integer(amount)?;
            let instant_ms = unit.instant_ms(amount, env).filter(|_| amount > 0);
            Some(instant_ms.ok_or_else(|| Failure::expire_time("set"))?)
        }
    };
    let old = match env.data(key) {
        Some(Data::Text(text)) => Some(text.as_slice()),
        Some(_) if options.answer_old || options.only_if_equal.is_some() => {
            return Err(Failure::WRONG_TYPE);
        }
        Some(_) | None => None,
    };
    let present = env.data(key).is_some();
    let refused = (options.only_if_absent && present)
        || (options.only_if_present && !present)
        || options.only_if_equal.as_deref().is_some_and(|wanted| old != Some(wanted));
    let answer = match (options.answer_old, refused) {
        (true, _) => bulk_or_nil(old),
        (false, true) => Value::Nil,
        (false, false) => ok(),
    };
    if refused {
        return read(answer);
    }
    let kept = env.keyspace.get(key, env.now_ms()).and_then(|entry| entry.expires_at_ms);
    let expires_at_ms = if options.keep_expiry { kept } else { expiry };
    if expires_at_ms.is_some_and(|at_ms| at_ms <= env.now_ms()) && !options.keep_expiry {
        // An expiry that has passed: the key ends up absent.
        let now_ms = env.now_ms();
        env.keyspace.remove(key, now_ms);
    } else {
        env.keyspace.insert(key, Entry { data: Data::Text(value.clone()), expires_at_ms });
    }
    wrote(answer)
}

pub(super) fn incr(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    add(env, &argv[1], 1)
}

pub(super) fn decr(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    add(env, &argv[1], -1)
}

pub(super) fn incrby(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let amount = integer(&argv[2])?;
    add(env, &argv[1], amount)
}

pub(super) fn decrby(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let amount = integer(&argv[2])?;
    let negated = amount.checked_neg().ok_or(Failure::text("ERR decrement would overflow"))?;
    add(env, &argv[1], negated)
}

fn add(env: &mut Env<'_>, key: &[u8], amount: i64) -> Handled {
    let before = match env.read::<Text>(key)? {
        None => 0,
        Some(text) => parse_int(text).ok_or(Failure::NOT_AN_INTEGER)?,
    };
    let after = before
        .checked_add(amount)
        .ok_or(Failure::text("ERR increment or decrement would overflow"))?;
    *env.edit_or_new::<Text>(key)? = after.to_string().into_bytes();
    wrote(Value::Int(after))
}
