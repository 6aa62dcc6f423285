use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::{ExecutionId, LaneId, WaitpointId};
use crate::key::{Key, LaneIndex};
use crate::state::PublicState;

/// Resumes a suspended execution by an operator's word.
#[derive(Clone, Debug)]
pub struct ResumeExecution {
    /// The execution.
    pub execution_id: ExecutionId,
    /// Its lane.
    pub lane: LaneId,
    /// The waitpoint it waits on, as its record says.
    pub waitpoint_id: WaitpointId,
    /// How long it still waits; 0 leaves that to its resume policy.
    pub resume_delay_ms: u64,
}

impl Function for ResumeExecution {
    const NAME: &'static str = "ff_resume_execution";
    const KEYS: &'static [&'static str] = &[
        "exec_core",
        "suspension",
        "waitpoint",
        "wp_signals",
        "suspension_timeout",
        "eligible",
        "delayed",
        "suspended",
    ];
    const ARGS: &'static [&'static str] = &["execution_id", "trigger_type", "resume_delay_ms"];

    /// `Waiting` or `Delayed`.
    type Reply = PublicState;

    fn keys(&self) -> Vec<Key> {
        let partition = self.execution_id.partition();
        let execution = Key::execution(&self.execution_id);
        let index = Key::index(partition);
        alloc::vec![
            execution.core(),
            execution.suspension(),
            Key::waitpoint(partition, self.waitpoint_id),
            Key::waitpoint_signals(partition, self.waitpoint_id),
            index.suspension_timeout(),
            index.lane(&self.lane, LaneIndex::Eligible),
            index.lane(&self.lane, LaneIndex::Delayed),
            index.lane(&self.lane, LaneIndex::Suspended),
        ]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        args![self.execution_id, "operator", self.resume_delay_ms]
    }

    fn read(envelope: Envelope) -> Result<PublicState, CallError> {
        envelope.ok()?.parse("a public state")
    }
}
