use alloc::vec::Vec;

use crate::call::args::args;
use crate::call::{Envelope, Function};
use crate::error::CallError;
use crate::id::{ExecutionId, FlowId};
use crate::key::Key;
use crate::time::ServerTime;

/// Declares how many inbound edges of a child have to succeed, and what becomes of the rest.
#[derive(Clone, Debug)]
pub struct SetEdgeGroupPolicy {
    /// The flow.
    pub flow_id: FlowId,
    /// The child.
    pub downstream: ExecutionId,
    /// The policy.
    pub policy: GroupPolicy,
    /// When.
    pub now: ServerTime,
}

/// How many inbound edges of a child have to succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupPolicy {
    /// Every one.
    AllOf,
    /// One.
    AnyOf(OnSatisfied),
    /// At least `k` of them.
    Quorum {
        /// How many.
        k: u32,
        /// What happens to the others.
        on_satisfied: OnSatisfied,
    },
}

wire_enum! {
    /// What happens to the other upstreams once a group is decided.
    pub enum OnSatisfied {
        /// They are cancelled, unless another child waits for them.
        CancelRemaining = "cancel_remaining",
        /// They continue to run.
        LetRun = "let_run",
    }
}

impl GroupPolicy {
    /// Its variant, the fate of the rest and the threshold, as they stand on the wire.
    #[must_use]
    pub const fn words(self) -> (&'static str, &'static str, u32) {
        match self {
            Self::AllOf => ("all_of", "", 0),
            Self::AnyOf(on_satisfied) => ("any_of", on_satisfied.as_str(), 0),
            Self::Quorum { k, on_satisfied } => ("quorum", on_satisfied.as_str(), k),
        }
    }
}

wire_enum! {
    /// The result of a declaration.
    pub enum PolicyDeclaration {
        /// It stands now.
        Set = "set",
        /// It had been declared before.
        AlreadySet = "already_set",
    }
}

impl Function for SetEdgeGroupPolicy {
    const NAME: &'static str = "ff_set_edge_group_policy";
    const KEYS: &'static [&'static str] = &["flow_core", "edgegroup"];
    const ARGS: &'static [&'static str] = &["policy_variant", "on_satisfied", "k", "now_ms"];

    type Reply = PolicyDeclaration;

    fn keys(&self) -> Vec<Key> {
        let flow = Key::flow(self.downstream.partition(), self.flow_id);
        alloc::vec![flow.core(), flow.edge_group(&self.downstream)]
    }

    fn args(&self) -> Vec<Vec<u8>> {
        let (variant, on_satisfied, k) = self.policy.words();
        args![variant, on_satisfied, k, self.now]
    }

    fn read(envelope: Envelope) -> Result<PolicyDeclaration, CallError> {
        envelope.ok()?.parse("an outcome of a declaration")
    }
}
