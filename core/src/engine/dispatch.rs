//! Dispatch: an execution ended, so its outgoing edges are resolved, and those of every child that
//! this skips, breadth first.
//!
//! Nothing is ever lost here, because nothing is owed here: an edge that is not resolved stays in
//! its child's set of open edges, where the dependency reconciler finds it. What does not fit, goes
//! too deep or cannot be reached is handed over to it by name.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

use alloc::string::String;
use alloc::vec::Vec;

use super::driver::if_ours;
use super::observe::Observation;
use super::scan::Scene;
use super::step::{Step, Verdict};
use crate::call::flow::{OutgoingBatch, ResolveOutgoing};
use crate::error::Code;
use crate::id::ExecutionId;

/// Levels of children that a cascade goes down by itself; the reconciler goes on from there.
pub const DEPTH_MAX: u32 = 50;

/// One execution whose edges are to be resolved.
#[derive(Clone, Debug)]
pub(super) struct Debt {
    pub(super) execution: ExecutionId,
    pub(super) depth: u32,
}

#[derive(Debug)]
pub(super) struct Dispatch {
    concurrency: usize,
    capacity: usize,
    queue: VecDeque<Debt>,
    /// Everything queued or running, so that a repeated push costs nothing.
    known: BTreeSet<ExecutionId>,
    running: BTreeMap<u64, Debt>,
    /// Those running that were pushed once more meanwhile: an edge may have come behind our back.
    again: BTreeSet<ExecutionId>,
    next: u64,
}

impl Dispatch {
    pub(super) fn new(concurrency: usize, capacity: usize) -> Self {
        Self {
            concurrency: concurrency.max(1),
            capacity: capacity.max(1),
            queue: VecDeque::new(),
            known: BTreeSet::new(),
            running: BTreeMap::new(),
            again: BTreeSet::new(),
            next: 0,
        }
    }

    /// Takes on a debt; gives it back when there is no room.
    pub(super) fn push(&mut self, debt: Debt) -> Result<(), Debt> {
        if self.known.contains(&debt.execution) {
            return Ok(());
        }
        if self.known.len() >= self.capacity {
            return Err(debt);
        }
        self.known.insert(debt.execution.clone());
        self.queue.push_back(debt);
        Ok(())
    }

    /// A push came for this execution: if it is being worked on, that is done once more.
    pub(super) fn look_again(&mut self, execution: &ExecutionId) {
        if self.known.contains(execution)
            && self.running.values().any(|debt| debt.execution == *execution)
        {
            self.again.insert(execution.clone());
        }
    }

    /// The next one to start, while there is room.
    pub(super) fn start(&mut self) -> Option<(u64, Debt)> {
        if self.running.len() >= self.concurrency {
            return None;
        }
        let debt = self.queue.pop_front()?;
        let item = self.next;
        self.next += 1;
        self.running.insert(item, debt.clone());
        Some((item, debt))
    }

    pub(super) fn finish(&mut self, item: u64) -> Option<Debt> {
        let debt = self.running.remove(&item)?;
        if self.again.remove(&debt.execution) {
            self.queue.push_back(Debt { depth: 0, ..debt.clone() });
        } else {
            self.known.remove(&debt.execution);
        }
        Some(debt)
    }

    /// Forgets what has not started; the reconciler will find it.
    pub(super) fn forget_queue(&mut self) -> VecDeque<Debt> {
        for debt in &self.queue {
            self.known.remove(&debt.execution);
        }
        core::mem::take(&mut self.queue)
    }
}

/// Edges resolved in one step.
const EDGES_PER_STEP: u32 = 100;

/// Resolves all outgoing edges of an ended execution, chunk by chunk. Its own record says how it
/// ended; whoever told us may be mistaken.
pub(super) fn resolve(scene: &Scene, execution: ExecutionId) -> Step {
    let of = execution.clone();
    if_ours(scene, &of, move || {
        Work { execution, resolved: 0, skipped: Vec::new() }.resolve("0".into())
    })
}

struct Work {
    execution: ExecutionId,
    resolved: u64,
    skipped: Vec<ExecutionId>,
}

impl Work {
    fn resolve(mut self, cursor: String) -> Step {
        let call = ResolveOutgoing {
            execution_id: self.execution.clone(),
            cursor,
            limit: Some(EDGES_PER_STEP),
            only_edge: None,
        };
        Step::call(&call, move |reply| match reply {
            Ok(OutgoingBatch { cursor, resolved, skipped, .. }) => {
                self.resolved += resolved;
                self.skipped.extend(skipped);
                match cursor {
                    Some(cursor) => self.resolve(cursor),
                    None => self.done(),
                }
            }
            // Replayed or purged since; what is still open belongs to the reconciler.
            Err(error) => {
                let moved_on = [Code::ExecutionNotTerminal, Code::ExecutionNotFound];
                Verdict::error_unless(error, &moved_on).ending(self.skipped).into()
            }
        })
    }

    fn done(self) -> Step {
        if self.resolved == 0 {
            return Verdict::nothing().into();
        }
        let fact = Observation::Dispatched {
            execution: self.execution,
            resolved: self.resolved,
            skipped: u64::try_from(self.skipped.len()).unwrap_or(u64::MAX),
        };
        Verdict::processed().ending(self.skipped).noting(alloc::vec![fact]).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn debt(number: u128) -> Debt {
        Debt { execution: ExecutionId::new(0, uuid::Uuid::from_u128(number)), depth: 7 }
    }

    #[test]
    fn d2_a_push_that_comes_while_its_execution_is_worked_on_is_another_look() {
        let mut dispatch = Dispatch::new(4, 4);
        let id = debt(1).execution;
        dispatch.look_again(&id);
        assert!(dispatch.push(debt(1)).is_ok());
        dispatch.look_again(&id);
        let (item, _) = dispatch.start().unwrap();
        // An edge may be applied behind the cursor of the look that is under way.
        dispatch.look_again(&id);
        dispatch.look_again(&id);
        assert!(dispatch.start().is_none(), "not two at once");
        dispatch.finish(item);
        let (item, again) = dispatch.start().unwrap();
        assert_eq!((again.execution, again.depth), (id, 0));
        dispatch.finish(item);
        assert!(dispatch.start().is_none(), "what waits in the queue needs no second look");
    }

    #[test]
    fn d7_the_queue_is_bounded_and_a_known_execution_takes_no_room() {
        let mut dispatch = Dispatch::new(1, 2);
        assert!(dispatch.push(debt(1)).is_ok());
        assert!(dispatch.push(debt(2)).is_ok());
        assert!(dispatch.push(debt(2)).is_ok());
        assert_eq!(dispatch.push(debt(3)).map_err(|debt| debt.execution), Err(debt(3).execution));
        let (item, _) = dispatch.start().unwrap();
        assert!(dispatch.start().is_none(), "one at a time");
        dispatch.finish(item);
        assert!(dispatch.push(debt(3)).is_ok(), "room again");
    }
}
