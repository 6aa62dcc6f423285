//! Random sequences of data commands: few keys, few members, and every kind of awkward word.

use super::dice::Dice;
use super::grammar::expand;
use super::{Comparison, Sequence, Step};

/// The sequence of a seed.
#[must_use]
pub fn sequence(seed: u64, steps: usize) -> Sequence {
    drawn(Dice::new(seed), steps)
}

/// The sequence that these dice choose.
#[must_use]
pub fn drawn(mut dice: Dice, steps: usize) -> Sequence {
    let steps = (0..steps).map(|_| step(&mut dice)).collect();
    Sequence { steps, on_redis: true }
}

fn step(dice: &mut Dice) -> Step {
    if dice.chance(1, 200) {
        return burst(dice);
    }
    let template = dice.pick(TEMPLATES);
    let mut command = expand(template, dice, &mut word);
    let spoiled = dice.chance(1, 12);
    if spoiled {
        spoil(&mut command, dice);
    }
    let comparison = comparison(&command, spoiled);
    let mut step = Step::compared(command, comparison);
    let chosen_by_the_store = template.starts_with("SPOP") || template.contains(" * ");
    if chosen_by_the_store && comparison == Comparison::Shape && step.command.len() > 1 {
        // What is left differs from store to store: nothing may be left.
        step.cleanup = Some([b"DEL".to_vec(), step.command[1].clone()].to_vec());
    }
    step
}

/// How the reply of a command can be compared.
fn comparison(command: &[Vec<u8>], spoiled: bool) -> Comparison {
    let name = command.first().map(|name| name.to_ascii_uppercase()).unwrap_or_default();
    let last_word = command.last().map_or(&[][..], Vec::as_slice);
    match name.as_slice() {
        b"SMEMBERS" | b"HKEYS" | b"HVALS" | b"KEYS" => Comparison::Unordered,
        b"HGETALL" => Comparison::UnorderedPairs,
        // Counts that take in everything leave nothing to chance.
        b"SPOP" | b"SRANDMEMBER" if !spoiled && last_word == b"1000" => Comparison::Unordered,
        b"SPOP" | b"SRANDMEMBER" | b"TIME" => Comparison::Shape,
        b"SCAN" | b"SSCAN" | b"HSCAN" | b"ZSCAN" if spoiled => Comparison::Shape,
        b"SCAN" | b"SSCAN" | b"HSCAN" | b"ZSCAN" => Comparison::Unordered,
        b"TTL" | b"PTTL" | b"EXPIRETIME" | b"PEXPIRETIME" => Comparison::Roughly,
        b"XADD" if command.iter().any(|word| word == b"*") => Comparison::Shape,
        _ => Comparison::Exact,
    }
}

/// Makes a command wrong in one way, or right in an unexpected one.
fn spoil(command: &mut Vec<Vec<u8>>, dice: &mut Dice) {
    // The name stays: other words could be the name of a command that takes the server away.
    if command.len() == 1 {
        return command.push(any(AWKWARD, dice));
    }
    let place = 1 + dice.below(command.len() - 1);
    match dice.below(5) {
        0 => {
            command.remove(place);
        }
        1 => command.insert(place, command[place].clone()),
        2 => command[place] = any(AWKWARD, dice),
        3 => {
            let text = command[place].to_ascii_lowercase();
            command[place] = text;
        }
        _ => command.push(any(AWKWARD, dice)),
    }
}

/// Enough elements at once that a server changes how it stores them.
fn burst(dice: &mut Dice) -> Step {
    let (body, key, count_max) = dice.pick(&[&BURST_STREAM, &BURST_ZSET, &BURST_HASH, &BURST_SET]);
    let count = (40 + dice.below(count_max - 40)).to_string();
    let size = any(&["1", "5", "30", "70", "300"], dice);
    let start = any(&["1", "50", "1000", "70000"], dice);
    let mut command: Vec<Vec<u8>> =
        ["EVAL", body, "1", key].iter().map(|word| word.as_bytes().to_vec()).collect();
    command.extend([count.into_bytes(), size, start]);
    Step::compared(command, Comparison::Exact)
}

type Burst = (&'static str, &'static str, usize);

