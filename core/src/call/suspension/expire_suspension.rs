use alloc::string::String;
use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::envelope::broken;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::{AttemptIndex, ExecutionId, LaneId, WaitpointId};
use crate::key::{Key, LaneIndex};
use crate::state::PublicState;
use crate::value::Value;

/// Applies the timeout behaviour of a suspension that is due.
#[derive(Clone, Debug)]
pub struct ExpireSuspension {
    /// The execution.
    pub execution_id: ExecutionId,
    /// Its lane.
    pub lane: LaneId,
    /// The waitpoint it waits on, as its record says.
    pub waitpoint_id: Option<WaitpointId>,
    /// The attempt it is at, as its record says.
    pub attempt_index: Option<AttemptIndex>,
}

/// The result of checking a suspension's timeout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SuspensionExpiry {
    /// There is no such execution; its entry is gone.
    NotFound,
    /// The execution does not wait; its entry is gone.
    NotSuspended,
    /// The suspension is closed; its entry is gone.
    NoActiveSuspension,
    /// Not due. An entry without a timeout is gone, one that stood too early has moved.
    NotYetDue,
    /// The execution continues to run.
    AutoResumed,
    /// An operator decides.
    Escalated,
    /// The execution ended.
    Ended {
        /// The behaviour as stored; an unknown one fails.
        behavior: String,
        /// How it ended.
        public_state: PublicState,
    },
}

impl Function for ExpireSuspension {
    const NAME: &'static str = "ff_expire_suspension";
    const KEYS: &'static [&'static str] = &[
        "exec_core",
        "suspension",
        "waitpoint",
        "wp_condition",
        "attempt",
        "stream_meta",
        "suspension_timeout",
        "suspended",
        "terminal",
        "eligible",
        "delayed",
        "lease_history",
    ];
    const ARGS: &'static [&'static str] = &["execution_id"];

    type Reply = SuspensionExpiry;

    fn keys(&self) -> Vec<Key> {
        let partition = self.execution_id.partition();
        let execution = Key::execution(&self.execution_id);
        let index = Key::index(partition);
        let attempt = self.attempt_index.unwrap_or(AttemptIndex(0));
        let nowhere = || Key::Noop(partition);
        alloc::vec![
            execution.core(),
            execution.suspension(),
            self.waitpoint_id.map_or_else(nowhere, |id| Key::waitpoint(partition, id)),
            self.waitpoint_id.map_or_else(nowhere, |id| Key::waitpoint_condition(partition, id)),
            execution.attempt(attempt),
            execution.stream_meta(attempt),
            index.suspension_timeout(),
            index.lane(&self.lane, LaneIndex::Suspended),
            index.lane(&self.lane, LaneIndex::Terminal),
            index.lane(&self.lane, LaneIndex::Eligible),
            index.lane(&self.lane, LaneIndex::Delayed),
            execution.lease_history(),
        ]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![self.execution_id]
    }

    fn read(envelope: Envelope) -> Result<SuspensionExpiry, CallError> {
        let mut fields = envelope.ok()?;
        let word = fields.text()?;
        let Some(public_state) = fields.parse_if_set("a public state")? else {
            return match word.as_str() {
                "not_found_cleaned" => Ok(SuspensionExpiry::NotFound),
                "not_suspended_cleaned" => Ok(SuspensionExpiry::NotSuspended),
                "no_active_suspension_cleaned" => Ok(SuspensionExpiry::NoActiveSuspension),
                "not_yet_due" => Ok(SuspensionExpiry::NotYetDue),
                _ => Err(broken("an outcome of a timeout", Value::Bulk(word.into_bytes()))),
            };
        };
        Ok(match word.as_str() {
            "auto_resume" => SuspensionExpiry::AutoResumed,
            "escalate" => SuspensionExpiry::Escalated,
            _ => SuspensionExpiry::Ended { behavior: word, public_state },
        })
    }
}
