//! The one table of commands: name, arity, flags, where the keys stand, and the handler.

use super::{Env, Handled};
use super::{generic, hash, pubsub, scan, server, set, stream, string, zset, zset_range};

/// One command.
pub(crate) struct CommandSpec {
    /// In lower case.
    pub(crate) name: &'static str,
    /// The number of words with the name; negative means at least so many.
    pub(crate) arity: i32,
    pub(crate) flags: Flags,
    keys: Keys,
    pub(super) run: fn(&mut Env<'_>, &[Vec<u8>]) -> Handled,
}

/// What a caller has to know of a command before it runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flags {
    /// May change the keyspace.
    pub(crate) write: bool,
    /// Not to be called from a script.
    pub(crate) noscript: bool,
    /// Refused when memory is short.
    pub(crate) deny_oom: bool,
    /// Answers differently each time.
    pub(crate) random: bool,
}

/// Where the keys stand among the words.
#[derive(Clone, Copy, Debug)]
enum Keys {
    None,
    /// From `first` to `last` (negative: from the end), every `step` words.
    At {
        first: usize,
        last: i32,
        step: usize,
    },
    /// The first half of what follows the word STREAMS.
    Streams,
}

/// Finds a command by its name, in any case.
pub(crate) fn lookup(name: &[u8]) -> Option<&'static CommandSpec> {
    let mut wanted = [0; NAME_BYTES_MAX];
    wanted.get_mut(..name.len())?.copy_from_slice(name);
    wanted.make_ascii_lowercase();
    let place = NAMES.binary_search(&u128::from_be_bytes(wanted)).ok()?;
    COMMANDS.get(place)
}

/// The longest name of the table: just what fits into one number.
const NAME_BYTES_MAX: usize = "zremrangebyscore".len();

/// The names as numbers, which sort as the names do and are compared at once: every inner command
/// is looked up.
static NAMES: [u128; COMMANDS.len()] = {
    let mut names = [0; COMMANDS.len()];
    let mut at = 0;
    while at < COMMANDS.len() {
        let name = COMMANDS[at].name.as_bytes();
        let mut bytes = [0; NAME_BYTES_MAX];
        let mut letter = 0;
        while letter < name.len() {
            bytes[letter] = name[letter];
            letter += 1;
        }
        names[at] = u128::from_be_bytes(bytes);
        at += 1;
    }
    names
};

impl CommandSpec {
    /// Whether the number of words fits.
    pub(crate) fn accepts(&self, words: usize) -> bool {
        let least = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { words >= least } else { words == least }
    }

    /// The keys among the words of a call whose number of words fits.
    pub(crate) fn keys<'a>(&self, argv: &'a [Vec<u8>]) -> Vec<&'a [u8]> {
        match self.keys {
            Keys::None => Vec::new(),
            Keys::At { first, last, step } => {
                let end = match usize::try_from(last) {
                    Ok(last) => last + 1,
                    Err(_) => (argv.len() + 1).saturating_sub(last.unsigned_abs() as usize),
                };
                let words = argv.get(first..end.min(argv.len())).unwrap_or_default();
                words.iter().step_by(step).map(Vec::as_slice).collect()
            }
            Keys::Streams => {
                let word = argv.iter().position(|word| word.eq_ignore_ascii_case(b"streams"));
                let rest = word.map_or(&[][..], |place| &argv[place + 1..]);
                rest[..rest.len() / 2].iter().map(Vec::as_slice).collect()
            }
        }
    }
}

const READ: Flags = Flags { write: false, noscript: false, deny_oom: false, random: false };
const WRITE: Flags = Flags { write: true, ..READ };
const GROW: Flags = Flags { deny_oom: true, ..WRITE };
const RANDOM: Flags = Flags { random: true, ..READ };
const RANDOM_WRITE: Flags = Flags { random: true, ..WRITE };

const NONE: Keys = Keys::None;
const ONE: Keys = Keys::At { first: 1, last: 1, step: 1 };
const TWO: Keys = Keys::At { first: 1, last: 2, step: 1 };
const ALL: Keys = Keys::At { first: 1, last: -1, step: 1 };
const PAIRS: Keys = Keys::At { first: 1, last: -1, step: 2 };

