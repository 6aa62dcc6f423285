//! Explains why an execution is in its state, from what the store holds.

use std::collections::BTreeSet;

use selvedge_core::audit::{Entry, Snapshot, Stored};
use selvedge_core::command::Command;
use selvedge_core::engine::EngineConfig;
use selvedge_core::explain::{self, EDGES_MAX, Explanation, Read};
use selvedge_core::id::{ExecutionId, LaneId};
use selvedge_core::key::{Key, LaneIndex};
use selvedge_core::state::StateVector;
use selvedge_core::value::Value;

use crate::client::{Client, ClientError, as_bytes, fields as texts, text};

impl Client {
    /// Explains the state of an execution: what it waits for, what can change that, and by when.
    /// The engine's configuration gives the intervals of its scanners. At most six round trips.
    ///
    /// # Errors
    /// [`ClientError::NotFound`] when it does not exist; otherwise when the store does not answer.
    pub async fn explain(
        &self,
        id: &ExecutionId,
        config: &EngineConfig,
    ) -> Result<Explanation, ClientError> {
        let mut snapshot = Snapshot::new(self.store().server_time().await?);
        let mut seen = BTreeSet::new();
        loop {
            let reads: Vec<Read> = explain::reads(&snapshot, id)
                .into_iter()
                .filter(|read| seen.insert(read.clone()))
                .collect();
            if reads.is_empty() {
                break;
            }
            let replies = self.read(reads.iter().map(command).collect()).await?;
            for (read, reply) in reads.iter().zip(replies) {
                insert(&mut snapshot, read, reply);
            }
        }
        let not_found = || ClientError::NotFound { kind: "execution", id: id.to_string() };
        match self.missing_from(&snapshot, id).await? {
            None => explain::explain(&snapshot, id, config),
            Some((lane, index)) => explain::explain_missing(&snapshot, id, config, (&lane, index)),
        }
        .ok_or_else(not_found)
    }

    /// The lane index that an execution should be in and is not. Its record is read before and
    /// after the index, so that a concurrent move is not taken for a loss.
    async fn missing_from(
        &self,
        snapshot: &Snapshot,
        id: &ExecutionId,
    ) -> Result<Option<(LaneId, LaneIndex)>, ClientError> {
        let Some(execution) = snapshot.execution(id) else { return Ok(None) };
        let lane = execution.core.text("lane_id").parse::<LaneId>();
        let home = execution.vector().ok().and_then(|vector| vector.home());
        let (Ok(lane), Some(index)) = (lane, home) else { return Ok(None) };
        let fields = StateVector::FIELDS.map(str::as_bytes);
        let record = Command::read("HMGET", &Key::execution(id).core(), &fields);
        let place = Key::index(id.partition()).lane(&lane, index);
        let entry = Command::read("ZSCORE", &place, &[id.as_str().as_bytes()]);
        let replies = self.read(vec![record.clone(), entry, record]).await?;
        let [before, Value::Nil, after] = &replies[..] else { return Ok(None) };
        let known = StateVector::FIELDS.map(|field| execution.core.text(field).to_owned());
        let is_still = before == after && texts(after.clone()) == known;
        Ok(is_still.then_some((lane, index)))
    }
}

fn command(read: &Read) -> Command {
    let some = EDGES_MAX.to_string();
    match read {
        Read::Hash(key) => Command::read("HGETALL", key, &[]),
        Read::Score(key, member) => Command::read("ZSCORE", key, &[member.as_bytes()]),
        Read::Members(key) => Command::read("SRANDMEMBER", key, &[some.as_bytes()]),
        Read::Member(key, member) => Command::read("SISMEMBER", key, &[member.as_bytes()]),
    }
}

fn insert(snapshot: &mut Snapshot, read: &Read, reply: Value) {
    let (key, stored) = match read {
        Read::Hash(key) => {
            let flat = if let Value::Array(flat) = reply { flat } else { Vec::new() };
            let fields = flat
                .chunks_exact(2)
                .map(|pair| (text(pair[0].clone()), as_bytes(pair[1].clone()).unwrap_or_default()));
            (key, Stored::Hash(fields.collect()))
        }
        Read::Score(key, member) => {
            let score = text(reply).parse::<f64>().ok();
            let members = score.map(|score| (member.clone(), score));
            (key, Stored::Zset(members.into_iter().collect()))
        }
        Read::Members(key) => (key, Stored::Set(texts(reply).into_iter().collect())),
        Read::Member(key, member) => {
            let mut members = snapshot.set(key).clone();
            members.extend((reply == Value::Int(1)).then(|| member.clone()));
            (key, Stored::Set(members))
        }
    };
    let is_empty = match &stored {
        Stored::Hash(fields) => fields.is_empty(),
        Stored::Zset(members) => members.is_empty(),
        Stored::Set(members) => members.is_empty(),
        Stored::Text(_) | Stored::Stream(_) => false,
    };
    if !is_empty {
        snapshot.put(key.to_string().as_bytes(), Some(Entry { stored, expires_at: None }));
    }
}
