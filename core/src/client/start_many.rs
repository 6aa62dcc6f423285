//! Submits many executions without a flow, in few round trips.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::call::read_time;
use super::preparation::{Preparation, Prepare};
use super::{Failure, Needs, Procedure, Replies, StartTime, Step, duplicate};
use crate::call::execution::{CreateExecution, Creation};
use crate::command::Command;
use crate::id::ExecutionId;
use crate::time::ServerTime;

/// Submits executions as [`Start`](super::Start) does each of them: checks their limits, registers
/// their lanes, creates them. Returns their ids in the same order.
///
/// The calls for one hash slot share a pipeline, and each of them is as short as that of a single
/// execution. Not atomic: if it fails, some may have been created.
pub struct StartMany {
    preparation: Preparation,
    waiting: alloc::vec::IntoIter<NewStart>,
    /// The next one, if the last chunk was full.
    next: Option<NewStart>,
    stage: Stage,
    /// The time of each server whose executions start later, by slot.
    times: BTreeMap<u16, ServerTime>,
    ids: Vec<ExecutionId>,
}

/// An execution to create.
#[derive(Clone, Debug)]
pub struct NewStart {
    /// The call; its `delay_until` is set from `start`.
    pub call: CreateExecution,
    /// When it may start.
    pub start: StartTime,
}

enum Stage {
    Preparing,
    /// The times of these slots were asked for.
    Times(BTreeSet<u16>),
    /// These executions are being created.
    Creating(Vec<CreateExecution>),
    /// These have a known idempotency key, and are compared with the first of that key.
    Comparing(Vec<(CreateExecution, ExecutionId)>),
}

impl StartMany {
    /// Creates all of `tasks`.
    #[must_use]
    pub fn new(needs: Needs, tasks: Vec<NewStart>) -> Self {
        Self {
            preparation: Preparation::new(needs, None),
            ids: Vec::with_capacity(tasks.len()),
            waiting: tasks.into_iter(),
            next: None,
            stage: Stage::Preparing,
            times: BTreeMap::new(),
        }
    }

    fn prepared(&mut self, prepared: Prepare) -> Step<Vec<ExecutionId>> {
        match prepared {
            Prepare::Send(commands) => Step::Send(commands),
            Prepare::Failed(failure) => Step::Done(Err(failure)),
            Prepare::Ready(_) => {
                let later = self.waiting.as_slice().iter().filter(|task| task.start.is_relative());
                let slots: BTreeSet<u16> = later.map(NewStart::slot).collect();
                let commands = slots.iter().copied().map(Command::time).collect();
                self.stage = Stage::Times(slots);
                Step::Send(commands)
            }
        }
    }

    /// Sends as many calls as are kept in memory twice at most: the machine repeats them.
    fn create_some(&mut self) -> Step<Vec<ExecutionId>> {
        let (mut commands, mut calls, mut bytes) = (Vec::new(), Vec::new(), 0);
        while let Some(mut task) = self.next.take().or_else(|| self.waiting.next()) {
            bytes += task.call.input_payload.len();
            let is_full = commands.len() >= CALLS_MAX || bytes > BYTES_MAX && !commands.is_empty();
            if is_full {
                self.next = Some(task);
                break;
            }
            let now = self.times.get(&task.slot()).copied();
            task.call.delay_until = task.start.at(now);
            commands.push(Command::call(&task.call));
            calls.push(task.call);
        }
        if commands.is_empty() {
            return Step::Done(Ok(core::mem::take(&mut self.ids)));
        }
        self.stage = Stage::Creating(calls);
        Step::Send(commands)
    }

    fn on_times(&mut self, slots: BTreeSet<u16>, mut replies: Replies) -> Result<(), Failure> {
        for slot in slots {
            self.times.insert(slot, read_time(&replies.value())?);
        }
        Ok(())
    }

    fn on_created(
        &mut self,
        calls: Vec<CreateExecution>,
        mut replies: Replies,
    ) -> Step<Vec<ExecutionId>> {
        let mut known = Vec::new();
        for call in calls {
            let id = call.execution_id.clone();
            match replies.call::<CreateExecution>() {
                Err(failure) => return Step::Done(Err(failure)),
                Ok(Creation::Duplicate(first)) if first != id => {
                    self.ids.push(first.clone());
                    known.push((call, first));
                }
                Ok(Creation::Created(_) | Creation::Duplicate(_)) => self.ids.push(id),
            }
        }
        let commands = known.iter().flat_map(|(_, first)| duplicate::reads(first)).collect();
        self.stage = Stage::Comparing(known);
        Step::Send(commands)
    }
}

fn compare(known: &[(CreateExecution, ExecutionId)], mut replies: Replies) -> Result<(), Failure> {
    known.iter().try_for_each(|(call, first)| duplicate::check(call, first, &mut replies))
}

impl NewStart {
    fn slot(&self) -> u16 {
        self.call.execution_id.partition().slot()
    }
}

impl Procedure for StartMany {
    type Output = Vec<ExecutionId>;

    fn begin(&mut self) -> Step<Vec<ExecutionId>> {
        let prepared = self.preparation.begin();
        self.prepared(prepared)
    }

    fn replied(&mut self, replies: Replies) -> Step<Vec<ExecutionId>> {
        let done = match core::mem::replace(&mut self.stage, Stage::Preparing) {
            Stage::Preparing => {
                let prepared = self.preparation.replied(replies);
                return self.prepared(prepared);
            }
            Stage::Times(slots) => self.on_times(slots, replies),
            Stage::Creating(calls) => return self.on_created(calls, replies),
            Stage::Comparing(known) => compare(&known, replies),
        };
        match done {
            Ok(()) => self.create_some(),
            Err(failure) => Step::Done(Err(failure)),
        }
    }
}

/// Most calls in one step, and most bytes of input in it. A single larger input is sent alone.
const CALLS_MAX: usize = 512;
const BYTES_MAX: usize = 4 * 1024 * 1024;
