//! One dispatch: the candidate filter, then the outgoing edges of the execution, chunk by chunk.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use crate::call::Function;
use crate::call::flow::{OutgoingBatch, ResolveOutgoing};
use crate::command::Command;
use crate::command::Reply;
use crate::engine::filter::Filter;
use crate::error::{CallError, Class, Code, ServerError};
use crate::id::ExecutionId;
use crate::retry::{Idempotency, Retry};

/// Edges resolved by one call.
const EDGES_PER_CALL: u32 = 100;

/// What a dispatch came to. The skipped children are named in every case: their own edges come
/// next.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DispatchOutcome {
    pub(super) end: DispatchEnd,
    /// How many edges were resolved.
    pub(super) resolved: u64,
    pub(super) skipped: Vec<ExecutionId>,
}

/// How a dispatch ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DispatchEnd {
    /// Every edge was resolved.
    Complete,
    /// The filter excludes the execution: another engine handles it.
    NotSelected,
    /// The execution has been replayed or purged since. Edges still open are the reconciler's.
    NotTerminal,
    /// A call failed, and edges may be left.
    Failed(CallError),
}

/// What a dispatch needs next.
pub(super) enum TaskStep {
    Send(Vec<Command>),
    Done(DispatchOutcome),
}

/// What every dispatch needs to know.
#[derive(Debug)]
pub(super) struct DispatchContext {
    pub(super) filter: Filter,
}

#[derive(Debug)]
enum State {
    /// Waits for what the filter reads.
    Filtering,
    /// Waits for a chunk of edges.
    Resolving,
}

/// A dispatch under way.
#[derive(Debug)]
pub(super) struct Task {
    execution: ExecutionId,
    state: State,
    resolved: u64,
    skipped: Vec<ExecutionId>,
}

impl Task {
    /// Begins a dispatch. How the execution ended is read from its own record by the call; what
    /// the push said is not relied on.
    pub(super) fn start(context: &DispatchContext, execution: ExecutionId) -> (Self, Vec<Command>) {
        let state = State::Filtering;
        let mut task = Self { execution, state, resolved: 0, skipped: Vec::new() };
        let mut commands = context.filter.reads(core::slice::from_ref(&task.execution));
        if commands.is_empty() {
            commands = task.resolve("0".into());
        }
        (task, commands)
    }

    /// Goes on with the replies to what was sent last.
    pub(super) fn resume(&mut self, context: &DispatchContext, replies: Vec<Reply>) -> TaskStep {
        match self.state {
            State::Filtering => {
                let selection = context.filter.select(vec![self.execution.clone()], &replies);
                match selection.unknown {
                    Some(error) => self.done(DispatchEnd::Failed(error.into())),
                    None if selection.selected.is_empty() => self.done(DispatchEnd::NotSelected),
                    None => TaskStep::Send(self.resolve("0".into())),
                }
            }
            State::Resolving => self.chunk_resolved(replies),
        }
    }

    /// Ends a dispatch whose next commands are not sent because the engine stops.
    pub(super) fn stop(&mut self) -> DispatchOutcome {
        let error = ServerError::never_sent("the engine is stopping");
        self.outcome(DispatchEnd::Failed(error.into()))
    }

    fn resolve(&mut self, cursor: String) -> Vec<Command> {
        self.state = State::Resolving;
        vec![Command::call(&ResolveOutgoing {
            execution_id: self.execution.clone(),
            cursor,
            limit: Some(EDGES_PER_CALL),
            only_edge: None,
            only_child: None,
        })]
    }

    fn chunk_resolved(&mut self, replies: Vec<Reply>) -> TaskStep {
        let not_answered = || Err(ServerError::silence("no answer"));
        let reply = replies.into_iter().next().unwrap_or_else(not_answered);
        match reply.map_err(CallError::from).and_then(ResolveOutgoing::parse) {
            Ok(OutgoingBatch { cursor, resolved, skipped, .. }) => {
                self.resolved += resolved;
                self.skipped.extend(skipped);
                match cursor {
                    Some(cursor) => TaskStep::Send(self.resolve(cursor)),
                    None => self.done(DispatchEnd::Complete),
                }
            }
            Err(CallError::Refused(refusal))
                if [Code::ExecutionNotTerminal, Code::ExecutionNotFound]
                    .contains(&refusal.code) =>
            {
                self.done(DispatchEnd::NotTerminal)
            }
            Err(error) => self.done(DispatchEnd::Failed(error)),
        }
    }

    fn done(&mut self, end: DispatchEnd) -> TaskStep {
        TaskStep::Done(self.outcome(end))
    }

    fn outcome(&mut self, end: DispatchEnd) -> DispatchOutcome {
        let skipped = core::mem::take(&mut self.skipped);
        DispatchOutcome { end, resolved: self.resolved, skipped }
    }
}

/// Why a failed dispatch is handed over to the reconciler.
pub(super) fn hand_over_reason(error: &CallError) -> &'static str {
    match error {
        CallError::Server(error) if error.class == Class::Silence => "the store did not answer",
        CallError::Server(error) if error.retry(Idempotency::Idempotent) != Retry::Never => {
            "the store cannot be reached"
        }
        CallError::Server(_) | CallError::Refused(_) | CallError::Broken(_) => {
            "the edges cannot be resolved"
        }
    }
}
