//! The trace of a run: a rolling hash over all events, checkpoints of that hash, and the last
//! events.
//!
//! Two runs are the same exactly if their hashes are the same; the checkpoints show where they
//! differ first.

use std::collections::VecDeque;

use selvedge_core::engine::{Observation, ScanCounts};
use selvedge_core::value::Value;

use crate::event::{Event, EventKind, Learned};

/// The number of events between two checkpoints.
pub const CHECKPOINT_EVERY: u64 = 1_024;

/// A hash that is fed in pieces. It tells runs apart and is not cryptographic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    /// Feeds a number.
    pub fn number(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }

    /// Feeds bytes, and their length.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            self.number(u64::from_le_bytes(chunk.try_into().unwrap_or([0; 8])));
        }
        let mut rest = [0; 8];
        rest[..chunks.remainder().len()].copy_from_slice(chunks.remainder());
        self.number(u64::from_le_bytes(rest));
    }

    /// Feeds a value.
    pub fn value(&mut self, value: &Value) {
        match value {
            Value::Nil => self.number(1),
            Value::Int(number) => {
                self.number(2);
                self.number(number.cast_unsigned());
            }
            Value::Bulk(bytes) => self.bytes(bytes),
            Value::Status(text) | Value::Error(text) => self.bytes(text.as_bytes()),
            Value::Array(elements) => {
                self.number(elements.len() as u64 + 3);
                elements.iter().for_each(|element| self.value(element));
            }
        }
    }

    /// The hash so far.
    #[must_use]
    pub const fn finish(self) -> u64 {
        self.0
    }
}

/// The recorded trace of a run.
#[derive(Clone, Debug)]
pub struct Trace {
    digest: Digest,
    events: u64,
    checkpoints: Vec<u64>,
    tail: VecDeque<Event>,
    tail_max: usize,
}

impl Trace {
    /// An empty trace that keeps the last `tail_max` events.
    #[must_use]
    pub fn new(tail_max: usize) -> Self {
        Self {
            digest: Digest::default(),
            events: 0,
            checkpoints: Vec::new(),
            tail: VecDeque::new(),
            tail_max,
        }
    }

    /// The same trace, but keeping another number of events.
    #[must_use]
    pub fn keeping(&self, tail_max: usize) -> Self {
        Self { tail_max, ..self.clone() }
    }

    /// Adds an event.
    pub fn add(&mut self, event: Event) {
        feed(&mut self.digest, &event);
        self.events += 1;
        if self.events.is_multiple_of(CHECKPOINT_EVERY) {
            self.checkpoints.push(self.digest.finish());
        }
        if self.tail_max > 0 {
            if self.tail.len() == self.tail_max {
                self.tail.pop_front();
            }
            self.tail.push_back(event);
        }
    }

    /// The hash over all events.
    #[must_use]
    pub const fn hash(&self) -> u64 {
        self.digest.finish()
    }

    /// The number of events.
    #[must_use]
    pub const fn events(&self) -> u64 {
        self.events
    }

    /// The hash after every [`CHECKPOINT_EVERY`] events.
    #[must_use]
    pub fn checkpoints(&self) -> &[u64] {
        &self.checkpoints
    }

    /// The last events, oldest first.
    pub fn tail(&self) -> impl Iterator<Item = &Event> {
        self.tail.iter()
    }
}

