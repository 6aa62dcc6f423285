use alloc::string::String;
use alloc::vec::Vec;

use crate::call::Envelope;
use crate::call::args::args;
use crate::error::CallError;
use crate::id::{ExecutionId, SignalId, WaitpointId};
use crate::key::Key;
use crate::time::ServerTime;
use crate::token::WaitpointToken;

/// A signal on its way to a waitpoint; both signal functions take the same arguments.
#[derive(Clone, Debug)]
pub struct IncomingSignal {
    /// Its id.
    pub signal_id: SignalId,
    /// The execution it is meant for.
    pub execution_id: ExecutionId,
    /// The waitpoint it is meant for.
    pub waitpoint_id: WaitpointId,
    /// The name by which conditions match it.
    pub name: String,
    /// What kind of signal it is.
    pub category: String,
    /// What kind of source sent it.
    pub source_type: String,
    /// Which source.
    pub source_identity: String,
    /// Its payload; may be empty.
    pub payload: Vec<u8>,
    /// How that is encoded.
    pub payload_encoding: String,
    /// Makes repeats harmless.
    pub idempotency_key: Option<String>,
    /// A correlation id.
    pub correlation_id: Option<String>,
    /// `waitpoint` or `execution`.
    pub target_scope: String,
    /// When it was sent; the server's time of acceptance if not given.
    pub created_at: Option<ServerTime>,
    /// How long the idempotency key is remembered.
    pub dedup_ttl_ms: u64,
    /// How long the execution still waits when this resumes it; 0 leaves that to its policy.
    pub resume_delay_ms: u64,
    /// How many entries the waitpoint keeps, about.
    pub signal_maxlen: u32,
    /// How many signals the execution takes; 0 for any number.
    pub max_signals_per_execution: u32,
    /// The token that the waitpoint's creator received.
    pub token: WaitpointToken,
}

impl IncomingSignal {
    /// How many entries a waitpoint keeps if its signals come from the client.
    pub const KEPT_MAX: u32 = 1_000;
    /// How many signals from the client an execution takes.
    pub const PER_EXECUTION_MAX: u32 = 10_000;
}

wire_enum! {
    /// What a signal did.
    #[non_exhaustive]
    pub enum SignalEffect {
        /// The condition is met: the execution runs on.
        ResumeConditionSatisfied = "resume_condition_satisfied",
        /// It counts, but more is needed.
        AppendedToWaitpoint = "appended_to_waitpoint",
        /// It matches nothing that is open.
        NoOp = "no_op",
        /// A composite condition had counted the like before.
        AppendedToWaitpointDuplicate = "appended_to_waitpoint_duplicate",
        /// A composite condition does not name the waitpoint.
        IgnoredNotInCondition = "signal_ignored_not_in_condition",
        /// A composite condition does not take it at this waitpoint.
        IgnoredMatcherFailed = "signal_ignored_matcher_failed",
        /// It waits for the suspension to begin.
        BufferedForPendingWaitpoint = "buffered_for_pending_waitpoint",
    }
}

/// The effect of a signal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignalReceipt {
    /// It was accepted.
    Accepted {
        /// The signal.
        signal_id: SignalId,
        /// What it did.
        effect: SignalEffect,
    },
    /// It had been accepted before, perhaps under another id.
    Duplicate {
        /// The signal that was accepted then.
        existing: SignalId,
    },
}

impl IncomingSignal {
    pub(super) const ARGS: &'static [&'static str] = &[
        "signal_id",
        "execution_id",
        "waitpoint_id",
        "signal_name",
        "signal_category",
        "source_type",
        "source_identity",
        "payload",
        "payload_encoding",
        "idempotency_key",
        "correlation_id",
        "target_scope",
        "created_at",
        "dedup_ttl_ms",
        "resume_delay_ms",
        "signal_maxlen",
        "max_signals_per_execution",
        "waitpoint_token",
    ];

    /// The first eight KEYS, which both functions share.
    pub(super) fn keys(&self) -> Vec<Key> {
        let partition = self.execution_id.partition();
        let execution = Key::execution(&self.execution_id);
        let dedup = match &self.idempotency_key {
            Some(key) => Key::SignalDedup(partition, self.waitpoint_id, key.clone()),
            None => Key::Noop(partition),
        };
        alloc::vec![
            execution.core(),
            Key::waitpoint_condition(partition, self.waitpoint_id),
            Key::waitpoint_signals(partition, self.waitpoint_id),
            execution.signals(),
            Key::signal(partition, self.signal_id),
            Key::signal_payload(partition, self.signal_id),
            dedup,
            Key::waitpoint(partition, self.waitpoint_id),
        ]
    }

    pub(super) fn args(&self) -> Vec<Vec<u8>> {
        args![
            self.signal_id,
            self.execution_id,
            self.waitpoint_id,
            self.name,
            self.category,
            self.source_type,
            self.source_identity,
            self.payload,
            self.payload_encoding,
            self.idempotency_key,
            self.correlation_id,
            self.target_scope,
            self.created_at,
            self.dedup_ttl_ms,
            self.resume_delay_ms,
            self.signal_maxlen,
            self.max_signals_per_execution,
            self.token.expose(),
        ]
    }
}

impl SignalReceipt {
    pub(super) fn read(mut envelope: Envelope) -> Result<Self, CallError> {
        match envelope.status.as_str() {
            "OK" => Ok(Self::Accepted {
                signal_id: envelope.fields.parse("a signal id")?,
                effect: envelope.fields.parse("an effect of a signal")?,
            }),
            "DUPLICATE" => Ok(Self::Duplicate { existing: envelope.fields.parse("a signal id")? }),
            _ => Err(envelope.unexpected()),
        }
    }
}
