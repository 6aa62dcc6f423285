//! Any commands on the in-process host: three simple models must agree with it.
//! [`crate::conformance`] compares it with real servers.
//!
//! The models: a second host with the same seed, time and commands; a replica that gets only the
//! writes that the host reports; and the keyspace as plain data, put into an empty host.

use selvedge_core::value::Value;
use selvedge_lua::host::{Host, HostConfig};

use super::feedback;
use crate::conformance::{Sequence, Step, commands, scripts};
use crate::hostile::keyspace_data::{Content, Entry, KeyspaceData};
use selvedge_sim::search::Draws;

/// Carries out the commands that these bytes choose.
///
/// # Panics
/// When a model disagrees with the host.
pub fn run(data: &[u8]) {
    let (Some((kind, rest)), mut host) = (data.split_first(), host()) else { return };
    let steps = steps(*kind, rest);
    let (mut twin, mut replica) = (self::host(), self::host());
    let halfway = steps.len() / 2;
    let mut pauses = Draws::given(rest);
    let mut snapshot = None;
    for (index, step) in steps.iter().enumerate() {
        if index == halfway {
            snapshot = Some((host.snapshot(), host.digest(), host.now_us()));
        }
        let now_us = host.now_us() + PAUSES_US[pauses.index(PAUSES_US.len())];
        for one in [&mut host, &mut twin, &mut replica] {
            one.set_now_us(now_us);
        }
        let reply = host.call(&step.command);
        assert_eq!(twin.call(&step.command), reply, "{step:?} has two answers");
        for write in host.last_writes() {
            replica.call(&write);
        }
        if let Value::Error(text) = &reply {
            feedback::show(&[text.as_bytes().split_at(text.len().min(30)).0]);
        }
    }
    assert!(twin.digest() == host.digest(), "two hosts differ:\n{}\n{}", host.dump(), twin.dump());
    assert!(
        replica.digest() == host.digest(),
        "the writes do not make the keyspace:\n{}\n{}",
        host.dump(),
        replica.dump()
    );
    reads_back(&mut host);
    if let Some((snapshot, digest, now_us)) = snapshot {
        host.restore(&snapshot);
        host.set_now_us(now_us);
        assert!(host.digest() == digest, "a snapshot does not bring back what it took");
    }
}

/// Reading changes nothing, and what is read makes the same keyspace elsewhere.
fn reads_back(host: &mut Host) {
    // In an open transaction reads would be queued.
    host.call(&["DISCARD"]);
    let digest = host.digest();
    let keyspace = KeyspaceData::read(host);
    assert!(host.digest() == digest, "reading has changed something");
    // A stream without entries is there for its last id alone, which no command of the host tells.
    let untold =
        |entry: &Entry| matches!(entry.content, Content::Stream(_)) && entry.content.is_empty();
    for (key, _) in keyspace.keys.iter().filter(|(_, entry)| untold(entry)) {
        host.call(&[b"DEL", key.as_slice()]);
    }
    let dump = host.dump();
    let mut other = self::host();
    keyspace.put(&mut other);
    let again = other.dump();
    assert!(told(&dump).eq(told(&again)), "read as something else:\n{dump}\n{again}");
}

/// The lines of a dump, but for the last ids of streams: an entry that is gone may have had it.
fn told(dump: &str) -> impl Iterator<Item = &str> {
    let mut behind_stream = false;
    dump.lines()
        .filter(move |line| !std::mem::replace(&mut behind_stream, line.starts_with("stream ")))
}

/// The commands: data commands, Lua bodies, or words of the fuzzer's own.
fn steps(kind: u8, rest: &[u8]) -> Vec<Step> {
    let Sequence { steps, .. } = match kind % 3 {
        0 => commands::drawn(Draws::given(rest), rest.len() / 4 + 1),
        1 => scripts::drawn(Draws::given(rest), rest.len() / 16 + 2),
        _ => Sequence { steps: raw(rest), on_redis: false },
    };
    steps.into_iter().take(STEPS_MAX).collect()
}

/// One command a line, its words parted by blanks.
fn raw(bytes: &[u8]) -> Vec<Step> {
    let words = |line: &[u8]| -> Vec<Vec<u8>> {
        line.split(|byte| *byte == b' ').map(<[u8]>::to_vec).collect()
    };
    bytes.split(|byte| *byte == b'\n').map(|line| Step::exact(&words(line))).collect()
}

fn host() -> Host {
    let mut host = Host::new(HostConfig { instruction_budget: 200_000, ..HostConfig::default() });
    host.set_now_us(1_800_000_000_000_000);
    host
}

const STEPS_MAX: usize = 64;

/// Mostly none, so that expiries stay apart; at times past the shorter and the longer ones.
const PAUSES_US: [u64; 6] = [0, 0, 0, 1_000, 2_000_000, 2_000_000_000_000_000];
