//! What a call changed: all records that oracles compare, before and after. It is computed once for
//! each event and shared by all oracles.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_core::audit::{Execution, Snapshot};
use selvedge_core::id::{EdgeId, ExecutionId};
use selvedge_core::key::{
    AttemptPart, BudgetPart, ExecutionPart, FlowPart, Key, PartitionIndex, WaitpointPart,
};
use selvedge_core::state::{OwnershipState, StateVector};

use super::View;
use crate::event::{Event, EventKind};

/// A record before and after a call.
#[derive(Clone, Debug)]
pub struct Change<K, V> {
    /// Which record.
    pub of: K,
    /// Its old state; none if it did not exist.
    pub was: Option<V>,
    /// Its new state; none if it does not exist any more.
    pub is: Option<V>,
}

/// Everything that a call changed.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Executions.
    pub executions: Vec<Change<ExecutionId, ExecutionState>>,
    /// The states of attempts.
    pub attempts: Vec<Change<(ExecutionId, u32), String>>,
    /// Edge groups, by their keys.
    pub groups: Vec<Change<Key, Group>>,
    /// Members of a flow that are still to be cancelled, by the key of that set.
    pub pending_cancels: Vec<Change<Key, BTreeSet<String>>>,
    /// Waitpoints, by their keys.
    pub waitpoints: Vec<Change<Key, Waitpoint>>,
    /// Budgets, by the keys of their records.
    pub budgets: Vec<Change<Key, Budget>>,
}

/// The state of an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutionState {
    /// Its state vector; none if it is invalid.
    pub vector: Option<StateVector>,
    /// Lease id, epoch and attempt id.
    pub fence: [String; 3],
    /// The epoch as a number.
    pub epoch: i64,
    /// When its lease ends.
    pub lease_expires_at: i64,
    /// Until when it is delayed.
    pub delay_until: i64,
    /// When it ended.
    pub completed_at: i64,
    /// How long its policy keeps it after its end.
    pub retention_ms: Option<i64>,
    /// Whether its purge has begun.
    pub is_being_purged: bool,
    /// How many attempts it had.
    pub attempts: i64,
    /// The current or last attempt.
    pub attempt_index: i64,
    /// When its suspension times out; 0 if never.
    pub timeout_at: i64,
    /// When its attempt times out; 0 if never.
    pub attempt_timeout: i64,
    /// Its deadline; 0 if it has none.
    pub deadline: i64,
    /// Its lane.
    pub lane: String,
    /// Its edges.
    pub edges: BTreeMap<EdgeId, Edge>,
}

/// An edge in the record of its child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Open, satisfied or impossible.
    pub state: String,
    /// Its upstream execution.
    pub upstream: String,
}

/// An edge group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its policy: all_of, any_of or quorum.
    pub variant: String,
    /// Its state.
    pub state: String,
    /// Whether siblings are still to be cancelled.
    pub cancels_pending: bool,
    /// Which siblings.
    pub siblings: Vec<String>,
}

/// A waitpoint with its condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waitpoint {
    /// Pending, active or closed.
    pub state: String,
    /// Why it was closed.
    pub close_reason: String,
    /// Its execution.
    pub execution: String,
    /// When it expires; 0 if never.
    pub expires_at: i64,
    /// How many of its matchers are satisfied.
    pub satisfied: i64,
}

/// The periods of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// How often it was reset.
    pub resets: i64,
    /// When it will be reset; 0 if never.
    pub next_reset_at: i64,
}

impl ExecutionState {
    /// Whether it has a lease that is not marked as expired.
    #[must_use]
    pub fn is_leased(&self) -> bool {
        self.vector.is_some_and(|vector| vector.ownership == OwnershipState::Leased)
    }

    /// Whether it has ended.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        self.vector.is_some_and(|vector| vector.is_terminal())
    }
}

impl<K> Change<K, ExecutionState> {
    /// Its new state, if it got a new lease.
    #[must_use]
    pub fn got_a_lease(&self) -> Option<&ExecutionState> {
        let is = self.is.as_ref().filter(|is| is.is_leased())?;
        let had = self.was.as_ref().is_some_and(|was| was.is_leased() && was.fence == is.fence);
        (!had).then_some(is)
    }

    /// The states before and after, if they differ.
    #[must_use]
    pub fn vectors(&self) -> Option<[Option<StateVector>; 2]> {
        let [was, is] =
            [&self.was, &self.is].map(|seen| seen.as_ref().and_then(|seen| seen.vector));
        (was != is).then_some([was, is])
    }
}

