//! Cancels a flow and its tasks.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::cancel::cancel_call;
use super::{Failure, Procedure, Replies, Step};
use crate::call::Function;
use crate::call::execution::CancelExecution;
use crate::call::flow::{AckCancelMember, CancelFlow as CancelFlowCall, CancellationPolicy};
use crate::command::Command;
use crate::error::{CallError, Code, ServerError};
use crate::id::{ExecutionId, FlowId};
use crate::key::Key;
use crate::partition::Partition;
use crate::reply::{fields, record};
use crate::value::Value;

/// What became of the tasks of a cancelled flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CancelledFlow {
    /// Cancelled by this call.
    pub cancelled: usize,
    /// Had ended before this call.
    pub ended_before: usize,
    /// Not cancelled by this call. They are recorded in the store, and the engine cancels them.
    pub left_to_engine: usize,
}

enum Stage {
    /// The flow is being marked.
    Flow,
    /// Somebody has marked it: perhaps the first try of this call.
    Whose(Failure),
    /// The records of these members are being read.
    Records(Vec<ExecutionId>),
    /// These members are being cancelled.
    Members(Vec<ExecutionId>),
    /// What is done is being acknowledged.
    Acknowledging,
}

/// Cancels a flow: no task of it starts any more. Its tasks are cancelled too; the engine cancels
/// those that a crash or a lost reply left over.
pub struct CancelFlow {
    flow_id: FlowId,
    partition: Partition,
    reason: String,
    stage: Stage,
    members: VecDeque<ExecutionId>,
    done: CancelledFlow,
}

impl CancelFlow {
    /// Cancels the flow of this partition for this reason.
    #[must_use]
    pub fn new(flow_id: FlowId, partition: Partition, reason: String) -> Self {
        let (members, done) = (VecDeque::new(), CancelledFlow::default());
        Self { flow_id, partition, reason, stage: Stage::Flow, members, done }
    }

    fn on_flow(&mut self, mut replies: Replies) -> Step<CancelledFlow> {
        match replies.call::<CancelFlowCall>() {
            Ok(members) => {
                self.members = members.into();
                self.read_records()
            }
            Err(Failure::Refused(refusal)) if refusal.code == Code::FlowNotFound => {
                Step::Done(Err(Failure::not_found("flow", &self.flow_id)))
            }
            Err(Failure::Refused(refusal))
                if refusal.code == Code::FlowAlreadyTerminal && replies.in_doubt =>
            {
                self.stage = Stage::Whose(Failure::Refused(refusal));
                let keys = Key::flow(self.partition, self.flow_id);
                let names: [&[u8]; 2] = [b"public_flow_state", b"cancel_reason"];
                Step::Send(vec![
                    Command::read("HMGET", &keys.core(), &names),
                    Command::read("SMEMBERS", &keys.pending_cancels(), &[]),
                ])
            }
            Err(failure) => Step::Done(Err(failure)),
        }
    }

    /// The refusal of a repeat is a success if the first try was applied after all.
    fn on_whose(&mut self, refusal: Failure, mut replies: Replies) -> Step<CancelledFlow> {
        let is_ours = record(replies.value())
            .is_some_and(|flow| flow.field(0) == "cancelled" && flow.field(1) == self.reason);
        if !is_ours {
            return Step::Done(Err(refusal));
        }
        let pending = fields(replies.value());
        self.members = pending.iter().filter_map(|id| id.parse().ok()).collect();
        self.read_records()
    }

    fn read_records(&mut self) -> Step<CancelledFlow> {
        let count = self.members.len().min(MEMBERS_PER_STEP);
        if count == 0 {
            return Step::Done(Ok(self.done));
        }
        let members: Vec<ExecutionId> = self.members.drain(..count).collect();
        let reads = members.iter().map(CancelExecution::record_read).collect();
        self.stage = Stage::Records(members);
        Step::Send(reads)
    }

    fn on_records(
        &mut self,
        members: Vec<ExecutionId>,
        mut replies: Replies,
    ) -> Step<CancelledFlow> {
        let calls: Vec<CancelExecution> = members
            .iter()
            .filter_map(|id| cancel_call(id, replies.value(), &self.reason, "flow_cascade"))
            .collect();
        self.done.left_to_engine += members.len() - calls.len();
        let sent = calls.iter().map(|call| call.running.execution_id.clone()).collect();
        self.stage = Stage::Members(sent);
        Step::SendOnce(calls.iter().map(Command::call).collect())
    }

    fn on_members(
        &mut self,
        members: Vec<ExecutionId>,
        answers: Vec<Result<Value, ServerError>>,
    ) -> Step<CancelledFlow> {
        let mut over = Vec::new();
        for (execution_id, answer) in members.into_iter().zip(answers) {
            match answer.map_err(CallError::from).and_then(CancelExecution::parse) {
                Ok(_) => self.done.cancelled += 1,
                Err(CallError::Refused(refusal)) if has_ended(refusal.code) => {
                    self.done.ended_before += 1;
                }
                // Whether it was applied or not, the engine looks at it.
                Err(CallError::Refused(_) | CallError::Server(_) | CallError::Broken(_)) => {
                    self.done.left_to_engine += 1;
                    continue;
                }
            }
            let (partition, flow_id) = (execution_id.partition(), self.flow_id);
            over.push(AckCancelMember { partition, flow_id, execution_id });
        }
        self.stage = Stage::Acknowledging;
        // Once: a lost acknowledgement only makes the engine check the member again.
        Step::SendOnce(over.iter().map(Command::call).collect())
    }
}

impl Procedure for CancelFlow {
    type Output = CancelledFlow;

    fn begin(&mut self) -> Step<CancelledFlow> {
        self.stage = Stage::Flow;
        Step::Send(vec![Command::call(&CancelFlowCall {
            partition: self.partition,
            flow_id: self.flow_id,
            reason: self.reason.clone(),
            policy: CancellationPolicy::CancelAll,
            grace_ms: None,
        })])
    }

    fn replied(&mut self, replies: Replies) -> Step<CancelledFlow> {
        match core::mem::replace(&mut self.stage, Stage::Flow) {
            Stage::Flow => self.on_flow(replies),
            Stage::Whose(refusal) => self.on_whose(refusal, replies),
            Stage::Records(members) => self.on_records(members, replies),
            Stage::Members(_) | Stage::Acknowledging => self.read_records(),
        }
    }

    fn answered(&mut self, answers: Vec<Result<Value, ServerError>>) -> Step<CancelledFlow> {
        match core::mem::replace(&mut self.stage, Stage::Flow) {
            Stage::Members(members) => self.on_members(members, answers),
            Stage::Flow | Stage::Whose(_) | Stage::Records(_) | Stage::Acknowledging => {
                self.read_records()
            }
        }
    }
}

/// Whether the refusal means that the execution has ended.
fn has_ended(code: Code) -> bool {
    code == Code::ExecutionNotActive || code == Code::ExecutionNotFound
}

/// Members that are read, and then cancelled, at the same time.
const MEMBERS_PER_STEP: usize = 500;
