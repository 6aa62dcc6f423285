use alloc::vec::Vec;

use super::incoming::{IncomingSignal, SignalReceipt};
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::LaneId;
use crate::key::{Key, LaneIndex};

/// Delivers a signal to a suspended execution, which resumes when its condition is met.
#[derive(Clone, Debug)]
pub struct DeliverSignal {
    /// The signal.
    pub signal: IncomingSignal,
    /// The lane of its execution.
    pub lane: LaneId,
}

impl Function for DeliverSignal {
    const NAME: &'static str = "ff_deliver_signal";
    const KEYS: &'static [&'static str] = &[
        "exec_core",
        "wp_condition",
        "wp_signals",
        "exec_signals",
        "signal",
        "signal_payload",
        "sigdedup",
        "waitpoint",
        "suspension",
        "eligible",
        "suspended",
        "delayed",
        "suspension_timeout",
        "hmac",
        "signal_delivery",
    ];
    const ARGS: &'static [&'static str] = IncomingSignal::ARGS;

    type Reply = SignalReceipt;

    fn keys(&self) -> Vec<Key> {
        let id = &self.signal.execution_id;
        let index = Key::index(id.partition());
        let mut keys = self.signal.keys();
        keys.extend([
            Key::execution(id).suspension(),
            index.lane(&self.lane, LaneIndex::Eligible),
            index.lane(&self.lane, LaneIndex::Suspended),
            index.lane(&self.lane, LaneIndex::Delayed),
            index.suspension_timeout(),
            Key::WaitpointSecrets(id.partition()),
            Key::SignalDelivery(id.partition()),
        ]);
        keys
    }

    fn args(&self) -> Vec<Vec<u8>> {
        self.signal.args()
    }

    fn read(envelope: Envelope) -> Result<SignalReceipt, CallError> {
        SignalReceipt::read(envelope)
    }
}
