//! Inputs in which a scanner finds something to do.
//!
//! Bytes choose events, functions and keyspaces by index, so the same bytes mean something else
//! when one of these is added. An input must still do what its name says; if not, another one is
//! found.

use std::collections::{BTreeMap, BTreeSet};

use arbitrary::{Arbitrary, Unstructured};
use selvedge_core::engine::ScannerName;

use super::{Story, StoryRun, prepare};
use crate::fuzz::lua_call;

/// What the scanners made of their candidates in a story: `unblock-processed`, `unblock-refused`.
#[must_use]
pub fn work(data: &[u8]) -> BTreeSet<String> {
    let Ok(story) = Story::arbitrary_take_rest(Unstructured::new(data)) else {
        return BTreeSet::new();
    };
    let mut work = BTreeSet::new();
    lua_call::with_runner(|runner| {
        prepare(runner, story.keyspace);
        let run = StoryRun::new(&story, &mut runner.host).play(&story);
        for (scanner, counts) in &run.counts {
            let some = counts.by_name().into_iter().filter(|(_, count)| *count > 0);
            work.extend(some.map(|(word, _)| name(*scanner, word)));
        }
    });
    work
}

/// What an input is called in which a scanner does this.
#[must_use]
pub fn name(scanner: ScannerName, word: &str) -> String {
    format!("{scanner}-{word}")
}

/// For everything that any recorded keyspace gives any scanner to do, a story of it.
#[must_use]
pub fn examples() -> BTreeMap<String, Vec<u8>> {
    let mut keyspaces = Vec::new();
    lua_call::with_runner(|runner| {
        let functions = runner.corpus.functions();
        for (place, function) in functions.iter().enumerate() {
            let calls = 0..runner.corpus.calls(function).len();
            keyspaces.extend(
                calls.filter_map(|call| u16::try_from(call * functions.len() + place).ok()),
            );
        }
    });
    let mut examples = BTreeMap::new();
    for keyspace in keyspaces {
        for filter in 0..3 {
            let bytes = rounds_in(keyspace, filter);
            for name in work(&bytes) {
                examples.entry(name).or_insert_with(|| bytes.clone());
            }
        }
    }
    examples
}

/// A story of many rounds, all of them answered by the truth.
fn rounds_in(keyspace: u16, filter: u8) -> Vec<u8> {
    let (window, dispatch, partitions) = ([15, 3], [7, 7], [2, 2, 2]);
    let ticket_timeout_ms = 60_000_u16.to_le_bytes();
    let seed = [0; 8];
    let mut bytes =
        [&window[..], &dispatch, &ticket_timeout_ms, &partitions, &[filter], &seed].concat();
    bytes.extend(keyspace.to_le_bytes());
    for _ in 0..ROUNDS {
        let half_a_minute = [&30_000_u16.to_le_bytes()[..], &[u8::from(false)]].concat();
        bytes.extend(event(WAKE).chain(half_a_minute));
        bytes.extend((0..ANSWERS).flat_map(|_| event(ANSWER_ALL)));
    }
    bytes
}

/// That there is another event, and which.
fn event(place: u64) -> impl Iterator<Item = u8> {
    let number = (place << u32::BITS).div_ceil(EVENTS);
    let number = u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes();
    [u8::from(true)].into_iter().chain(number)
}

/// How many kinds of events there are, and the places of two among them.
const EVENTS: u64 = 12;
const WAKE: u64 = 0;
const ANSWER_ALL: u64 = 2;

/// As many as a story may have, in all.
const ROUNDS: usize = 6;
const ANSWERS: usize = 7;
