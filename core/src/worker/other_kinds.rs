//! Kinds that nobody handles: a claim tells of an execution that it passed over because of its
//! kind. If that has waited for long, the registry says whether a worker handles it.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::config::WorkerConfig;
use super::io::{Continuation, Io};
use super::observe::Observation;
use crate::call::scheduling::OtherKind;
use crate::client::WorkerEntry;
use crate::command::{Command, Reply};
use crate::id::{LaneId, WorkerInstanceId};
use crate::key::Key;
use crate::reply::fields;
use crate::time::LocalTime;
use crate::value::Value;

/// A kind of which executions wait in a lane.
type WaitingKind = (LaneId, String);

#[derive(Clone)]
pub(super) struct OtherKinds {
    config: Arc<WorkerConfig>,
    /// When each kind may be looked up again.
    checked: BTreeMap<WaitingKind, LocalTime>,
    /// The kind that is being looked up, how long an execution of it has waited, and whether the
    /// records of workers have been asked for.
    check: Option<(WaitingKind, u64, bool)>,
}

impl OtherKinds {
    pub(super) const fn new(config: Arc<WorkerConfig>) -> Self {
        Self { config, checked: BTreeMap::new(), check: None }
    }

    /// Claims have passed over an execution of a kind that this worker does not handle.
    pub(super) fn passed_over(&mut self, io: &mut Io, lane: LaneId, other: OtherKind) {
        // In which namespace it is, is not told.
        let Some(namespace) = self.config.filter.namespace() else { return };
        let now = io.now;
        let key = (lane, other.kind);
        let is_new = self.checked.get(&key).is_none_or(|at| *at <= now);
        if other.waited_ms < WAITED_MS || self.check.is_some() || !is_new {
            return;
        }
        if self.checked.len() >= KINDS_MAX {
            self.checked.retain(|_, at| *at > now);
        }
        if self.checked.len() >= KINDS_MAX {
            return;
        }
        self.checked.insert(key.clone(), now.after(CHECK_EVERY));
        self.check = Some((key, other.waited_ms, false));
        let indexes = [namespace.clone(), WorkerEntry::everywhere()];
        let read = |place| Command::read("SMEMBERS", &Key::Workers(place), &[]);
        io.request_in_background(indexes.map(read).into(), Continuation::OtherKind);
    }

    /// What was read from the registry. A failure is no answer: another claim will ask again.
    pub(super) fn on_replies(&mut self, io: &mut Io, replies: Vec<Reply>) {
        let Some((key, waited_ms, reads_records)) = self.check.take() else { return };
        let Ok(replies) = replies.into_iter().collect::<Result<Vec<Value>, _>>() else { return };
        if reads_records {
            if !replies.iter().any(|record| handles(record, &key)) {
                let (lane, kind) = key;
                io.observe(Observation::KindUnhandled { lane, kind, waited_ms });
            }
            return;
        }
        let Some(namespace) = self.config.filter.namespace() else { return };
        let places = [namespace.clone(), WorkerEntry::everywhere()];
        let mut reads = Vec::new();
        for (place, names) in places.iter().zip(replies) {
            for name in fields(names).into_iter().take(WORKERS_MAX) {
                let record = Key::worker_capabilities(place, &WorkerInstanceId::new(name));
                let names = [b"lanes_csv".as_slice(), WorkerEntry::KINDS.as_bytes()];
                reads.push(Command::read("HMGET", &record, &names));
            }
        }
        if reads.is_empty() {
            // The registry is lost, for this worker is not in it either.
            return;
        }
        self.check = Some((key, waited_ms, true));
        io.request_in_background(reads, Continuation::OtherKind);
    }
}

/// Whether a worker with this record serves the lane and handles the kind. One that does not say
/// what it handles may handle anything; one without a record is gone.
fn handles(record: &Value, (lane, kind): &WaitingKind) -> bool {
    let Value::Array(record) = record else { return false };
    let [Value::Bulk(lanes), kinds] = record.as_slice() else { return false };
    let lanes = String::from_utf8_lossy(lanes);
    let handles = match kinds {
        Value::Bulk(kinds) => {
            WorkerEntry::read_kinds(&String::from_utf8_lossy(kinds)).contains(kind)
        }
        Value::Nil | Value::Int(_) | Value::Status(_) | Value::Error(_) | Value::Array(_) => true,
    };
    handles && lanes.split(',').any(|served| served == lane.as_str())
}

/// An execution that has waited for so long is looked into. A rolling deployment takes less, most
/// often.
const WAITED_MS: u64 = 30_000;
/// A kind is looked up once in this time.
const CHECK_EVERY: Duration = Duration::from_secs(60);
/// Most kinds that are remembered.
const KINDS_MAX: usize = 64;
/// Most workers of a namespace that are looked at.
const WORKERS_MAX: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_handles_a_kind_if_it_serves_the_lane_and_does_not_say_otherwise() {
        let bulk = |text: &str| Value::Bulk(text.into());
        let key = |kind: &str| (LaneId::default_lane(), String::from(kind));
        let record = |lanes: &str, kinds| Value::Array(alloc::vec![bulk(lanes), kinds]);
        assert!(handles(&record("a,default", bulk("x\ny")), &key("y")));
        assert!(handles(&record("default", Value::Nil), &key("y")), "it says nothing");
        assert!(!handles(&record("default", bulk("x")), &key("y")));
        assert!(!handles(&record("a", bulk("y")), &key("y")));
        let gone = Value::Array(alloc::vec![Value::Nil, Value::Nil]);
        assert!(!handles(&gone, &key("y")));
    }
}
