//! Random sequences of data commands: few keys, few members, and many odd words.

use selvedge_sim::search::{Draws, Ratio};

use super::command_words::{
    AWKWARD, BOUNDS, EDGES, IDS, INTEGERS, KEYS, MEMBERS, RANKS, SCORES, TEMPLATES, VALUES,
};
use super::grammar::expand;
use super::one_of;
use super::{Comparison, Sequence, Step};

/// The sequence of a seed.
#[must_use]
pub fn sequence(seed: u64, steps: usize) -> Sequence {
    drawn(Draws::seeded(seed, 0), steps)
}

/// The sequence that these draws choose.
#[must_use]
pub fn drawn(mut draws: Draws, steps: usize) -> Sequence {
    let steps = (0..steps).map(|_| step(&mut draws)).collect();
    Sequence { steps, on_redis: true }
}

fn step(draws: &mut Draws) -> Step {
    if draws.chance(Ratio { hits: 1, of: 200 }) {
        return burst(draws);
    }
    let template = one_of(draws, TEMPLATES);
    let mut command = expand(template, draws, &mut word);
    let spoiled = draws.chance(Ratio { hits: 1, of: 12 });
    if spoiled {
        spoil(&mut command, draws);
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
fn spoil(command: &mut Vec<Vec<u8>>, draws: &mut Draws) {
    // The name stays: other words could be the name of a command that takes the server away.
    if command.len() == 1 {
        return command.push(any(AWKWARD, draws));
    }
    let place = 1 + draws.index(command.len() - 1);
    match draws.index(5) {
        0 => {
            command.remove(place);
        }
        1 => command.insert(place, command[place].clone()),
        2 => command[place] = any(AWKWARD, draws),
        3 => {
            let text = command[place].to_ascii_lowercase();
            command[place] = text;
        }
        _ => command.push(any(AWKWARD, draws)),
    }
}

/// Enough elements at once that a server changes how it stores them.
fn burst(draws: &mut Draws) -> Step {
    let (body, key, count_max) =
        one_of(draws, &[&BURST_STREAM, &BURST_ZSET, &BURST_HASH, &BURST_SET]);
    let count = (40 + draws.index(count_max - 40)).to_string();
    let size = any(&["1", "5", "30", "70", "300"], draws);
    let start = any(&["1", "50", "1000", "70000"], draws);
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

fn any(choices: &[&str], draws: &mut Draws) -> Vec<u8> {
    one_of(draws, choices).as_bytes().to_vec()
}

/// A word of a kind that the templates name.
fn word(kind: &str, draws: &mut Draws) -> Vec<u8> {
    let choices: &[&str] = match kind {
        // Now and then a key of another type, or one that nothing ever sets.
        _ if kind.len() == 1 && draws.chance(Ratio { hits: 1, of: 12 }) => KEYS,
        "k" => KEYS,
        "t" => &["t1", "t2", "t3"],
        "h" => &["h1", "h2"],
        "s" => &["s1", "s2"],
        "z" => &["z1", "z2"],
        "x" => &["x1", "x2"],
        "value" if draws.chance(Ratio { hits: 1, of: 10 }) => {
            return vec![0, 255, 13, 10, b' ', b'"'];
        }
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
    any(choices, draws)
}
