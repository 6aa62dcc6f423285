use alloc::string::String;
use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::envelope::broken;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::{ExecutionId, WaitpointId};
use crate::key::Key;
use crate::value::Value;

/// Closes a pending or active waitpoint.
#[derive(Clone, Debug)]
pub struct CloseWaitpoint {
    /// The execution that owns it.
    pub execution_id: ExecutionId,
    /// The waitpoint.
    pub waitpoint_id: WaitpointId,
    /// Why.
    pub reason: String,
}

/// The result of closing a waitpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitpointClosing {
    /// It is closed now.
    Closed,
    /// It was closed before.
    AlreadyClosed,
}

impl Function for CloseWaitpoint {
    const NAME: &'static str = "ff_close_waitpoint";
    const KEYS: &'static [&'static str] = &["exec_core", "waitpoint", "pending_wp_expiry"];
    const ARGS: &'static [&'static str] = &["waitpoint_id", "reason"];

    type Reply = WaitpointClosing;

    fn keys(&self) -> Vec<Key> {
        let partition = self.execution_id.partition();
        alloc::vec![
            Key::execution(&self.execution_id).core(),
            Key::waitpoint(partition, self.waitpoint_id),
            Key::index(partition).pending_waitpoint_expiry(),
        ]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![self.waitpoint_id, self.reason]
    }

    fn read(envelope: Envelope) -> Result<WaitpointClosing, CallError> {
        let word = envelope.ok()?.text()?;
        match word.as_str() {
            "" => Ok(WaitpointClosing::Closed),
            "already_closed" => Ok(WaitpointClosing::AlreadyClosed),
            _ => Err(broken("an outcome of closing", Value::Bulk(word.into_bytes()))),
        }
    }
}
