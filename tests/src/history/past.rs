//! History oracles: what must be true of every change, whatever the state.
//!
//! | oracle | statement |
//! | --- | --- |
//! | `LegalTransition` | each observed change is a row of the transition table; only replay leaves terminal |
//! | `FenceNeverRepeats` | every new lease has a higher epoch, and no triple is issued twice |
//! | `NoRunBeforeParents` | no attempt starts while a declared edge is open |
//! | `CancelledStaysStill` | a flow that was cancelled with its members starts no new attempt |
//! | `LedgerAdds` | usage is the sum of what was accepted, less what was given back |
//! | `SignalCountsOnce` | an accepted signal counts once, for its own waitpoint and execution |

use std::collections::{BTreeMap, BTreeSet};

use selvedge_core::audit::{Execution, Snapshot};
use selvedge_core::id::{ExecutionId, FlowId};
use selvedge_core::key::{ExecutionPart, Key};
use selvedge_core::state::{
    AttemptState, BlockingReason, LifecyclePhase, OwnershipState, StateVector, table,
};

/// What must be remembered to judge the next change.
#[derive(Clone, Debug, Default)]
pub struct Past {
    seen: BTreeMap<ExecutionId, Seen>,
    fences: BTreeSet<[String; 3]>,
    epochs: BTreeMap<ExecutionId, i64>,
    /// Edges that came when their child had begun: it is not held back any more.
    late: BTreeSet<(ExecutionId, String)>,
}

/// An execution as it was after a call.
#[derive(Clone, Debug)]
struct Seen {
    vector: Option<StateVector>,
    fence: [String; 3],
    epoch: i64,
    /// It was claimed before, or is past the point where edges hold it.
    begun: bool,
    edges: BTreeSet<String>,
    open_edges: BTreeSet<String>,
    /// Enough of its edges succeeded for its any-of or quorum group.
    met: bool,
    /// Its flow was cancelled in a way that covers it.
    barred: bool,
}

impl Past {
    /// What is wrong with the change that one call made.
    pub fn judge(&mut self, function: &str, after: &Snapshot) -> Vec<String> {
        let mut findings = Vec::new();
        let before = std::mem::take(&mut self.seen);
        self.seen = look(after);
        let ids: BTreeSet<&ExecutionId> = before.keys().chain(self.seen.keys()).collect();
        for id in ids {
            let (was, is) = (before.get(id), self.seen.get(id));
            let vectors = [was, is].map(|seen| seen.and_then(|seen| seen.vector));
            if vectors[0] != vectors[1]
                && let Some(why) = illegal(function, vectors[0], vectors[1])
            {
                findings.push(format!("LegalTransition: {id}: {why}"));
            }
            let Some(is) = is else {
                self.epochs.remove(id);
                self.late.retain(|(child, _)| child != id);
                continue;
            };
            if let Some(was) = was.filter(|was| was.begun) {
                let late = is.edges.difference(&was.edges).map(|edge| (id.clone(), edge.clone()));
                self.late.extend(late);
            }
            if !is.is_leased() || was.is_some_and(|was| was.is_leased() && was.fence == is.fence) {
                continue;
            }
            let last = self.epochs.insert(id.clone(), is.epoch);
            if !self.fences.insert(is.fence.clone()) || last.is_some_and(|last| is.epoch <= last) {
                findings.push(format!("FenceNeverRepeats: {id}: {:?} after {last:?}", is.fence));
            }
            let Some(was) = was else { continue };
            let open = was
                .open_edges
                .iter()
                .find(|edge| !was.met && !self.late.contains(&(id.clone(), (*edge).clone())));
            if let Some(edge) = open {
                findings.push(format!("NoRunBeforeParents: {id} starts while {edge} is open"));
            }
            if was.barred {
                findings.push(format!("CancelledStaysStill: {id} starts in a cancelled flow"));
            }
        }
        findings
    }
}

impl Seen {
    fn is_leased(&self) -> bool {
        self.vector.is_some_and(|vector| vector.ownership == OwnershipState::Leased)
    }
}

fn look(snapshot: &Snapshot) -> BTreeMap<ExecutionId, Seen> {
    let mut seen: BTreeMap<ExecutionId, Seen> = snapshot
        .executions()
        .map(|execution| (execution.id.clone(), seen(snapshot, &execution)))
        .collect();
    for (key, _) in snapshot.iter() {
        let Key::Execution(child, ExecutionPart::Dependency(edge)) = key else { continue };
        let open = snapshot.hash(key).is_some_and(|dep| dep.text("state") != "satisfied");
        if let (true, Some(child)) = (open, seen.get_mut(child)) {
            child.open_edges.insert(edge.to_string());
        }
    }
    seen
}

