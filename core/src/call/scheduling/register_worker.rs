use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::{Envelope, Function};
use crate::capability::Capabilities;
use crate::error::CallError;
use crate::id::{LaneId, Namespace, WorkerId, WorkerInstanceId};
use crate::key::Key;
use crate::time::ServerTime;

/// Registers a worker instance, or refreshes its registration. A function of the contract: our
/// own workers write their entry with plain commands.
///
/// Its keys have no hash tag, so on a cluster they share a slot only by chance.
#[derive(Clone, Debug)]
pub struct RegisterWorker {
    /// The namespace that the worker serves.
    pub namespace: Namespace,
    /// The instance.
    pub instance_id: WorkerInstanceId,
    /// The worker.
    pub worker_id: WorkerId,
    /// The lanes it serves.
    pub lanes: Vec<LaneId>,
    /// What it can do.
    pub capabilities: Capabilities,
    /// How long the registration stands.
    pub ttl_ms: u64,
    /// Stored with it.
    pub now: ServerTime,
}

wire_enum! {
    /// Whether the instance was known.
    pub enum Registration {
        /// It was not.
        Registered = "registered",
        /// It was.
        Refreshed = "refreshed",
    }
}

impl Function for RegisterWorker {
    const NAME: &'static str = "ff_register_worker";
    const KEYS: &'static [&'static str] = &["alive", "caps", "index"];
    const ARGS: &'static [&'static str] =
        &["instance_id", "worker_id", "lanes_csv", "caps_csv", "ttl_ms", "now_ms"];

    type Reply = Registration;

    fn keys(&self) -> Vec<Key> {
        alloc::vec![
            Key::worker_alive(&self.namespace, &self.instance_id),
            Key::worker_capabilities(&self.namespace, &self.instance_id),
            Key::Workers(self.namespace.clone()),
        ]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        let mut lanes: Vec<&str> = self.lanes.iter().map(LaneId::as_str).collect();
        lanes.sort_unstable();
        let lanes: String = lanes.join(",");
        args![
            self.instance_id,
            self.worker_id,
            lanes,
            self.capabilities.to_string(),
            self.ttl_ms,
            self.now,
        ]
    }

    fn read(envelope: Envelope) -> Result<Registration, CallError> {
        envelope.ok()?.parse("an outcome of a registration")
    }
}
