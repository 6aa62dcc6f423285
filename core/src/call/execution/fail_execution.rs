use alloc::string::String;
use alloc::vec::Vec;

use super::{Authority, Running};
use crate::call::args::args;
use crate::call::envelope::broken;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::key::{Key, LaneIndex};
use crate::time::ServerTime;
use crate::value::Value;

/// Ends the running attempt as failed; the retry policy decides what comes next.
#[derive(Clone, Debug)]
pub struct FailExecution {
    /// The running attempt and the keys it is in.
    pub running: Running,
    /// The authority that the caller shows.
    pub authority: Authority,
    /// What went wrong.
    pub failure_reason: String,
    /// What kind of failure it is: `transient`, `permanent`, `timeout`, …
    pub failure_category: String,
    /// The `retry_policy` member of the stored policy, as JSON; empty for no retry.
    pub retry_policy_json: String,
}

/// The result of a failure report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It is tried again then.
    RetryAt(ServerTime),
    /// It was the last try.
    Final,
}

impl Function for FailExecution {
    const NAME: &'static str = "ff_fail_execution";
    const KEYS: &'static [&'static str] = &[
        "exec_core",
        "attempt",
        "lease_expiry",
        "worker_leases",
        "terminal",
        "delayed",
        "lease_current",
        "lease_history",
        "active",
        "stream_meta",
        "attempt_timeout",
        "execution_deadline",
    ];
    const ARGS: &'static [&'static str] = &[
        "execution_id",
        "lease_id",
        "lease_epoch",
        "attempt_id",
        "failure_reason",
        "failure_category",
        "retry_policy_json",
        "source",
    ];

    type Reply = Failure;

    fn keys(&self) -> Vec<Key> {
        let (execution, index) = (self.running.execution(), self.running.index());
        alloc::vec![
            execution.core(),
            self.running.attempt(),
            index.lease_expiry(),
            self.running.worker_leases(),
            self.running.lane(LaneIndex::Terminal),
            self.running.lane(LaneIndex::Delayed),
            execution.lease(),
            execution.lease_history(),
            self.running.lane(LaneIndex::Active),
            self.running.stream_meta(),
            index.attempt_timeout(),
            index.execution_deadline(),
        ]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        let mut list = args![self.running.execution_id];
        list.extend(self.authority.fence());
        list.extend(args![
            self.failure_reason,
            self.failure_category,
            self.retry_policy_json,
            self.authority.source()
        ]);
        list
    }

    fn read(envelope: Envelope) -> Result<Failure, CallError> {
        let mut fields = envelope.ok()?;
        let word = fields.text()?;
        match word.as_str() {
            "retry_scheduled" => fields.parse("when it is tried again").map(Failure::RetryAt),
            "terminal_failed" => Ok(Failure::Final),
            _ => Err(broken("an outcome of a failure", Value::Bulk(word.into_bytes()))),
        }
    }
}