fn seen(snapshot: &Snapshot, execution: &Execution<'_>) -> Seen {
    let core = execution.core;
    let vector = execution.vector().ok();
    let flow = core.text("flow_id").parse::<FlowId>();
    let flow = flow.ok().map(|flow| Key::flow(execution.partition(), flow));
    let group = flow.as_ref().and_then(|flow| snapshot.hash(&flow.edge_group(execution.id)));
    let flow = flow.and_then(|flow| snapshot.hash(&flow.core()));
    Seen {
        vector,
        fence: ["current_lease_id", "current_lease_epoch", "current_attempt_id"]
            .map(|name| core.text(name).to_owned()),
        epoch: core.number("current_lease_epoch"),
        begun: core.number("total_attempt_count") > 0
            || vector.is_none_or(|vector| vector.phase != LifecyclePhase::Runnable),
        edges: snapshot.set(&Key::execution(execution.id).dependencies_all()).clone(),
        open_edges: BTreeSet::new(),
        met: group.is_some_and(|group| {
            group.text("policy_variant") != "all_of" && group.text("group_state") == "satisfied"
        }),
        barred: flow.is_some_and(|core| {
            core.text("public_flow_state") == "cancelled"
                && matches!(core.text("cancellation_policy"), "cancel_all" | "cancel_pending" | "")
        }),
    }
}

fn illegal(function: &str, was: Option<StateVector>, is: Option<StateVector>) -> Option<String> {
    let Some(is) = is else {
        // A purge removes what ended; VectorWhole speaks about vectors that cannot be read.
        return was.filter(|was| !was.is_terminal()).map(|was| format!("{was:?} is gone"));
    };
    if was.is_some_and(|was| was.is_terminal()) && function != "ff_replay_execution" {
        return Some(format!("{function} left the end for {is:?}"));
    }
    let direct = table::transition(was.as_ref(), &is).is_some();
    // Two steps in one call: a lapsed lease is marked and brought back, a member is made and held.
    let middle = match was {
        Some(was) if was.ownership == OwnershipState::Leased => Some(StateVector {
            ownership: OwnershipState::LeaseExpiredReclaimable,
            reason: BlockingReason::WaitingForWorker,
            attempt: AttemptState::AttemptInterrupted,
            ..was
        }),
        None => StateVector::read(AT_BIRTH).ok(),
        Some(_) => None,
    };
    let indirect = middle.is_some_and(|middle| table::transition(Some(&middle), &is).is_some());
    (!direct && !indirect).then(|| format!("{function} led from {was:?} to {is:?}"))
}

/// The vector of an execution that was just made.
const AT_BIRTH: [&str; 7] = [
    "runnable",
    "unowned",
    "eligible_now",
    "waiting_for_worker",
    "none",
    "pending_first_attempt",
    "waiting",
];

/// What a budget must say, by what it accepted.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    usage: BTreeMap<String, i64>,
    by_execution: BTreeMap<ExecutionId, BTreeMap<String, i64>>,
    holders: BTreeSet<ExecutionId>,
}

impl Ledger {
    /// Something was used, perhaps by an execution.
    pub fn add(&mut self, spender: Option<&ExecutionId>, dimension: &str, delta: i64) {
        *self.usage.entry(dimension.to_owned()).or_default() += delta;
        if let Some(id) = spender {
            let ledger = self.by_execution.entry(id.clone()).or_default();
            *ledger.entry(dimension.to_owned()).or_default() += delta;
        }
    }

    /// An execution gave back what it spent.
    pub fn give_back(&mut self, spender: &ExecutionId) {
        for (dimension, spent) in self.by_execution.remove(spender).unwrap_or_default() {
            *self.usage.entry(dimension).or_default() -= spent;
        }
    }

    /// A new period began.
    pub fn reset(&mut self) {
        self.usage.clear();
        self.by_execution.clear();
    }

    /// An execution got a slot.
    pub fn admit(&mut self, id: &ExecutionId) {
        self.holders.insert(id.clone());
    }

    /// An execution gave its slot back.
    pub fn dismiss(&mut self, id: &ExecutionId) {
        self.holders.remove(id);
    }

    /// Whether an execution has a slot.
    #[must_use]
    pub fn holds(&self, id: &ExecutionId) -> bool {
        self.holders.contains(id)
    }

    /// What the stored numbers have wrong.
    #[must_use]
    pub fn judge(&self, snapshot: &Snapshot, budget: &Key, admitted: &Key) -> Vec<String> {
        let mut findings = Vec::new();
        let stored: BTreeMap<String, i64> = snapshot
            .hash(budget)
            .map(|usage| {
                let names =
                    usage.iter().map(|(name, _)| name).filter(|name| *name != "breached_at");
                names.map(|name| (name.to_owned(), usage.number(name))).collect()
            })
            .unwrap_or_default();
        let nonzero = |amounts: &BTreeMap<String, i64>| {
            amounts.iter().filter(|(_, n)| **n != 0).map(|(d, n)| (d.clone(), *n)).collect()
        };
        let (stored, accepted): (Vec<_>, Vec<_>) = (nonzero(&stored), nonzero(&self.usage));
        if stored != accepted {
            findings.push(format!("LedgerAdds: {stored:?} is stored, {accepted:?} was accepted"));
        }
        let holders: BTreeSet<String> = self.holders.iter().map(ToString::to_string).collect();
        if snapshot.set(admitted) != &holders {
            findings.push(format!(
                "LedgerAdds: {:?} are stored as admitted, {holders:?} were",
                snapshot.set(admitted)
            ));
        }
        findings
    }
}
