use alloc::vec::Vec;

use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::ExecutionId;
use crate::key::Key;

/// Tells whether an execution could run as far as its dependencies are concerned.
#[derive(Clone, Debug)]
pub struct EvaluateFlowEligibility {
    /// The execution.
    pub execution_id: ExecutionId,
}

wire_enum! {
    /// How an execution stands with its dependencies.
    pub enum FlowEligibility {
        /// There is no such execution.
        NotFound = "not_found",
        /// It runs, waits for a signal or has ended.
        NotRunnable = "not_runnable",
        /// Somebody holds it.
        Owned = "owned",
        /// It has an outcome.
        Terminal = "terminal",
        /// Nothing holds it back.
        Eligible = "eligible",
        /// Its dependencies cannot be met any more.
        Impossible = "impossible",
        /// It waits for some of them.
        BlockedByDependencies = "blocked_by_dependencies",
    }
}

impl Function for EvaluateFlowEligibility {
    const NAME: &'static str = "ff_evaluate_flow_eligibility";
    const KEYS: &'static [&'static str] = &["exec_core", "deps_meta"];
    const ARGS: &'static [&'static str] = &[];
    const READS_ONLY: bool = true;

    type Reply = FlowEligibility;

    fn keys(&self) -> Vec<Key> {
        let execution = Key::execution(&self.execution_id);
        alloc::vec![execution.core(), execution.dependency_meta()]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        Vec::new()
    }

    fn read(envelope: Envelope) -> Result<FlowEligibility, CallError> {
        envelope.ok()?.parse("an eligibility")
    }
}
