use alloc::vec::Vec;

use super::incoming::{IncomingSignal, SignalReceipt};
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::key::Key;

/// Records a signal for a waitpoint whose suspension has not begun, or delivers it when it has.
#[derive(Clone, Debug)]
pub struct BufferSignalForPendingWaitpoint {
    /// The signal.
    pub signal: IncomingSignal,
}

impl Function for BufferSignalForPendingWaitpoint {
    const NAME: &'static str = "ff_buffer_signal_for_pending_waitpoint";
    const KEYS: &'static [&'static str] = &[
        "exec_core",
        "wp_condition",
        "wp_signals",
        "exec_signals",
        "signal",
        "signal_payload",
        "sigdedup",
        "waitpoint",
        "hmac",
    ];
    const ARGS: &'static [&'static str] = IncomingSignal::ARGS;

    type Reply = SignalReceipt;

    fn keys(&self) -> Vec<Key> {
        let mut keys = self.signal.keys();
        keys.push(Key::WaitpointSecrets(self.signal.execution_id.partition()));
        keys
    }

    fn args(&self) -> Vec<Vec<u8>> {
        self.signal.args()
    }

    fn read(envelope: Envelope) -> Result<SignalReceipt, CallError> {
        SignalReceipt::read(envelope)
    }
}