const fn command(
    name: &'static str,
    arity: i32,
    flags: Flags,
    keys: Keys,
    run: fn(&mut Env<'_>, &[Vec<u8>]) -> Handled,
) -> CommandSpec {
    CommandSpec { name, arity, flags, keys, run }
}

/// Sorted by name.
const COMMANDS: &[CommandSpec] = &[
    command("append", 3, GROW, ONE, string::append),
    command("copy", -3, GROW, TWO, generic::copy),
    command("dbsize", 1, READ, NONE, server::dbsize),
    command("decr", 2, GROW, ONE, string::decr),
    command("decrby", 3, GROW, ONE, string::decrby),
    command("del", -2, WRITE, ALL, generic::del),
    command("echo", 2, READ, NONE, server::echo),
    command("exists", -2, READ, ALL, generic::exists),
    command("expire", -3, WRITE, ONE, generic::expire),
    command("expireat", -3, WRITE, ONE, generic::expireat),
    command("expiretime", 2, READ, ONE, generic::expiretime),
    command("flushall", -1, WRITE, NONE, server::flush),
    command("flushdb", -1, WRITE, NONE, server::flush),
    command("get", 2, READ, ONE, string::get),
    command("getdel", 2, WRITE, ONE, string::getdel),
    command("hdel", -3, WRITE, ONE, hash::hdel),
    command("hexists", 3, READ, ONE, hash::hexists),
    command("hget", 3, READ, ONE, hash::hget),
    command("hgetall", 2, READ, ONE, hash::hgetall),
    command("hincrby", 4, GROW, ONE, hash::hincrby),
    command("hkeys", 2, READ, ONE, hash::hkeys),
    command("hlen", 2, READ, ONE, hash::hlen),
    command("hmget", -3, READ, ONE, hash::hmget),
    command("hmset", -4, GROW, ONE, hash::hmset),
    command("hscan", -3, READ, ONE, hash::hscan),
    command("hset", -4, GROW, ONE, hash::hset),
    command("hsetnx", 4, GROW, ONE, hash::hsetnx),
    command("hstrlen", 3, READ, ONE, hash::hstrlen),
    command("hvals", 2, READ, ONE, hash::hvals),
    command("incr", 2, GROW, ONE, string::incr),
    command("incrby", 3, GROW, ONE, string::incrby),
    command("keys", 2, READ, NONE, generic::keys),
    command("mget", -2, READ, ALL, string::mget),
    command("mset", -3, GROW, PAIRS, string::mset),
    command("persist", 2, WRITE, ONE, generic::persist),
    command("pexpire", -3, WRITE, ONE, generic::pexpire),
    command("pexpireat", -3, WRITE, ONE, generic::pexpireat),
    command("pexpiretime", 2, READ, ONE, generic::pexpiretime),
    command("ping", -1, READ, NONE, server::ping),
    command("pttl", 2, RANDOM, ONE, generic::pttl),
    command("publish", 3, READ, NONE, pubsub::publish),
    command("rename", 3, WRITE, TWO, generic::rename),
    command("sadd", -3, GROW, ONE, set::sadd),
    command("scan", -2, READ, NONE, scan::scan),
    command("scard", 2, READ, ONE, set::scard),
    command("set", -3, GROW, ONE, string::set),
    command("setnx", 3, GROW, ONE, string::setnx),
    command("sismember", 3, READ, ONE, set::sismember),
    command("smembers", 2, READ, ONE, set::smembers),
    command("smismember", -3, READ, ONE, set::smismember),
    command("spop", -2, RANDOM_WRITE, ONE, set::spop),
    command("srandmember", -2, RANDOM, ONE, set::srandmember),
    command("srem", -3, WRITE, ONE, set::srem),
    command("sscan", -3, READ, ONE, set::sscan),
    command("strlen", 2, READ, ONE, string::strlen),
    command("time", 1, RANDOM, NONE, server::time),
    command("ttl", 2, RANDOM, ONE, generic::ttl),
    command("type", 2, READ, ONE, generic::type_name),
    command("unlink", -2, WRITE, ALL, generic::del),
    command("xadd", -5, GROW, ONE, stream::xadd),
    command("xdel", -3, WRITE, ONE, stream::xdel),
    command("xlen", 2, READ, ONE, stream::xlen),
    command("xrange", -4, READ, ONE, stream::xrange),
    command("xread", -4, READ, Keys::Streams, stream::xread),
    command("xrevrange", -4, READ, ONE, stream::xrevrange),
    command("xtrim", -4, WRITE, ONE, stream::xtrim),
    command("zadd", -4, GROW, ONE, zset::zadd),
    command("zcard", 2, READ, ONE, zset::zcard),
    command("zcount", 4, READ, ONE, zset_range::zcount),
    command("zincrby", 4, GROW, ONE, zset::zincrby),
    command("zmscore", -3, READ, ONE, zset::zmscore),
    command("zpopmax", -2, WRITE, ONE, zset::zpopmax),
    command("zpopmin", -2, WRITE, ONE, zset::zpopmin),
    command("zrange", -4, READ, ONE, zset_range::zrange),
    command("zrangebyscore", -4, READ, ONE, zset_range::zrangebyscore),
    command("zrank", -3, READ, ONE, zset::zrank),
    command("zrem", -3, WRITE, ONE, zset::zrem),
    command("zremrangebyrank", 4, WRITE, ONE, zset_range::zremrangebyrank),
    command("zremrangebyscore", 4, WRITE, ONE, zset_range::zremrangebyscore),
    command("zrevrange", -4, READ, ONE, zset_range::zrevrange),
    command("zrevrangebyscore", -4, READ, ONE, zset_range::zrevrangebyscore),
    command("zrevrank", -3, READ, ONE, zset::zrevrank),
    command("zscan", -3, READ, ONE, zset::zscan),
    command("zscore", 3, READ, ONE, zset::zscore),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<Vec<u8>> {
        line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
    }

    #[test]
    fn the_table_is_sorted_so_that_every_command_is_found() {
        for spec in COMMANDS {
            let found = lookup(spec.name.to_uppercase().as_bytes()).expect(spec.name);
            assert_eq!(found.name, spec.name);
        }
        assert!(lookup(b"nosuch").is_none());
    }

    #[test]
    fn keys_are_found_where_the_table_says() {
        let keys = |line: &str| -> Vec<String> {
            let argv = words(line);
            let spec = lookup(&argv[0]).expect("a command of the table");
            spec.keys(&argv).into_iter().map(|key| key.escape_ascii().to_string()).collect()
        };
        assert_eq!(keys("get a"), ["a"]);
        assert_eq!(keys("mset a 1 b 2"), ["a", "b"]);
        assert_eq!(keys("del a b c"), ["a", "b", "c"]);
        assert_eq!(keys("copy a b replace"), ["a", "b"]);
        assert!(keys("ping").is_empty());
        assert_eq!(keys("xread count 1 streams a b 0 0"), ["a", "b"]);
        assert!(keys("xread count 1 streams").is_empty());
    }
}
