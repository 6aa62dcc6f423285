//! Why an execution is where it is, read from a store.

use std::collections::BTreeSet;

use selvedge_core::audit::{Entry, Snapshot, Stored};
use selvedge_core::engine::{Command, EngineConfig};
use selvedge_core::id::{ExecutionId, LaneId};
use selvedge_core::key::{Key, LaneIndex};
use selvedge_core::state::StateVector;
use selvedge_core::value::Value;
use selvedge_core::why::{self, Ask, EDGES_MAX, Explanation};

use crate::client::{Client, ClientError, as_bytes, fields as texts, text};

impl Client {
    /// Why an execution is where it is: what it waits for, who can move it, and by when. The
    /// engine's configuration tells how often its scanners come by. At most six round trips.
    ///
    /// # Errors
    /// When there is no such execution, or the store does not answer.
    pub async fn why(
        &self,
        id: &ExecutionId,
        config: &EngineConfig,
    ) -> Result<Explanation, ClientError> {
        let mut snapshot = Snapshot::new(self.store().server_time().await?);
        let mut asked = BTreeSet::new();
        loop {
            let asks: Vec<Ask> = why::asks(&snapshot, id)
                .into_iter()
                .filter(|ask| asked.insert(ask.clone()))
                .collect();
            if asks.is_empty() {
                break;
            }
            let replies = self.read(asks.iter().map(command).collect()).await?;
            for (ask, reply) in asks.iter().zip(replies) {
                put(&mut snapshot, ask, reply);
            }
        }
        let not_found = || ClientError::NotFound { kind: "execution", id: id.to_string() };
        match self.missing_from(&snapshot, id).await? {
            None => why::explain(&snapshot, id, config),
            Some((lane, index)) => why::explain_missing(&snapshot, id, config, (&lane, index)),
        }
        .ok_or_else(not_found)
    }

    /// The lane index that an execution belongs in and is not in. Its record is read before and
    /// after the index, so that one that is just moving is not taken for one that is lost.
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

fn command(ask: &Ask) -> Command {
    let some = EDGES_MAX.to_string();
    match ask {
        Ask::Hash(key) => Command::read("HGETALL", key, &[]),
        Ask::Score(key, member) => Command::read("ZSCORE", key, &[member.as_bytes()]),
        Ask::Members(key) => Command::read("SRANDMEMBER", key, &[some.as_bytes()]),
    }
}

fn put(snapshot: &mut Snapshot, ask: &Ask, reply: Value) {
    let (key, stored) = match ask {
        Ask::Hash(key) => {
            let flat = if let Value::Array(flat) = reply { flat } else { Vec::new() };
            let fields = flat
                .chunks_exact(2)
                .map(|pair| (text(pair[0].clone()), as_bytes(pair[1].clone()).unwrap_or_default()));
            (key, Stored::Hash(fields.collect()))
        }
        Ask::Score(key, member) => {
            let score = text(reply).parse::<f64>().ok();
            let members = score.map(|score| (member.clone(), score));
            (key, Stored::Zset(members.into_iter().collect()))
        }
        Ask::Members(key) => (key, Stored::Set(texts(reply).into_iter().collect())),
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
