//! Dispatch: an execution ended, so its outgoing edges are resolved, and those of every child that
//! this skips, breadth first.
//!
//! Nothing is ever lost here, because nothing is owed here: an edge that is not resolved stays in
//! its child's set of open edges, where the dependency reconciler finds it. What does not fit, goes
//! too deep or cannot be reached is handed over to it by name.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::Engine;
use super::driver::if_ours;
use super::observe::Observation;
use super::scan::{self, ScannerName, Scene};
use super::step::{Fate, Step, Verdict};
use crate::call::flow::{OutgoingBatch, ResolveOutgoing};
use crate::error::Code;
use crate::id::ExecutionId;
use crate::partition::Partition;

/// How soon the reconciler looks after what dispatch handed over.
const HAND_OVER_PAUSE: Duration = Duration::from_millis(500);

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
    /// How many of those each partition has. Each may have one, whatever the others have: those of a
    /// dead node, however many, do not hold up anybody else. Beyond these firsts there are
    /// `concurrency` places, of which one partition has at most half.
    shares: BTreeMap<Partition, usize>,
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
            shares: BTreeMap::new(),
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
        let share = (self.concurrency / 2).max(1);
        let has_room = self.running.len() - self.shares.len() < self.concurrency;
        let may_start = |debt: &Debt| {
            let taken = self.shares.get(&debt.execution.partition()).copied().unwrap_or(0);
            taken == 0 || has_room && taken < share
        };
        let at = self.queue.iter().position(may_start)?;
        let debt = self.queue.remove(at)?;
        let item = self.next;
        self.next += 1;
        *self.shares.entry(debt.execution.partition()).or_default() += 1;
        self.running.insert(item, debt.clone());
        Some((item, debt))
    }

    pub(super) fn finish(&mut self, item: u64) -> Option<Debt> {
        let debt = self.running.remove(&item)?;
        let partition = debt.execution.partition();
        match self.shares.get_mut(&partition) {
            Some(count) if *count > 1 => *count -= 1,
            Some(_) | None => drop(self.shares.remove(&partition)),
        }
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

impl Engine {
    /// Takes on the edges of an execution that ended.
    pub(super) fn owe(&mut self, debt: Debt) {
        if debt.depth > DEPTH_MAX {
            self.observe(Observation::DepthReached { execution: debt.execution.clone() });
            return self.hand_over(&debt, "the cascade is too deep");
        }
        if self.draining {
            return;
        }
        if let Err(debt) = self.dispatch.push(debt) {
            self.hand_over(&debt, "too many completions at once");
        }
    }

    pub(super) fn close_debt(&mut self, item: u64, verdict: Verdict) {
        let Some(debt) = self.dispatch.finish(item) else { return };
        let failed = match verdict.fate {
            Fate::NotNow(_) => Some("the store cannot be reached"),
            Fate::Perhaps(_) => Some("the store did not answer"),
            Fate::Failed(_) | Fate::Poison(_) | Fate::Refused(_) => {
                Some("the edges cannot be resolved")
            }
            Fate::Processed(_) | Fate::Nothing | Fate::Skipped => None,
        };
        for execution in verdict.ended {
            self.owe(Debt { execution, depth: debt.depth + 1 });
        }
        if let Some(reason) = failed {
            self.hand_over(&debt, reason);
        }
    }

    fn hand_over(&mut self, debt: &Debt, reason: &'static str) {
        let execution = debt.execution.clone();
        let partition = execution.partition();
        self.observe(Observation::HandedOver { execution, reason });
        if let Some(scanner) = scan::position(ScannerName::DependencyReconciler) {
            let soon = self.now.after(HAND_OVER_PAUSE);
            self.cadence.hurry(soon, partition, scanner);
        }
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
            only_child: None,
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
    fn every_partition_may_have_one_and_none_more_than_half_of_the_rest() {
        let mut dispatch = Dispatch::new(4, 100);
        let of = |partition, number| Debt {
            execution: ExecutionId::new(partition, uuid::Uuid::from_u128(number)),
            depth: 0,
        };
        for (partition, number) in [(0, 1), (0, 2), (0, 3), (1, 4), (1, 5), (2, 6), (2, 7), (3, 8)]
        {
            assert!(dispatch.push(of(partition, number)).is_ok());
        }
        let mut started = Vec::new();
        while let Some((item, debt)) = dispatch.start() {
            started.push((item, debt.execution.partition().index));
        }
        let partitions: Vec<u16> = started.iter().map(|(_, partition)| *partition).collect();
        assert_eq!(partitions, [0, 0, 1, 1, 2, 2, 3], "the third of the first has to wait");
        dispatch.finish(started[0].0);
        assert!(dispatch.start().is_some(), "and need not any more");
        assert!(dispatch.push(of(4, 9)).is_ok());
        assert!(dispatch.start().is_some(), "whoever has none may always have one");
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
