//! Hashes.

use super::options::integer;
use super::scan::{ScanOptions, answer_page, cursor};
use super::{Env, Failure, Handled, bulk, bulk_or_nil, count, flag, ok, read, wrote, wrote_if};
use crate::host::keyspace::Hash;
use crate::host::number::parse_int;
use selvedge_core::value::Value;

pub(super) fn hget(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    read(bulk_or_nil(env.read::<Hash>(&argv[1])?.and_then(|hash| hash.get(&argv[2]))))
}

pub(super) fn hmget(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let hash = env.read::<Hash>(&argv[1])?;
    let values = argv[2..].iter().map(|field| bulk_or_nil(hash.and_then(|hash| hash.get(field))));
    read(Value::Array(values.collect()))
}

pub(super) fn hgetall(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    list(env, &argv[1], |(field, value)| vec![bulk(field), bulk(value)])
}

pub(super) fn hkeys(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    list(env, &argv[1], |(field, _)| vec![bulk(field)])
}

pub(super) fn hvals(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    list(env, &argv[1], |(_, value)| vec![bulk(value)])
}

fn list(env: &Env<'_>, key: &[u8], reply: impl Fn((&[u8], &[u8])) -> Vec<Value>) -> Handled {
    let pairs = env.read::<Hash>(key)?.map(Hash::in_order).unwrap_or_default();
    read(Value::Array(pairs.into_iter().flat_map(reply).collect()))
}

pub(super) fn hexists(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let hash = env.read::<Hash>(&argv[1])?;
    read(flag(hash.is_some_and(|hash| hash.get(&argv[2]).is_some())))
}

pub(super) fn hlen(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    read(count(env.read::<Hash>(&argv[1])?.map_or(0, Hash::len)))
}

pub(super) fn hstrlen(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let hash = env.read::<Hash>(&argv[1])?;
    read(count(hash.and_then(|hash| hash.get(&argv[2])).map_or(0, <[u8]>::len)))
}

pub(super) fn hset(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let added = set_pairs(env, argv, "hset")?;
    wrote(count(added))
}

pub(super) fn hmset(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    set_pairs(env, argv, "hmset")?;
    wrote(ok())
}

fn set_pairs(env: &mut Env<'_>, argv: &[Vec<u8>], name: &str) -> Result<usize, Failure> {
    if !argv.len().is_multiple_of(2) {
        return Err(Failure::arity(name));
    }
    let hash = env.edit_or_new::<Hash>(&argv[1])?;
    Ok(argv[2..].chunks_exact(2).filter(|pair| hash.set(&pair[0], pair[1].clone())).count())
}

pub(super) fn hsetnx(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let hash = env.edit_or_new::<Hash>(&argv[1])?;
    let absent = hash.get(&argv[2]).is_none();
    if absent {
        hash.set(&argv[2], argv[3].clone());
    }
    wrote_if(absent, flag(absent))
}

pub(super) fn hdel(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let Some(hash) = env.edit::<Hash>(&argv[1])? else {
        return read(count(0));
    };
    let removed = argv[2..].iter().filter(|field| hash.remove(field)).count();
    env.drop_if_drained(&argv[1]);
    wrote_if(removed > 0, count(removed))
}

pub(super) fn hincrby(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let amount = integer(&argv[3])?;
    let before = match env.read::<Hash>(&argv[1])?.and_then(|hash| hash.get(&argv[2])) {
        None => 0,
        Some(text) => parse_int(text).ok_or(Failure::text("ERR hash value is not an integer"))?,
    };
    let after = before
        .checked_add(amount)
        .ok_or(Failure::text("ERR increment or decrement would overflow"))?;
    env.edit_or_new::<Hash>(&argv[1])?.set(&argv[2], after.to_string().into_bytes());
    wrote(Value::Int(after))
}

pub(super) fn hscan(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let cursor = cursor(&argv[2])?;
    let Some(hash) = env.read::<Hash>(&argv[1])? else {
        return read(Value::Array(vec![bulk(b"0"), Value::Array(Vec::new())]));
    };
    let options = ScanOptions::parse(&argv[3..], Some("novalues"), false)?;
    answer_page(hash.in_order().into_iter(), cursor, &options, |field, value| {
        if options.bare { vec![bulk(field)] } else { vec![bulk(field), bulk(value)] }
    })
}
