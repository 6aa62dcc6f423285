//! What the comparison with real servers cannot show: the passing of time, the draws, the pages
//! of a scan, and the write log.

use std::collections::BTreeSet;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng as _;
use selvedge_core::value::Value;

use super::{Env, execute};
use crate::host::Message;
use crate::host::keyspace::Keyspace;

/// A keyspace to try commands on, at a time that the test sets.
struct Bench {
    keyspace: Keyspace,
    now_us: u64,
    random: ChaCha8Rng,
    unruly_scans: bool,
    published: Vec<Message>,
    writes: Vec<Vec<Vec<u8>>>,
}

impl Bench {
    fn new() -> Self {
        Self {
            keyspace: Keyspace::default(),
            now_us: 1_700_000_000_123_456,
            random: ChaCha8Rng::seed_from_u64(1),
            unruly_scans: false,
            published: Vec::new(),
            writes: Vec::new(),
        }
    }

    /// Runs a command given as words with blanks between.
    fn run(&mut self, line: &str) -> Value {
        let argv: Vec<_> = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        let mut env = Env {
            keyspace: &mut self.keyspace,
            now_us: self.now_us,
            random: &mut self.random,
            unruly_scans: self.unruly_scans,
            published: &mut self.published,
            writes: &mut self.writes,
        };
        execute(&mut env, argv)
    }

    fn after_ms(&mut self, ms: u64) {
        self.now_us += ms * 1000;
    }

    /// The write log as lines, emptied.
    fn take_writes(&mut self) -> Vec<String> {
        let spell = |argv: Vec<Vec<u8>>| {
            let words: Vec<_> = argv.iter().map(|word| word.escape_ascii().to_string()).collect();
            words.join(" ")
        };
        self.writes.drain(..).map(spell).collect()
    }
}

fn text(value: &Value) -> String {
    let Value::Bulk(bytes) = value else { panic!("not a bulk string: {value:?}") };
    bytes.escape_ascii().to_string()
}

fn texts(value: &Value) -> Vec<String> {
    let Value::Array(items) = value else { panic!("not an array: {value:?}") };
    items.iter().map(text).collect()
}

/// Walks a whole scan and answers all elements and the number of pages.
fn walk(bench: &mut Bench, before_cursor: &str, behind: &str) -> (Vec<String>, usize) {
    let (mut cursor, mut seen, mut pages) = ("0".to_owned(), Vec::new(), 0);
    loop {
        let Value::Array(reply) = bench.run(&format!("{before_cursor} {cursor}{behind}")) else {
            panic!("a scan answers an array");
        };
        cursor = text(&reply[0]);
        seen.extend(texts(&reply[1]));
        pages += 1;
        if cursor == "0" {
            return (seen, pages);
        }
    }
}

#[test]
fn a_key_lives_through_the_millisecond_of_its_expiry() {
    let mut bench = Bench::new();
    bench.run("set k v px 100");
    bench.after_ms(100);
    assert_eq!(bench.run("get k"), Value::Bulk(b"v".to_vec()));
    assert_eq!(bench.run("pttl k"), Value::Int(0));
    bench.after_ms(1);
    assert_eq!(bench.run("get k"), Value::Nil);
    assert_eq!(bench.run("dbsize"), Value::Int(0));
    assert_eq!(bench.run("ttl k"), Value::Int(-2));
}

#[test]
fn an_expired_key_counts_for_nothing_when_written() {
    let mut bench = Bench::new();
    bench.run("hset h f v");
    bench.run("pexpire h 10");
    bench.after_ms(11);
    assert_eq!(bench.run("sadd h member"), Value::Int(1));
    assert_eq!(bench.run("pttl h"), Value::Int(-1));
    assert_eq!(bench.run("smembers h"), Value::Array(vec![Value::Bulk(b"member".to_vec())]));
}

#[test]
fn ttl_rounds_to_the_nearest_second() {
    let mut bench = Bench::new();
    bench.run("set k v px 1499");
    assert_eq!(bench.run("ttl k"), Value::Int(1));
    bench.run("set k v px 1500");
    assert_eq!(bench.run("ttl k"), Value::Int(2));
}

