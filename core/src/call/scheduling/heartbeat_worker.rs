use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::envelope::broken;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::{Namespace, WorkerInstanceId};
use crate::key::Key;
use crate::time::ServerTime;
use crate::value::Value;

/// Extends a worker's registration by the time it registered for.
#[derive(Clone, Debug)]
pub struct HeartbeatWorker {
    /// The partition of the worker's record.
    pub namespace: Namespace,
    /// The instance.
    pub instance_id: WorkerInstanceId,
    /// Noted with the registration.
    pub now: ServerTime,
}

/// Whether the worker is still registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heartbeat {
    /// For this long again.
    Refreshed {
        /// The time it registered for.
        ttl_ms: u64,
    },
    /// No: it must register again.
    NotRegistered,
}

impl Function for HeartbeatWorker {
    const NAME: &'static str = "ff_heartbeat_worker";
    const KEYS: &'static [&'static str] = &["alive", "caps"];
    const ARGS: &'static [&'static str] = &["now_ms"];

    type Reply = Heartbeat;

    fn keys(&self) -> Vec<Key> {
        alloc::vec![
            Key::worker_alive(&self.namespace, &self.instance_id),
            Key::worker_capabilities(&self.namespace, &self.instance_id),
        ]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![self.now]
    }

    fn read(envelope: Envelope) -> Result<Heartbeat, CallError> {
        let mut fields = envelope.ok()?;
        let word = fields.text()?;
        match word.as_str() {
            "refreshed" => Ok(Heartbeat::Refreshed { ttl_ms: fields.parse("a time to live")? }),
            "not_registered" => Ok(Heartbeat::NotRegistered),
            _ => Err(broken("an outcome of a heartbeat", Value::Bulk(word.into_bytes()))),
        }
    }
}