/// The last known state of all records, shared by all oracles.
#[derive(Debug, Default)]
pub struct KnownState {
    executions: BTreeMap<ExecutionId, ExecutionState>,
    attempts: BTreeMap<(ExecutionId, u32), String>,
    groups: BTreeMap<Key, Group>,
    pending_cancels: BTreeMap<Key, BTreeSet<String>>,
    waitpoints: BTreeMap<Key, Waitpoint>,
    budgets: BTreeMap<Key, Budget>,
}

impl KnownState {
    /// What an event changed. Lost commits update the known state without being reported as a
    /// change.
    pub fn changes(&mut self, event: &Event, view: &View<'_>) -> Changes {
        if matches!(event.kind, EventKind::CommitsLost { .. }) {
            self.reload(view);
            return Changes::default();
        }
        if view.touched.is_empty() {
            return Changes::default();
        }
        let mut touched = Touched::default();
        for key in view.touched {
            touched.add(key);
        }
        let changes = self.compare(touched, view);
        if matches!(event.kind, EventKind::Applied(_)) { changes } else { Changes::default() }
    }

    /// The last known state of an execution.
    #[must_use]
    pub fn execution(&self, id: &ExecutionId) -> Option<&ExecutionState> {
        self.executions.get(id)
    }

    fn compare(&mut self, touched: Touched, view: &View<'_>) -> Changes {
        let mut changes = Changes::default();
        for id in touched.executions {
            let snapshot = view.of(id.partition());
            let is = execution_state(snapshot, &id);
            changes.executions.extend(exchange(&mut self.executions, id, is));
        }
        for (id, index) in touched.attempts {
            let key = Key::execution(&id).attempt(selvedge_core::id::AttemptIndex(index));
            let is = view.of(id.partition()).hash(&key);
            let is = is.map(|record| record.text("attempt_state").to_owned());
            changes.attempts.extend(exchange(&mut self.attempts, (id, index), is));
        }
        for key in touched.groups {
            let is = group(view, &key);
            changes.groups.extend(exchange(&mut self.groups, key, is));
        }
        for key in touched.pending_cancels {
            let Key::Flow(partition, ..) = key else { continue };
            let members = view.of(partition).set(&key);
            let is = (!members.is_empty()).then(|| members.clone());
            changes.pending_cancels.extend(exchange(&mut self.pending_cancels, key, is));
        }
        for key in touched.waitpoints {
            let is = waitpoint(view, &key);
            changes.waitpoints.extend(exchange(&mut self.waitpoints, key, is));
        }
        for key in touched.budgets {
            let is = budget(view, &key);
            changes.budgets.extend(exchange(&mut self.budgets, key, is));
        }
        changes
    }

    /// After a loss, takes the stored state of everything as known.
    fn reload(&mut self, view: &View<'_>) {
        let mut touched = Touched {
            executions: self.executions.keys().cloned().collect(),
            attempts: self.attempts.keys().cloned().collect(),
            groups: self.groups.keys().cloned().collect(),
            pending_cancels: self.pending_cancels.keys().cloned().collect(),
            waitpoints: self.waitpoints.keys().cloned().collect(),
            budgets: self.budgets.keys().cloned().collect(),
        };
        for shard in view.shards {
            for (key, _) in shard.iter() {
                touched.add_key(key.clone());
            }
        }
        drop(self.compare(touched, view));
    }
}

/// Updates the known state of a record; returns the change, if any.
fn exchange<K: Ord + Clone, V: Clone + PartialEq>(
    known: &mut BTreeMap<K, V>,
    of: K,
    is: Option<V>,
) -> Option<Change<K, V>> {
    let was = match &is {
        Some(is) => known.insert(of.clone(), is.clone()),
        None => known.remove(&of),
    };
    (was != is).then_some(Change { of, was, is })
}

/// Records that some keys belong to.
#[derive(Default)]
struct Touched {
    executions: BTreeSet<ExecutionId>,
    attempts: BTreeSet<(ExecutionId, u32)>,
    groups: BTreeSet<Key>,
    pending_cancels: BTreeSet<Key>,
    waitpoints: BTreeSet<Key>,
    budgets: BTreeSet<Key>,
}