const BURST_STREAM: Burst = (
    "for i = 1, ARGV[1] do redis.pcall('XADD', KEYS[1], (ARGV[3] + i) .. '-' .. i % 3, \
     'f' .. i % 2, string.rep('v', ARGV[2]), 'n', i * i) end return 1",
    "x1",
    240,
);
/// Below 128 members for good: beyond, Valkey answers to a negative offset what it never does for
/// fewer.
const BURST_ZSET: Burst =
    ("for i = 1, ARGV[1] do redis.pcall('ZADD', KEYS[1], i % 7, i) end return 1", "z1", 100);
const BURST_HASH: Burst = (
    "for i = 1, ARGV[1] do redis.pcall('HSET', KEYS[1], ARGV[3] + i, string.rep('v', ARGV[2])) \
     end return 1",
    "h1",
    240,
);
const BURST_SET: Burst =
    ("for i = 1, ARGV[1] do redis.pcall('SADD', KEYS[1], ARGV[3] + i) end return 1", "s1", 240);

fn any(choices: &[&str], dice: &mut Dice) -> Vec<u8> {
    dice.pick(choices).as_bytes().to_vec()
}

/// A word of a kind that the templates name.
fn word(kind: &str, dice: &mut Dice) -> Vec<u8> {
    let choices: &[&str] = match kind {
        // Now and then a key of another type, or one that nothing ever sets.
        _ if kind.len() == 1 && dice.chance(1, 12) => KEYS,
        "k" => KEYS,
        "t" => &["t1", "t2", "t3"],
        "h" => &["h1", "h2"],
        "s" => &["s1", "s2"],
        "z" => &["z1", "z2"],
        "x" => &["x1", "x2"],
        "value" if dice.chance(1, 10) => return vec![0, 255, 13, 10, b' ', b'"'],
        "value" => VALUES,
        "member" => MEMBERS,
        "int" => INTEGERS,
        "score" => SCORES,
        "bound" => BOUNDS,
        "lex" => &["-", "+", "[a", "(a", "[b", "(c", "[", "(", "a", "", "[zz", "(11"],
        "rank" => RANKS,
        "count" => &["0", "1", "2", "5", "-1", "1000", "abc", "1.5", "9223372036854775807"],
        "few" => &["0", "1", "2", "5", "1000", "abc"],
        "repeats" => &["-1", "-5", "0"],
        "id" => IDS,
        "edge" => EDGES,
        "trimid" => {
            &["0", "5", "5-1", "100", "1000-2", "70050", "abc", "+", "18446744073709551615"]
        }
        "length" => &["0", "1", "3", "50", "100", "150", "-1", "abc", "9223372036854775807"],
        "limit" => &["0", "1", "50", "100", "150", "1000", "-1", "abc"],
        "seconds" => &[
            "1000000",
            "100000000",
            "0",
            "-1",
            "9223372036854775807",
            "abc",
            "-9223372036854775808",
        ],
        "millis" => &["1000000000", "100000000000", "0", "-1", "9223372036854775807", "1.5"],
        "at" => {
            &["5000000000", "6000000000", "7000000000", "1", "0", "-1", "9223372036854775807", ""]
        }
        "atms" => &[
            "5000000000000",
            "6000000000001",
            "7000000000999",
            "1",
            "0",
            "-1",
            "9223372036854775807",
        ],
        "pattern" => &["*", "?1", "[a-m]*", "[^a]*", "*1*", "\\*", "", "h[12", "1?", "**2"],
        "type" => &["string", "hash", "set", "zset", "stream", "list"],
        _ => panic!("a template names an unknown kind of word: {kind}"),
    };
    any(choices, dice)
}

const KEYS: &[&str] = &["t1", "t2", "t3", "h1", "h2", "s1", "s2", "z1", "z2", "x1", "x2", "none"];

const VALUES: &[&str] = &[
    "",
    "a",
    "1",
    "-1",
    "0",
    "10",
    "9223372036854775807",
    "-9223372036854775808",
    "01",
    "+1",
    " 1",
    "1.5",
    "abc",
    "9223372036854775808",
    "-0",
    "some longer text with blanks, beyond sixty-four \
     bytes so that it is stored otherwise",
];

const MEMBERS: &[&str] = &["a", "b", "c", "d", "", "1", "2", "11", "zz", "A", "-5"];

const INTEGERS: &[&str] = &[
    "1",
    "2",
    "-1",
    "0",
    "100",
    "9223372036854775807",
    "-9223372036854775808",
    "-9223372036854775807",
    "9223372036854775808",
    "abc",
    "",
    "1.0",
    " 5",
    "5 ",
    "+5",
    "007",
    "-0",
];

