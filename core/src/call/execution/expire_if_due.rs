use alloc::vec::Vec;

use super::ExpireReason;
use crate::call::args::args;
use crate::call::envelope::broken;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::{AttemptIndex, ExecutionId};
use crate::key::Key;
use crate::state::LifecyclePhase;
use crate::time::ServerTime;
use crate::value::Value;

/// Expires what is due by the index and the server's clock; a timed out attempt is tried again
/// when the policy says so. An added function.
#[derive(Clone, Debug)]
pub struct ExpireIfDue {
    /// The execution.
    pub execution_id: ExecutionId,
    /// The attempt that was meant; a deadline does not look at it.
    pub expected_attempt_index: Option<AttemptIndex>,
    /// Which time limit has passed.
    pub reason: ExpireReason,
}

/// The result of the check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DueExpiry {
    /// It ended, in this phase.
    Expired(LifecyclePhase),
    /// The attempt ended, and another one starts then.
    RetryAt(ServerTime),
    /// Nothing is due before this time, or at all.
    NotDue(Option<ServerTime>),
    /// Another attempt runs by now.
    OtherAttempt(Option<AttemptIndex>),
    /// It had ended before; the entries are gone.
    AlreadyTerminal,
    /// There is no such execution; the entries are gone.
    NotFound,
}

impl Function for ExpireIfDue {
    const NAME: &'static str = "ff_expire_if_due";
    const KEYS: &'static [&'static str] = &["exec_core"];
    const ARGS: &'static [&'static str] = &["execution_id", "expected_attempt_index", "reason"];

    type Reply = DueExpiry;

    fn keys(&self) -> Vec<Key> {
        alloc::vec![Key::execution(&self.execution_id).core()]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![self.execution_id, self.expected_attempt_index, self.reason.as_str()]
    }

    fn read(envelope: Envelope) -> Result<DueExpiry, CallError> {
        let mut fields = envelope.ok()?;
        let word = fields.text()?;
        match word.as_str() {
            "expired" => fields.parse("a phase").map(DueExpiry::Expired),
            "retry_scheduled" => fields.parse("when it is tried again").map(DueExpiry::RetryAt),
            "not_due" => fields.parse_if_set("when it is due").map(DueExpiry::NotDue),
            "other_attempt" => fields.parse_if_set("an attempt index").map(DueExpiry::OtherAttempt),
            "already_terminal" => Ok(DueExpiry::AlreadyTerminal),
            "not_found_cleaned" => Ok(DueExpiry::NotFound),
            _ => Err(broken("an outcome of an expiry", Value::Bulk(word.into_bytes()))),
        }
    }
}