#[test]
fn time_is_the_given_one_to_the_microsecond() {
    let mut bench = Bench::new();
    assert_eq!(texts(&bench.run("time")), ["1700000000", "123456"]);
}

#[test]
fn a_stream_takes_its_ids_from_the_clock_and_never_goes_back() {
    let mut bench = Bench::new();
    assert_eq!(text(&bench.run("xadd s * f v")), "1700000000123-0");
    assert_eq!(text(&bench.run("xadd s * f v")), "1700000000123-1");
    bench.now_us -= 1_000_000;
    assert_eq!(text(&bench.run("xadd s * f v")), "1700000000123-2");
}

#[test]
fn the_write_log_holds_what_changed_and_nothing_else() {
    let mut bench = Bench::new();
    bench.run("set k v");
    bench.run("get k");
    bench.run("del nothing");
    bench.run("sadd k wrong");
    bench.run("setnx k other");
    bench.run("expire nothing 10");
    bench.run("hset h f v");
    bench.run("hsetnx h f other");
    bench.run("zadd z 1 a");
    bench.run("zadd z 1 a");
    assert_eq!(bench.take_writes(), ["set k v", "hset h f v", "zadd z 1 a"]);
}

#[test]
fn chance_and_time_are_spelled_out_in_the_write_log() {
    let mut bench = Bench::new();
    bench.run("sadd s a b c d");
    bench.run("xadd x maxlen 5 * f v");
    bench.take_writes();
    let popped = text(&bench.run("spop s"));
    let two = texts(&bench.run("spop s 2"));
    bench.run("spop s 0");
    bench.run("xadd x * f v");
    assert_eq!(
        bench.take_writes(),
        [
            format!("SREM s {popped}"),
            format!("SREM s {}", two.join(" ")),
            "xadd x 1700000000123-1 f v".to_owned()
        ]
    );
}

#[test]
fn a_set_popped_to_the_end_is_gone() {
    let mut bench = Bench::new();
    bench.run("sadd s a b c");
    let popped: BTreeSet<_> = texts(&bench.run("spop s 9")).into_iter().collect();
    assert_eq!(popped.len(), 3);
    assert_eq!(bench.run("exists s"), Value::Int(0));
}

#[test]
fn draws_repeat_with_the_seed_and_reach_every_member() {
    let draw = |seed: u64| {
        let mut bench = Bench::new();
        bench.random = ChaCha8Rng::seed_from_u64(seed);
        bench.run("sadd s a b c d e f g h");
        texts(&bench.run("srandmember s -50"))
    };
    assert_eq!(draw(7), draw(7));
    assert_ne!(draw(7), draw(8));
    assert_eq!(draw(7).into_iter().collect::<BTreeSet<_>>().len(), 8);
}

#[test]
fn an_unruly_scan_reaches_every_member_and_tells_of_some_twice() {
    let mut bench = Bench::new();
    bench.unruly_scans = true;
    bench.run("sadd s a b c d e f g h");
    let (mut told, mut walks) = (Vec::new(), 0);
    while walks < 20 {
        let mut cursor = "0".to_owned();
        loop {
            let Value::Array(page) = bench.run(&format!("sscan s {cursor} count 2")) else {
                panic!("a page");
            };
            cursor = text(&page[0]);
            told.extend(texts(&page[1]));
            if cursor == "0" {
                break;
            }
        }
        walks += 1;
        assert_eq!(told.iter().collect::<BTreeSet<_>>().len(), 8, "after {walks} walks");
    }
    assert!(told.len() > 20 * 8, "nobody was told of twice");
}

#[test]
fn a_draw_without_repeats_has_none() {
    let mut bench = Bench::new();
    bench.run("sadd s a b c d e f g h");
    let five = texts(&bench.run("srandmember s 5"));
    assert_eq!(five.iter().collect::<BTreeSet<_>>().len(), 5);
    assert_eq!(texts(&bench.run("srandmember s 50")).len(), 8);
}