impl Touched {
    fn add(&mut self, key: &[u8]) {
        if let Some(key) = std::str::from_utf8(key).ok().and_then(|text| text.parse().ok()) {
            self.add_key(key);
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "only these keys are compared")]
    fn add_key(&mut self, key: Key) {
        match key {
            Key::Execution(
                id,
                ExecutionPart::Core | ExecutionPart::Suspension | ExecutionPart::Dependency(_),
            ) => drop(self.executions.insert(id)),
            Key::Attempt(id, index, AttemptPart::Record) => {
                self.attempts.insert((id, index.0));
            }
            Key::Flow(_, _, FlowPart::EdgeGroup(_)) => drop(self.groups.insert(key)),
            Key::Flow(_, _, FlowPart::PendingCancels) => drop(self.pending_cancels.insert(key)),
            Key::Budget(_, _, BudgetPart::Record) => drop(self.budgets.insert(key)),
            Key::Waitpoint(partition, id, WaitpointPart::Record | WaitpointPart::Condition) => {
                self.waitpoints.insert(Key::waitpoint(partition, id));
            }
            _ => {}
        }
    }
}

/// The current state of an execution.
pub(super) fn execution_state(snapshot: &Snapshot, id: &ExecutionId) -> Option<ExecutionState> {
    snapshot.execution(id).map(|execution| seen(snapshot, &execution))
}

fn seen(snapshot: &Snapshot, execution: &Execution<'_>) -> ExecutionState {
    let core = execution.core;
    let entry = |index| {
        let score = snapshot.index(execution.partition(), index).get(execution.id.as_str());
        score.map_or(0, |score| *score as i64)
    };
    let edges = snapshot.of_execution(execution.id).filter_map(|(part, entry)| {
        let ExecutionPart::Dependency(edge) = part else { return None };
        let fields = entry.fields()?;
        let text = |name| fields.text(name).to_owned();
        Some((*edge, Edge { state: text("state"), upstream: text("upstream_execution_id") }))
    });
    let suspension = snapshot.hash(&Key::execution(execution.id).suspension());
    ExecutionState {
        vector: execution.vector().ok(),
        fence: ["current_lease_id", "current_lease_epoch", "current_attempt_id"]
            .map(|name| core.text(name).to_owned()),
        epoch: core.number("current_lease_epoch"),
        lease_expires_at: core.number("lease_expires_at"),
        delay_until: core.number("delay_until"),
        completed_at: core.number("completed_at"),
        retention_ms: (core.text("lifecycle_phase") == "terminal")
            .then(|| retention_ms(snapshot, execution.id))
            .flatten(),
        is_being_purged: execution.is_being_purged(),
        attempts: core.number("total_attempt_count"),
        attempt_index: core.number("current_attempt_index"),
        timeout_at: suspension.map_or(0, |suspension| suspension.number("timeout_at")),
        attempt_timeout: entry(PartitionIndex::AttemptTimeout),
        deadline: entry(PartitionIndex::ExecutionDeadline),
        lane: core.text("lane_id").to_owned(),
        edges: edges.collect(),
    }
}

/// How long the policy of an execution keeps it after its end, if it has such a setting.
pub(super) fn retention_ms(snapshot: &Snapshot, id: &ExecutionId) -> Option<i64> {
    let policy = snapshot.text(&Key::execution(id).policy()).unwrap_or_default();
    let policy = String::from_utf8_lossy(policy);
    let (_, said) = policy.split_once("\"retention_ttl_ms\":")?;
    let digits = said.trim_start().split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok().filter(|ms| *ms > 0)
}

fn group(view: &View<'_>, key: &Key) -> Option<Group> {
    let Key::Flow(partition, ..) = key else { return None };
    let group = view.of(*partition).hash(key)?;
    let siblings = group.text("cancel_siblings_pending_members");
    Some(Group {
        variant: group.text("policy_variant").to_owned(),
        state: group.text("group_state").to_owned(),
        cancels_pending: group.text("cancel_siblings_pending_flag") == "true",
        siblings: siblings.split('|').filter(|id| !id.is_empty()).map(str::to_owned).collect(),
    })
}

fn waitpoint(view: &View<'_>, key: &Key) -> Option<Waitpoint> {
    let Key::Waitpoint(partition, id, _) = key else { return None };
    let snapshot = view.of(*partition);
    let record = snapshot.hash(key)?;
    let condition = snapshot.hash(&Key::waitpoint_condition(*partition, *id));
    Some(Waitpoint {
        state: record.text("state").to_owned(),
        close_reason: record.text("close_reason").to_owned(),
        execution: record.text("execution_id").to_owned(),
        expires_at: record.number("expires_at"),
        satisfied: condition.map_or(0, |condition| condition.number("satisfied_count")),
    })
}

fn budget(view: &View<'_>, key: &Key) -> Option<Budget> {
    let Key::Budget(partition, ..) = key else { return None };
    let record = view.of(*partition).hash(key)?;
    let (resets, next_reset_at) = (record.number("reset_count"), record.number("next_reset_at"));
    Some(Budget { resets, next_reset_at })
}
