//! Commands about the server as a whole.

use super::options::is_word;
use super::{Env, Failure, Handled, bulk, count, ok, read, wrote_if};
use selvedge_core::value::Value;

pub(super) fn time(env: &mut Env<'_>, _: &[Vec<u8>]) -> Handled {
    let seconds = (env.now_us / 1_000_000).to_string();
    let micros = (env.now_us % 1_000_000).to_string();
    read(Value::Array(vec![bulk(seconds.as_bytes()), bulk(micros.as_bytes())]))
}

pub(super) fn ping(_: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    match argv {
        [_] => read(Value::Status("PONG".to_owned())),
        [_, message] => read(bulk(message)),
        _ => Err(Failure::arity("ping")),
    }
}

pub(super) fn echo(_: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    read(bulk(&argv[1]))
}

pub(super) fn dbsize(env: &mut Env<'_>, _: &[Vec<u8>]) -> Handled {
    read(count(env.keyspace.len(env.now_ms())))
}

/// FLUSHALL and FLUSHDB: there is one database.
pub(super) fn flush(env: &mut Env<'_>, argv: &[Vec<u8>]) -> Handled {
    match argv {
        [_] => {}
        [_, mode] if is_word(mode, "sync") || is_word(mode, "async") => {}
        _ => return Err(Failure::SYNTAX),
    }
    let changed = env.keyspace.len(env.now_ms()) > 0;
    env.keyspace.clear();
    wrote_if(changed, ok())
}