const SCORES: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "-1",
    "1.5",
    "-2.25",
    "3.0",
    "1e3",
    "1e20",
    "-1e-5",
    "0.1",
    "inf",
    "-inf",
    "+inf",
    "1e17",
    "12345678901234567",
    "123456789012345678",
    "9007199254740993",
    "1700000000123",
    "1e400",
    "1e-400",
    "nan",
    "abc",
    "",
    " 1",
    "-0",
    "5.",
    ".5",
    "+7",
    "0.30000000000000004",
    "1.7976931348623157e308",
    "5e-324",
    "Infinity",
    "1_0",
    "3.0000000000000004e-7",
];

const BOUNDS: &[&str] = &[
    "0", "1", "2", "3", "(1", "(2", "-inf", "+inf", "inf", "(inf", "(-inf", "1.5", "(1.5", "1e3",
    "1e20", "-1", "5", "nan", "abc", "(", "1e400", "(0", "4", "6", "1e-400", "-0", "(-0",
];

const RANKS: &[&str] = &[
    "0",
    "1",
    "2",
    "5",
    "-1",
    "-2",
    "-5",
    "100",
    "-100",
    "9223372036854775807",
    "-9223372036854775808",
    "abc",
    "1.5",
];

const IDS: &[&str] = &[
    "1-1",
    "1-2",
    "2",
    "3-0",
    "5-5",
    "5-*",
    "7-1",
    "10-*",
    "100-1",
    "1000-0",
    "0-0",
    "0-1",
    "0-*",
    "abc",
    "1-",
    "-1",
    "1-1-1",
    "01-1",
    "+",
    "-",
    "$",
    "70100-1",
    "5-18446744073709551615",
    "80000",
    "99999-1",
    "100000-*",
    "",
    "18446744073709551616-1",
];

const EDGES: &[&str] = &[
    "-",
    "+",
    "0",
    "1",
    "5",
    "5-1",
    "(1-1",
    "(5",
    "(-",
    "(+",
    "100",
    "(100-1",
    "1000",
    "abc",
    "",
    "0-0",
    "(0-0",
    "70000",
    "18446744073709551615-18446744073709551615",
    "(18446744073709551615-18446744073709551615",
    "(5-0",
];

/// Words that fit nowhere, or where one does not expect them.
const AWKWARD: &[&str] = &[
    "",
    "0",
    "-1",
    "abc",
    "NX",
    "XX",
    "LIMIT",
    "WITHSCORES",
    "COUNT",
    "MATCH",
    "REV",
    "9223372036854775807",
    "-9223372036854775808",
    "1.5",
    "inf",
    "(",
    "[",
    "GET",
    "KEEPTTL",
    "EX",
    "~",
    "=",
    "MAXLEN",
    "a b",
    "\u{1}\r\n",
    "STREAMS",
    "none",
    "h1",
    "z1",
];