#[test]
fn a_draw_no_machine_could_answer_is_refused() {
    let mut bench = Bench::new();
    bench.run("sadd s a");
    let answer = bench.run("srandmember s -9223372036854775807");
    assert_eq!(answer, Value::Error("ERR value is out of range".to_owned()));
}

#[test]
fn a_large_collection_comes_in_pages_and_completely() {
    let mut bench = Bench::new();
    for number in 0..1000 {
        bench.run(&format!("sadd s member{number}"));
        bench.run(&format!("hset h field{number} value"));
        bench.run(&format!("zadd z {number} member{number}"));
        bench.run(&format!("set key{number} value"));
    }
    let (members, pages) = walk(&mut bench, "sscan s", " count 100");
    assert_eq!((members.len(), pages), (1000, 10));
    assert_eq!(members.iter().collect::<BTreeSet<_>>().len(), 1000);
    assert_eq!(walk(&mut bench, "hscan h", " novalues").0.len(), 1000);
    assert_eq!(walk(&mut bench, "zscan z", " noscores match member99*").0.len(), 11);
    assert_eq!(walk(&mut bench, "scan", " type string count 7").0.len(), 1000);
}

#[test]
fn a_scan_misses_nothing_that_stays_while_others_go() {
    let mut bench = Bench::new();
    for number in 0..1000 {
        bench.run(&format!("sadd s member{number}"));
    }
    let (mut cursor, mut seen) = ("0".to_owned(), BTreeSet::new());
    loop {
        let Value::Array(reply) = bench.run(&format!("sscan s {cursor}")) else {
            panic!("a scan answers an array");
        };
        cursor = text(&reply[0]);
        for member in texts(&reply[1]) {
            // What was seen and is removed must not shift the rest.
            bench.run(&format!("srem s {member}"));
            seen.insert(member);
        }
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(seen.len(), 1000);
}

#[test]
fn a_published_message_is_kept() {
    let mut bench = Bench::new();
    assert_eq!(bench.run("publish news hello"), Value::Int(0));
    let message = Message { channel: b"news".to_vec(), payload: b"hello".to_vec() };
    assert_eq!(bench.published, [message]);
}

#[test]
fn the_digest_tells_contents_apart_and_forgets_history() {
    let digest_after = |lines: &[&str]| {
        let mut bench = Bench::new();
        for line in lines {
            bench.run(line);
        }
        let now_ms = i64::try_from(bench.now_us / 1000).expect("a time of this age");
        (bench.keyspace.digest(now_ms), bench.keyspace.dump(now_ms))
    };
    let straight = digest_after(&["hset h a 1 b 2", "zadd z 1 x"]);
    let roundabout =
        digest_after(&["zadd z 5 x", "hset h b 2 c 3", "hset h a 1", "hdel h c", "zadd z 1 x"]);
    assert_eq!(straight, roundabout);
    let others: [&[&str]; 5] = [
        &["hset h a 1 b 3", "zadd z 1 x"],
        &["hset h a 1 b 2", "zadd z 2 x"],
        &["hset h a 1 b 2", "zadd z 1 x", "pexpire z 5"],
        &["hset h a 1 b 2"],
        &["hset h ab 1 b 2", "zadd z 1 x"],
    ];
    for other in others {
        let other = digest_after(other);
        assert_ne!(straight.0, other.0);
        assert_ne!(straight.1, other.1);
    }
}

#[test]
fn xread_plus_asks_for_the_entry_added_last() {
    let mut bench = Bench::new();
    for line in ["xadd s 1-1 a b", "xadd s 1-2 c d"] {
        bench.run(line);
    }
    assert_eq!(bench.run("xread streams s +"), bench.run("xread streams s 1-1"));
    bench.run("xdel s 1-2");
    assert_eq!(bench.run("xread streams s +"), Value::Nil);
    assert_eq!(bench.run("xread streams none +"), Value::Nil);
}
