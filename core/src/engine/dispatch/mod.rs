//! Dispatch: an execution has ended, so its outgoing edges are resolved, and then those of every
//! child that this skips, breadth first.
//!
//! Nothing can be lost here. An edge that is not resolved stays in its child's set of open edges,
//! where the dependency reconciler finds it. What does not fit into the queue, lies too deep or
//! cannot be reached is handed over: the reconciler of the partition is told to look soon.
//!
//! A skipped child is reported by the reply of the call that skipped it, which also says how deep
//! it lies, and by a push. It is dispatched once, whichever report comes first.

mod echoes;
mod queue;
mod resolve_edges;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use echoes::Echoes;
use queue::{Pending, Pushed, Queue};
use resolve_edges::{
    DispatchContext, DispatchEnd, DispatchOutcome, Task, TaskStep, hand_over_reason,
};

use super::config::EngineConfig;
use super::observe::Observation;
use crate::command::Command;
use crate::command::Reply;
use crate::completion::Completion;
use crate::error::CallError;
use crate::id::ExecutionId;
use crate::partition::Partition;
use crate::state::TerminalOutcome;
use crate::time::LocalTime;

/// Levels of skipped children that a cascade descends; the reconciler goes on from there.
const DEPTH_MAX: u32 = 50;

/// Identifies a dispatch under way.
pub(super) type TaskId = u64;

/// What dispatch hands back.
pub(super) enum Event {
    /// These commands, for the dispatch that [`Dispatch::resume`] goes on with.
    Request(Vec<Command>, TaskId),
    /// The dependency reconciler of this partition should look soon.
    HandedOver(Partition),
    Observe(Observation),
}

/// Completions that wait to be dispatched, and the dispatches under way.
pub(super) struct Dispatch {
    context: DispatchContext,
    queue: Queue,
    echoes: Echoes,
    tasks: BTreeMap<TaskId, Task>,
    draining: bool,
    /// What the call under way leads to.
    events: Vec<Event>,
}

impl Dispatch {
    pub(super) fn new(config: &EngineConfig) -> Self {
        Self {
            context: DispatchContext { filter: config.filter.clone() },
            queue: Queue::new(config.dispatch_concurrency, config.dispatch_queue),
            echoes: Echoes::default(),
            tasks: BTreeMap::new(),
            draining: false,
            events: Vec::new(),
        }
    }

    /// A completion was pushed.
    pub(super) fn completion_pushed(
        &mut self,
        now: LocalTime,
        completion: Completion,
    ) -> Vec<Event> {
        let Completion { execution_id: execution, outcome, .. } = completion;
        let is_skipped = outcome == TerminalOutcome::Skipped;
        if is_skipped && self.echoes.is_echo_of_reply(now, &execution) {
            return Vec::new();
        }
        if self.queue.is_known(&execution) {
            // An edge may have been added behind the cursor of the dispatch under way.
            self.queue.rerun(&execution);
        } else {
            // A push may overtake the reply that says how deep a skipped child lies. Its parent is
            // then among the dispatches that run on its partition.
            let above = self.queue.deepest_running(execution.partition());
            let depth = above.filter(|_| is_skipped).map_or(0, |depth| depth + 1);
            self.enqueue(Pending { execution, depth });
        }
        core::mem::take(&mut self.events)
    }

    /// A scanner skipped an execution, by a call that was sent at this time at the earliest.
    pub(super) fn execution_skipped(
        &mut self,
        now: LocalTime,
        sent: LocalTime,
        execution: ExecutionId,
    ) -> Vec<Event> {
        self.enqueue_skipped(now, sent, Pending { execution, depth: 1 });
        core::mem::take(&mut self.events)
    }

    /// Pushes may have been missed.
    pub(super) fn pushes_missed(&mut self) {
        self.echoes.pushes_missed();
    }

    /// Starts what there is room for.
    pub(super) fn start(&mut self, now: LocalTime) -> Vec<Event> {
        while !self.draining
            && let Some((id, execution)) = self.queue.start(now)
        {
            let (task, commands) = Task::start(&self.context, execution);
            self.tasks.insert(id, task);
            self.events.push(Event::Request(commands, id));
        }
        core::mem::take(&mut self.events)
    }

    /// Goes on with a dispatch whose replies are there.
    pub(super) fn resume(&mut self, now: LocalTime, id: TaskId, replies: Vec<Reply>) -> Vec<Event> {
        if let Some(task) = self.tasks.get_mut(&id) {
            match task.resume(&self.context, replies) {
                TaskStep::Send(_) if self.draining => {
                    let outcome = task.stop();
                    self.finish(now, id, outcome);
                }
                TaskStep::Send(commands) => self.events.push(Event::Request(commands, id)),
                TaskStep::Done(outcome) => self.finish(now, id, outcome),
            }
        }
        core::mem::take(&mut self.events)
    }

    /// Starts nothing from now on. The reconciler finds what is left.
    pub(super) fn drain(&mut self) {
        self.draining = true;
        self.queue.clear_waiting();
    }

    fn enqueue(&mut self, pending: Pending) {
        let execution = pending.execution.clone();
        if pending.depth > DEPTH_MAX {
            let too_deep = Observation::DepthReached { execution: execution.clone() };
            self.events.push(Event::Observe(too_deep));
            return self.hand_over(execution, "the cascade is too deep");
        }
        if self.draining {
            return;
        }
        match self.queue.push(pending) {
            Pushed::Queued | Pushed::Known => {}
            Pushed::Full => self.hand_over(execution, "too many completions at once"),
        }
    }

    /// A reply says that an execution was skipped.
    fn enqueue_skipped(&mut self, now: LocalTime, sent: LocalTime, pending: Pending) {
        if self.echoes.is_echo_of_push(now, sent, &pending.execution) {
            self.queue.raise_depth(&pending.execution, pending.depth);
        } else {
            self.enqueue(pending);
        }
    }

    fn finish(&mut self, now: LocalTime, id: TaskId, outcome: DispatchOutcome) {
        self.tasks.remove(&id);
        let DispatchOutcome { end, resolved, skipped } = outcome;
        let Some((Pending { execution, depth }, started)) = self.queue.finish(id) else { return };
        if end == DispatchEnd::Complete && resolved > 0 {
            self.events.push(Event::Observe(Observation::Dispatched {
                execution: execution.clone(),
                resolved,
                skipped: u64::try_from(skipped.len()).unwrap_or(u64::MAX),
            }));
        }
        if let DispatchEnd::Failed(CallError::Server(error)) = &end {
            self.events.extend(Observation::of_server_error(error).map(Event::Observe));
        }
        for execution in skipped {
            self.enqueue_skipped(now, started, Pending { execution, depth: depth + 1 });
        }
        if let DispatchEnd::Failed(error) = &end {
            self.hand_over(execution, hand_over_reason(error));
        }
    }

    fn hand_over(&mut self, execution: ExecutionId, reason: &'static str) {
        let partition = execution.partition();
        self.events.push(Event::Observe(Observation::HandedOver { execution, reason }));
        self.events.push(Event::HandedOver(partition));
    }
}