/// Every command, with its options in every combination, the forbidden ones included.
const TEMPLATES: &[&str] = &[
    "GET <t>",
    "SET <t> <value>",
    "SET <t> <value> [NX | XX | NX XX] [GET] [EX <seconds> | PX <millis> | EXAT <at> | PXAT <atms> | KEEPTTL]",
    "SET <t> <value> [KEEPTTL] [PXAT <atms>] [GET] [NX]",
    "SETNX <t> <value>",
    "GETDEL <t>",
    "APPEND <t> <value>",
    "STRLEN <t>",
    "MGET {<k>}",
    "MSET {<t> <value>}",
    "INCR <t>",
    "DECR <t>",
    "INCRBY <t> <int>",
    "DECRBY <t> <int>",
    "DEL {<k>}",
    "UNLINK {<k>}",
    "EXISTS {<k>}",
    "TYPE <k>",
    "COPY <k> <k> [REPLACE]",
    "RENAME <k> <k>",
    "EXPIRE <k> <seconds> [NX | XX | NX XX]",
    "PEXPIRE <k> <millis> [NX | XX]",
    "EXPIREAT <k> <at> [NX] [XX] [GT] [LT]",
    "PEXPIREAT <k> <atms> [NX | XX | GT | LT | XX GT]",
    "(TTL | PTTL | EXPIRETIME | PEXPIRETIME | PERSIST) <k>",
    "HGET <h> <member>",
    "HSET <h> {<member> <value>}",
    "HSET <h> {<member> <value>}",
    "HMSET <h> {<member> <value>}",
    "HSETNX <h> <member> <value>",
    "HMGET <h> {<member>}",
    "(HGETALL | HKEYS | HVALS | HLEN) <h>",
    "HDEL <h> {<member>}",
    "HINCRBY <h> <member> <int>",
    "(HEXISTS | HSTRLEN) <h> <member>",
    "HSCAN <h> 0 COUNT 1000 [MATCH <pattern>]",
    "SADD <s> {<member>}",
    "SADD <s> {<member>}",
    "SREM <s> {<member>}",
    "(SMEMBERS | SCARD) <s>",
    "SISMEMBER <s> <member>",
    "SMISMEMBER <s> {<member>}",
    "SRANDMEMBER <s> [<few> | <repeats>]",
    "SPOP <s> [<few>]",
    "SSCAN <s> 0 COUNT 1000 [MATCH <pattern>]",
    "ZADD <z> {<score> <member>}",
    "ZADD <z> {<score> <member>}",
    "ZADD <z> [NX | XX | NX XX] [GT | LT | GT LT] [CH] [INCR] {<score> <member>}",
    "ZADD <z> [XX] [GT | LT] INCR <score> <member>",
    "ZINCRBY <z> <score> <member>",
    "ZREM <z> {<member>}",
    "ZSCORE <z> <member>",
    "ZMSCORE <z> {<member>}",
    "ZCARD <z>",
    "ZCOUNT <z> <bound> <bound>",
    "(ZRANK | ZREVRANK) <z> <member> [WITHSCORE]",
    "ZRANGE <z> <rank> <rank> [REV] [WITHSCORES]",
    "ZRANGE <z> <bound> <bound> BYSCORE [REV] [LIMIT <rank> <rank>] [WITHSCORES]",
    "ZRANGE <z> <lex> <lex> BYLEX [REV] [LIMIT <rank> <rank>] [WITHSCORES]",
    "ZRANGE <z> <rank> <rank> [BYSCORE | BYLEX | BYSCORE BYLEX] [LIMIT <rank> <rank>]",
    "ZREVRANGE <z> <rank> <rank> [WITHSCORES]",
    "(ZRANGEBYSCORE | ZREVRANGEBYSCORE) <z> <bound> <bound> [WITHSCORES] [LIMIT <rank> <rank>]",
    "ZREMRANGEBYSCORE <z> <bound> <bound>",
    "ZREMRANGEBYRANK <z> <rank> <rank>",
    "(ZPOPMIN | ZPOPMAX) <z> [<count>]",
    "ZSCAN <z> 0 COUNT 1000 [MATCH <pattern>]",
    "XADD <x> <id> {<member> <value>}",
    "XADD <x> <id> {<member> <value>}",
    "XADD <x> [NOMKSTREAM] [MAXLEN | MINID] [~ | =] [<length> | <trimid>] [LIMIT <limit>] <id> <member> <value>",
    "XADD <x> [NOMKSTREAM] MAXLEN [~ | =] <length> <id> <member> <value>",
    "XADD <x> MINID [~ | =] <trimid> <id> <member> <value>",
    "XADD <x> * <member> <value>",
    "XLEN <x>",
    "XRANGE <x> <edge> <edge> [COUNT <count>]",
    "XREVRANGE <x> <edge> <edge> [COUNT <count>]",
    "XTRIM <x> MAXLEN [~ | =] <length> [LIMIT <limit>]",
    "XTRIM <x> MINID [~ | =] <trimid> [LIMIT <limit>]",
    "XTRIM <x> (MAXLEN | MINID) ~ (<length> | <trimid>)",
    "XDEL <x> {<id>}",
    "XREAD [COUNT <count>] STREAMS <x> (<id> | $)",
    "XREAD [COUNT <count>] STREAMS <x> <x> <id> <id>",
    "TIME",
    "PUBLISH <member> <value>",
    "SCAN 0 COUNT 1000 [MATCH <pattern>] [TYPE <type>]",
    "KEYS <pattern>",
    "DBSIZE",
    "PING [<value>]",
    "ECHO <value>",
    "(FLUSHALL | FLUSHDB) [SYNC | ASYNC | <value>]",
    "NOSUCH {<value>}",
];
