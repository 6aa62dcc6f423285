use alloc::string::String;
use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::envelope::broken;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::ExecutionId;
use crate::key::Key;
use crate::value::Value;

/// Ends an execution that damaged records keep from going on.
#[derive(Clone, Debug)]
pub struct AcceptLoss {
    /// The execution.
    pub execution_id: ExecutionId,
    /// The reason, stored as that of a cancel.
    pub reason: String,
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acceptance {
    /// It is cancelled now.
    Ended,
    /// It had ended.
    AlreadyEnded,
}

impl Function for AcceptLoss {
    const NAME: &'static str = "ff_accept_loss";
    const KEYS: &'static [&'static str] = &["exec_core"];
    const ARGS: &'static [&'static str] = &["execution_id", "reason"];

    type Reply = Acceptance;

    fn keys(&self) -> Vec<Key> {
        alloc::vec![Key::execution(&self.execution_id).core()]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![self.execution_id, self.reason]
    }

    fn read(envelope: Envelope) -> Result<Acceptance, CallError> {
        let word = envelope.ok()?.text()?;
        match word.as_str() {
            "ended" => Ok(Acceptance::Ended),
            "already_ended" => Ok(Acceptance::AlreadyEnded),
            _ => Err(broken("ended or already_ended", Value::Bulk(word.into_bytes()))),
        }
    }
}
