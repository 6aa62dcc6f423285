//! Sets.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng as _;
use selvedge_core::value::Value;

use super::options::{integer, positive};
use super::scan::{ScanOptions, answer_page, answer_unruly_page, cursor};
use super::{Env, Failure, Handled, bulk, count, flag, read, wrote_if, wrote_instead};
use crate::host::keyspace::Set;

/// How many members SRANDMEMBER may repeat. A server tries to answer any number, and dies of it.
const REPEATS_MAX: u64 = 1 << 24;

pub(super) fn sadd(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let set = env.edit_or_new::<Set>(&argv[1])?;
    let added = argv[2..].iter().filter(|member| set.insert((*member).clone())).count();
    wrote_if(added > 0, count(added))
}

pub(super) fn srem(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let Some(set) = env.edit::<Set>(&argv[1])? else {
        return read(count(0));
    };
    let removed = argv[2..].iter().filter(|member| set.remove(*member)).count();
    env.drop_if_drained(&argv[1]);
    wrote_if(removed > 0, count(removed))
}

pub(super) fn smembers(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let members = env.read::<Set>(&argv[1])?.into_iter().flatten();
    read(Value::Array(members.map(|member| bulk(member)).collect()))
}

pub(super) fn sismember(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let set = env.read::<Set>(&argv[1])?;
    read(flag(set.is_some_and(|set| set.contains(&argv[2]))))
}

pub(super) fn smismember(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let set = env.read::<Set>(&argv[1])?;
    let contained = argv[2..].iter().map(|member| set.is_some_and(|set| set.contains(member)));
    read(Value::Array(contained.map(flag).collect()))
}

pub(super) fn scard(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    read(count(env.read::<Set>(&argv[1])?.map_or(0, Set::len)))
}

pub(super) fn sscan(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let cursor = cursor(&argv[2])?;
    let liberty = env.unruly_scans.then(|| env.random.next_u64());
    let Some(set) = env.read::<Set>(&argv[1])? else {
        return read(Value::Array(vec![bulk(b"0"), Value::Array(Vec::new())]));
    };
    let options = ScanOptions::parse(&argv[3..], None, false)?;
    let members = set.iter().map(|member| (&member[..], ()));
    match liberty {
        Some(drawn) => answer_unruly_page(members, cursor, &options, drawn),
        None => answer_page(members, cursor, &options, |member, ()| vec![bulk(member)]),
    }
}

/// SRANDMEMBER: one member, or some without repeats, or, for a negative count, with repeats.
pub(super) fn srandmember(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let wanted = match argv {
        [_, _] => None,
        [_, _, wanted] => Some(integer(wanted)?),
        _ => return Err(Failure::SYNTAX),
    };
    if wanted == Some(i64::MIN) {
        return Err(Failure::owned(format!(
            "ERR value is out of range, value must between {} and {}",
            -i64::MAX,
            i64::MAX
        )));
    }
    // The draws come first, for the set is borrowed from the same place as the dice.
    let size = env.read::<Set>(&argv[1])?.map_or(0, Set::len);
    let places = match wanted {
        None if size == 0 => return read(Value::Nil),
        None => draw(env.random, size, 1),
        Some(wanted) if wanted >= 0 => {
            draw(env.random, size, usize::try_from(wanted).unwrap_or(size))
        }
        Some(_) if size == 0 => Vec::new(),
        Some(repeats) if repeats.unsigned_abs() > REPEATS_MAX => {
            return Err(Failure::text("ERR value is out of range"));
        }
        Some(repeats) => (0..repeats.unsigned_abs()).map(|_| below(env.random, size)).collect(),
    };
    let members = pick(env.read::<Set>(&argv[1])?, &places);
    match (wanted, members.first()) {
        (None, Some(member)) => read(bulk(member)),
        _ => read(Value::Array(members.into_iter().map(Value::Bulk).collect())),
    }
}

/// SPOP: the write log tells which members went.
pub(super) fn spop(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let wanted = match argv {
        [_, _] => None,
        [_, _, wanted] => Some(positive(wanted)?),
        _ => return Err(Failure::SYNTAX),
    };
    let key = &argv[1];
    let size = env.read::<Set>(key)?.map_or(0, Set::len);
    let number = wanted.map_or(1, |wanted| usize::try_from(wanted).unwrap_or(size));
    let places = draw(env.random, size, number);
    let members = pick(env.read::<Set>(key)?, &places);
    if let Some(set) = env.edit::<Set>(key)? {
        for member in &members {
            set.remove(member);
        }
        env.drop_if_drained(key);
    }
    let removal = || [b"SREM".to_vec(), key.clone()].into_iter().chain(members.iter().cloned());
    let log = if members.is_empty() { Vec::new() } else { vec![removal().collect()] };
    let answer = match (wanted, members.first()) {
        (None, first) => first.map_or(Value::Nil, |member| bulk(member)),
        (Some(_), _) => Value::Array(members.into_iter().map(Value::Bulk).collect()),
    };
    wrote_instead(log, answer)
}

/// A number below `bound`, which is not zero.
fn below(random: &mut ChaCha8Rng, bound: usize) -> usize {
    let scaled = u128::from(random.next_u64()) * (bound as u128);
    (scaled >> 64) as usize
}

/// `number` different places of `size`, in random order; all of them if there are no more.
fn draw(random: &mut ChaCha8Rng, size: usize, number: usize) -> Vec<usize> {
    if number == 1 && size > 0 {
        return vec![below(random, size)];
    }
    let mut places: Vec<usize> = (0..size).collect();
    let number = number.min(size);
    for place in 0..number {
        let other = place + below(random, size - place);
        places.swap(place, other);
    }
    places.truncate(number);
    places
}

/// The members at these places, in the order of the places.
fn pick(set: Option<&Set>, places: &[usize]) -> Vec<Vec<u8>> {
    let Some(set) = set else { return Vec::new() };
    if let [place] = places {
        return set.iter().nth(*place).cloned().into_iter().collect();
    }
    let members: Vec<_> = if places.is_empty() { Vec::new() } else { set.iter().collect() };
    places.iter().map(|place| members[*place].clone()).collect()
}
