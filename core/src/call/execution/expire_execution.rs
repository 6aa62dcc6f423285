use alloc::vec::Vec;

use super::Running;
use crate::call::args::args;
use crate::call::envelope::broken;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::key::{Key, LaneIndex};
use crate::state::LifecyclePhase;
use crate::value::Value;

/// Ends an execution without checking whether its time is over. Prefer
/// [`ExpireIfDue`](super::ExpireIfDue), which checks.
#[derive(Clone, Debug)]
pub struct ExpireExecution {
    /// What expires, as far as the caller knows it.
    pub running: Running,
    /// Which time limit has passed.
    pub reason: ExpireReason,
}

wire_enum! {
    /// Which time limit has passed.
    pub enum ExpireReason {
        /// That of the attempt.
        AttemptTimeout = "attempt_timeout",
        /// That of the whole execution.
        ExecutionDeadline = "execution_deadline",
    }
}

/// The result of an expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// It ended, in this phase.
    Expired(LifecyclePhase),
    /// It had ended before; the entries are gone.
    AlreadyTerminal,
    /// There is no such execution; the entries are gone.
    NotFound,
    /// The index says that its time is not over, or that the attempt is.
    NotDue,
}

impl Function for ExpireExecution {
    const NAME: &'static str = "ff_expire_execution";
    const KEYS: &'static [&'static str] = &[
        "exec_core",
        "attempt",
        "stream_meta",
        "lease_current",
        "lease_history",
        "lease_expiry",
        "worker_leases",
        "active",
        "terminal",
        "attempt_timeout",
        "execution_deadline",
        "suspended",
        "suspension_timeout",
        "suspension_current",
    ];
    const ARGS: &'static [&'static str] = &["execution_id", "expire_reason"];

    type Reply = Expiry;

    fn keys(&self) -> Vec<Key> {
        let (execution, index) = (self.running.execution(), self.running.index());
        alloc::vec![
            execution.core(),
            self.running.attempt(),
            self.running.stream_meta(),
            execution.lease(),
            execution.lease_history(),
            index.lease_expiry(),
            self.running.worker_leases(),
            self.running.lane(LaneIndex::Active),
            self.running.lane(LaneIndex::Terminal),
            index.attempt_timeout(),
            index.execution_deadline(),
            self.running.lane(LaneIndex::Suspended),
            index.suspension_timeout(),
            execution.suspension(),
        ]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![self.running.execution_id, self.reason.as_str()]
    }

    fn read(mut envelope: Envelope) -> Result<Expiry, CallError> {
        let word = envelope.fields.text()?;
        match (envelope.status.as_str(), word.as_str()) {
            ("OK", "expired") => envelope.fields.parse("a phase").map(Expiry::Expired),
            ("OK", "already_terminal") => Ok(Expiry::AlreadyTerminal),
            ("OK", "not_found_cleaned") => Ok(Expiry::NotFound),
            ("ALREADY_SATISFIED", "not_due") => Ok(Expiry::NotDue),
            _ => Err(broken("an outcome of an expiry", Value::Bulk(word.into_bytes()))),
        }
    }
}
