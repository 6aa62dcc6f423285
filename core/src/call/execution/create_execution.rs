use alloc::string::String;
use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::{ExecutionId, LaneId, Namespace};
use crate::key::{Key, LaneIndex};
use crate::state::PublicState;
use crate::time::ServerTime;

/// Creates an execution and indexes it, once.
#[derive(Clone, Debug)]
pub struct CreateExecution {
    /// Its id, which says where it lives.
    pub execution_id: ExecutionId,
    /// The namespace of the execution.
    pub namespace: Namespace,
    /// The lane that it waits in.
    pub lane_id: LaneId,
    /// What kind of work it is.
    pub execution_kind: String,
    /// Higher goes first, up to 9000.
    pub priority: u32,
    /// Its creator.
    pub creator_identity: String,
    /// Its policy as JSON; empty for none.
    pub policy_json: String,
    /// Its input.
    pub input_payload: Vec<u8>,
    /// When it may start; at once unless given.
    pub delay_until: Option<ServerTime>,
    /// Makes a repeated create answer with the first execution.
    pub idempotency: Option<CreateIdempotency>,
    /// Tags as a JSON object; empty for none.
    pub tags_json: String,
    /// When it must have ended; its policy holds otherwise.
    pub execution_deadline_at: Option<ServerTime>,
}

/// A caller's key for one create.
#[derive(Clone, Debug)]
pub struct CreateIdempotency {
    /// The key, within the namespace.
    pub key: String,
    /// How long it is remembered.
    pub ttl_ms: u64,
}

/// The result of a creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Creation {
    /// It is new, and in this state.
    Created(PublicState),
    /// It existed before.
    Duplicate(ExecutionId),
}

impl Function for CreateExecution {
    const NAME: &'static str = "ff_create_execution";
    const KEYS: &'static [&'static str] = &[
        "exec_core",
        "payload",
        "policy",
        "tags",
        "scheduling",
        "idempotency",
        "execution_deadline",
        "all_executions",
    ];
    const ARGS: &'static [&'static str] = &[
        "execution_id",
        "namespace",
        "lane_id",
        "execution_kind",
        "priority",
        "creator_identity",
        "policy_json",
        "input_payload",
        "delay_until",
        "dedup_ttl_ms",
        "tags_json",
        "execution_deadline_at",
        "partition_id",
    ];

    type Reply = Creation;

    fn keys(&self) -> Vec<Key> {
        let execution = Key::execution(&self.execution_id);
        let partition = self.execution_id.partition();
        let index = Key::index(partition);
        let waits =
            if self.delay_until.is_some() { LaneIndex::Delayed } else { LaneIndex::Eligible };
        alloc::vec![
            execution.core(),
            execution.payload(),
            execution.policy(),
            execution.tags(),
            index.lane(&self.lane_id, waits),
            self.idempotency.as_ref().map_or(Key::Noop(partition), |idempotency| {
                Key::idempotency(partition, &self.namespace, &idempotency.key)
            }),
            index.execution_deadline(),
            index.all_executions(),
        ]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![
            self.execution_id,
            self.namespace,
            self.lane_id,
            self.execution_kind,
            self.priority,
            self.creator_identity,
            self.policy_json,
            self.input_payload,
            self.delay_until,
            self.idempotency.as_ref().map(|idempotency| idempotency.ttl_ms),
            self.tags_json,
            self.execution_deadline_at,
            self.execution_id.partition().index,
        ]
    }

    fn read(mut envelope: Envelope) -> Result<Creation, CallError> {
        match envelope.status.as_str() {
            "DUPLICATE" => envelope.fields.parse("an execution id").map(Creation::Duplicate),
            "OK" => {
                envelope.fields.text()?;
                envelope.fields.parse("a public state").map(Creation::Created)
            }
            _ => Err(envelope.unexpected()),
        }
    }
}