fn feed(digest: &mut Digest, event: &Event) {
    digest.number(event.at_ms);
    digest.number(event.ordinal);
    let (kind, number) = event.actor.place();
    digest.number(u64::from(kind));
    digest.number(u64::from(number));
    match &event.kind {
        EventKind::Sent { call, node, argv } => {
            digest.number(1);
            digest.number(*call);
            digest.number(u64::from(*node));
            argv.iter().for_each(|word| digest.bytes(word));
        }
        EventKind::Applied(applied) => {
            digest.number(2);
            digest.number(applied.call);
            digest.number(applied.server_time_us);
            digest.value(&applied.reply);
            digest.number(applied.commit.unwrap_or(0));
            applied.writes.iter().flatten().for_each(|word| digest.bytes(word));
        }
        EventKind::Delivered { call, learned } | EventKind::Returned { call, learned } => {
            digest.number(3);
            digest.number(*call);
            digest_learned(digest, learned);
        }
        EventKind::Lost { call, applied } => {
            digest.number(4 + u64::from(*applied));
            digest.number(*call);
        }
        EventKind::Fault { fault, detail } => {
            text(digest, 6, fault.name());
            digest.bytes(detail.as_bytes());
        }
        // These two are nearly all observations, and formatting them would be slow.
        EventKind::Observed(Observation::ScanDone { scanner, partition, counts }) => {
            text(digest, 14, scanner.as_str());
            digest.bytes(partition.family.as_str().as_bytes());
            digest.number(u64::from(partition.index));
            digest_counts(digest, counts);
        }
        EventKind::Observed(Observation::CycleDone { scanner, elapsed_ms, counts }) => {
            text(digest, 15, scanner.as_str());
            digest.number(*elapsed_ms);
            digest_counts(digest, counts);
        }
        EventKind::Observed(fact) => text(digest, 7, &format!("{fact:?}")),
        EventKind::WorkerObserved(fact) => text(digest, 16, &format!("{fact:?}")),
        EventKind::Handler { lease, step, .. } => text(digest, 19, &format!("{lease} {step:?}")),
        EventKind::Capacity(capacity) => text(digest, 20, &capacity.to_string()),
        EventKind::Invoked { call, function, argv } => {
            text(digest, 8, function);
            digest.number(*call);
            digest.number(argv.len() as u64);
        }
        EventKind::Succeeded { .. } | EventKind::Waits { .. } | EventKind::WaitOver { .. } => {
            digest_of_client(digest, &event.kind);
        }
        EventKind::Started => digest.number(9),
        EventKind::Died => digest.number(10),
        EventKind::Phase(phase) => text(digest, 11, &format!("{phase:?}")),
        EventKind::CommitsLost { node, first, last } => {
            digest.number(12);
            digest.number(u64::from(*node));
            digest.number(*first);
            digest.number(*last);
        }
        EventKind::Note(words) | EventKind::KeyOnTwoNodes(words) => text(digest, 13, words),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the others are not events of the client")]
fn digest_of_client(digest: &mut Digest, kind: &EventKind) {
    match kind {
        EventKind::Succeeded { claim, executions } => {
            text(digest, 18, &format!("{claim:?}"));
            digest.number(executions.len() as u64);
        }
        EventKind::Waits { waiter, executions } => {
            digest.number(16);
            digest.number(*waiter);
            digest.number(executions.len() as u64);
        }
        EventKind::WaitOver { waiter, ended } => {
            digest.number(17);
            digest.number(*waiter);
            ended
                .iter()
                .flatten()
                .for_each(|(_, outcome)| digest.bytes(outcome.as_str().as_bytes()));
        }
        _ => {}
    }
}

fn text(digest: &mut Digest, kind: u64, text: &str) {
    digest.number(kind);
    digest.bytes(text.as_bytes());
}

fn digest_learned(digest: &mut Digest, learned: &Learned) {
    match learned {
        Learned::Reply(value) => digest.value(value),
        Learned::NotApplied(why) => text(digest, 1, why),
        Learned::PerhapsApplied(why) => text(digest, 2, why),
    }
}

fn digest_counts(digest: &mut Digest, counts: &ScanCounts) {
    let ScanCounts { processed, nothing, refused, skipped, failed, deferred, set_aside, .. } =
        *counts;
    for count in [processed, nothing, refused, skipped, failed, deferred, set_aside] {
        digest.number(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Actor;

    fn event(ordinal: u64, note: &str) -> Event {
        let what = EventKind::Note(note.to_owned());
        Event { at_ms: 7, ordinal, actor: Actor::World, kind: what }
    }

    #[test]
    fn any_difference_shows_in_the_hash() {
        let hash = |notes: &[&str]| {
            let mut trace = Trace::new(2);
            (0..).zip(notes).for_each(|(ordinal, note)| trace.add(event(ordinal, note)));
            trace.hash()
        };
        assert_eq!(hash(&["a", "b"]), hash(&["a", "b"]));
        assert_ne!(hash(&["a", "b"]), hash(&["b", "a"]));
        assert_ne!(hash(&["ab"]), hash(&["a", "b"]));
        assert_ne!(hash(&["12345678"]), hash(&["12345678\0"]));
    }

    #[test]
    fn the_tail_is_bounded_and_checkpoints_are_recorded() {
        let mut trace = Trace::new(2);
        (0..2_050).for_each(|ordinal| trace.add(event(ordinal, "x")));
        assert_eq!(trace.tail().map(|event| event.ordinal).collect::<Vec<_>>(), [2_048, 2_049]);
        assert_eq!(trace.checkpoints().len(), 2);
        assert_eq!(trace.events(), 2_050);
    }
}
