//! Commands on keys of any type: removal, copies, names and expiry.

use super::options::{ExpiryUnit, integer, is_word};
use super::scan::glob;
use super::{Env, Failure, Handled, bulk, count, flag, ok, read, wrote, wrote_if};
use selvedge_core::value::Value;

pub(super) fn del(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let now_ms = env.now_ms();
    let removed = argv[1..].iter().filter(|key| env.keyspace.remove(key, now_ms).is_some()).count();
    wrote_if(removed > 0, count(removed))
}

/// A key named twice counts twice.
pub(super) fn exists(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    read(count(argv[1..].iter().filter(|key| env.data(key).is_some()).count()))
}

pub(super) fn type_name(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let name = env.data(&argv[1]).map_or("none", |data| data.type_name());
    read(Value::Status(name.to_owned()))
}

pub(super) fn keys(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let pattern = &argv[1];
    let keys = env.keyspace.sorted(env.now_ms()).map(|(key, _)| key);
    read(Value::Array(keys.filter(|key| glob(pattern, key)).map(|key| bulk(key)).collect()))
}

/// COPY within the one database there is. The copy keeps the expiry.
pub(super) fn copy(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let (source, target) = (&argv[1], &argv[2]);
    let mut replace = false;
    let mut words = argv[3..].iter();
    while let Some(word) = words.next() {
        if is_word(word, "replace") {
            replace = true;
        } else if is_word(word, "db") {
            let number = words.next().ok_or(Failure::SYNTAX)?;
            if integer(number)? != 0 {
                return Err(Failure::text("ERR DB index is out of range"));
            }
        } else {
            return Err(Failure::SYNTAX);
        }
    }
    if source == target {
        return Err(Failure::text("ERR source and destination objects are the same"));
    }
    let Some(entry) = env.keyspace.get(source, env.now_ms()).cloned() else {
        return read(flag(false));
    };
    if env.data(target).is_some() && !replace {
        return read(flag(false));
    }
    env.keyspace.insert(target, entry);
    wrote(flag(true))
}

pub(super) fn rename(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let now_ms = env.now_ms();
    if argv[1] == argv[2] {
        return env.data(&argv[1]).map_or(Err(Failure::NO_SUCH_KEY), |_| read(ok()));
    }
    let entry = env.keyspace.remove(&argv[1], now_ms).ok_or(Failure::NO_SUCH_KEY)?;
    env.keyspace.insert(&argv[2], entry);
    wrote(ok())
}

pub(super) fn persist(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let now_ms = env.now_ms();
    let entry = env.keyspace.get_mut(&argv[1], now_ms);
    let had_expiry = entry.is_some_and(|entry| entry.expires_at_ms.take().is_some());
    wrote_if(had_expiry, flag(had_expiry))
}

pub(super) fn expire(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    set_expiry(env, argv, "expire", ExpiryUnit::EX)
}

pub(super) fn pexpire(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    set_expiry(env, argv, "pexpire", ExpiryUnit::PX)
}

pub(super) fn expireat(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    set_expiry(env, argv, "expireat", ExpiryUnit::EXAT)
}

pub(super) fn pexpireat(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    set_expiry(env, argv, "pexpireat", ExpiryUnit::PXAT)
}

pub(super) fn ttl(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    tell_expiry(env, &argv[1], |left_ms| left_ms.saturating_add(500) / 1000)
}

pub(super) fn pttl(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    tell_expiry(env, &argv[1], |left_ms| left_ms)
}

pub(super) fn expiretime(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let now_ms = env.now_ms();
    tell_expiry(env, &argv[1], |left_ms| (left_ms + now_ms).saturating_add(500) / 1000)
}

pub(super) fn pexpiretime(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    let now_ms = env.now_ms();
    tell_expiry(env, &argv[1], |left_ms| left_ms + now_ms)
}

/// Answers -2 without the key, -1 without an expiry, else what `told` makes of the time left.
fn tell_expiry(env: &Env<'_>, key: &[u8], told: impl Fn(i64) -> i64) -> Handled {
    read(Value::Int(match env.keyspace.get(key, env.now_ms()) {
        None => -2,
        Some(entry) => match entry.expires_at_ms {
            None => -1,
            Some(at_ms) => told(at_ms - env.now_ms()),
        },
    }))
}

/// When a new expiry may take the place of what was there.
#[derive(Default)]
struct ExpiryCondition {
    absent: bool,
    present: bool,
    later: bool,
    earlier: bool,
}

impl ExpiryCondition {
    fn parse(words: &[Vec<u8>]) -> Result<Self, Failure> {
        let mut condition = Self::default();
        for word in words {
            let place = match word.to_ascii_lowercase().as_slice() {
                b"nx" => &mut condition.absent,
                b"xx" => &mut condition.present,
                b"gt" => &mut condition.later,
                b"lt" => &mut condition.earlier,
                _ => return Err(Failure::naming("ERR Unsupported option", word)),
            };
            *place = true;
        }
        if condition.absent && (condition.present || condition.later || condition.earlier) {
            return Err(Failure::text(
                "ERR NX and XX, GT or LT options at the same time are not compatible",
            ));
        }
        if condition.later && condition.earlier {
            return Err(Failure::text("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(condition)
    }

    /// No expiry at all counts as the latest.
    fn allows(&self, old_ms: Option<i64>, new_ms: i64) -> bool {
        match old_ms {
            None => !self.present && !self.later,
            Some(_) if self.absent => false,
            Some(old_ms) if self.later => new_ms > old_ms,
            Some(old_ms) if self.earlier => new_ms < old_ms,
            Some(_) => true,
        }
    }
}

fn set_expiry(env: &mut Env<'_>, argv: &[Vec<u8>], name: &str, unit: ExpiryUnit) -> Handled {
    let condition = ExpiryCondition::parse(&argv[3..])?;
    let amount = integer(&argv[2])?;
    let at_ms = unit.instant_ms(amount, env).ok_or_else(|| Failure::expire_time(name))?;
    let now_ms = env.now_ms();
    let Some(entry) = env.keyspace.get_mut(&argv[1], now_ms) else {
        return read(flag(false));
    };
    if !condition.allows(entry.expires_at_ms, at_ms) {
        return read(flag(false));
    }
    if at_ms <= now_ms {
        env.keyspace.remove(&argv[1], now_ms);
    } else {
        entry.expires_at_ms = Some(at_ms);
    }
    wrote(flag(true))
}
