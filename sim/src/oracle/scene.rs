//! What a call changed: before and after of everything that an oracle compares. It is looked up
//! once per event and shared by all of them.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_core::audit::{Execution, Snapshot};
use selvedge_core::id::{EdgeId, ExecutionId};
use selvedge_core::key::{
    AttemptPart, BudgetPart, ExecutionPart, FlowPart, Key, PartitionIndex, WaitpointPart,
};
use selvedge_core::state::{OwnershipState, StateVector};

use super::View;
use crate::event::{Event, What};

/// One thing before and after a call.
#[derive(Clone, Debug)]
pub struct Change<K, V> {
    /// Which thing.
    pub of: K,
    /// What it was; nothing when there was none.
    pub was: Option<V>,
    /// What it is; nothing when it is gone.
    pub is: Option<V>,
}

/// What one call changed.
#[derive(Clone, Debug, Default)]
pub struct Scene {
    /// Executions.
    pub executions: Vec<Change<ExecutionId, Seen>>,
    /// The states of attempts.
    pub attempts: Vec<Change<(ExecutionId, u32), String>>,
    /// Edge groups, by their keys.
    pub groups: Vec<Change<Key, Group>>,
    /// The members that a flow owes a cancel, by the key of that set.
    pub owed: Vec<Change<Key, BTreeSet<String>>>,
    /// Waitpoints, by their keys.
    pub waitpoints: Vec<Change<Key, Waitpoint>>,
    /// Budgets, by the keys of their records.
    pub budgets: Vec<Change<Key, Budget>>,
}

/// An execution as it was after a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its state; none when it cannot be read.
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
    /// How long its policy keeps it after its end, as the policy stood then.
    pub kept_ms: Option<i64>,
    /// Whether a purge has begun to take it apart.
    pub is_being_purged: bool,
    /// How many attempts it had.
    pub attempts: i64,
    /// The attempt that runs or ran last.
    pub attempt_index: i64,
    /// When its suspension times out; 0 for never.
    pub timeout_at: i64,
    /// When its attempt must have ended; 0 for never.
    pub attempt_timeout: i64,
    /// When it must have ended; 0 for never.
    pub deadline: i64,
    /// Its lane.
    pub lane: String,
    /// Its edges.
    pub edges: BTreeMap<EdgeId, Edge>,
}

/// An edge as its child sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Open, satisfied or impossible.
    pub state: String,
    /// Where it comes from.
    pub upstream: String,
}

/// An edge group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// How many of its edges it wants.
    pub variant: String,
    /// Its verdict.
    pub state: String,
    /// Whether it owes cancels to siblings.
    pub owes: bool,
    /// To whom.
    pub siblings: Vec<String>,
}

/// A waitpoint with its condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waitpoint {
    /// Pending, active or closed.
    pub state: String,
    /// Why it was closed.
    pub close_reason: String,
    /// Whose it is.
    pub execution: String,
    /// When it must have been used; 0 for never.
    pub expires_at: i64,
    /// How many of its matchers were met.
    pub satisfied: i64,
}

/// When a budget starts a new period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// How often it has.
    pub resets: i64,
    /// When it will; 0 for never.
    pub next_reset_at: i64,
}

impl Seen {
    /// Whether somebody holds a lease that was not marked as lost.
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

impl<K> Change<K, Seen> {
    /// Whether it got a lease that it did not have before.
    #[must_use]
    pub fn got_a_lease(&self) -> Option<&Seen> {
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

/// What all oracles remember together.
#[derive(Debug, Default)]
pub struct Memory {
    executions: BTreeMap<ExecutionId, Seen>,
    attempts: BTreeMap<(ExecutionId, u32), String>,
    groups: BTreeMap<Key, Group>,
    owed: BTreeMap<Key, BTreeSet<String>>,
    waitpoints: BTreeMap<Key, Waitpoint>,
    budgets: BTreeMap<Key, Budget>,
}

impl Memory {
    /// What an event changed. Only a call changes anything; damage is taken note of in silence.
    pub fn scene(&mut self, event: &Event, view: &View<'_>) -> Scene {
        if matches!(event.what, What::CommitsLost { .. }) {
            self.look_again(view);
            return Scene::default();
        }
        if view.touched.is_empty() {
            return Scene::default();
        }
        let mut touched = Touched::default();
        for key in view.touched {
            touched.add(key);
        }
        let scene = self.compare(touched, view);
        if matches!(event.what, What::Applied(_)) { scene } else { Scene::default() }
    }

    /// How an execution was when it was last seen.
    #[must_use]
    pub fn execution(&self, id: &ExecutionId) -> Option<&Seen> {
        self.executions.get(id)
    }

    fn compare(&mut self, touched: Touched, view: &View<'_>) -> Scene {
        let mut scene = Scene::default();
        for id in touched.executions {
            let snapshot = view.of(id.partition());
            let is = look_at(snapshot, &id);
            scene.executions.extend(exchange(&mut self.executions, id, is));
        }
        for (id, index) in touched.attempts {
            let key = Key::execution(&id).attempt(selvedge_core::id::AttemptIndex(index));
            let is = view.of(id.partition()).hash(&key);
            let is = is.map(|record| record.text("attempt_state").to_owned());
            scene.attempts.extend(exchange(&mut self.attempts, (id, index), is));
        }
        for key in touched.groups {
            let is = group(view, &key);
            scene.groups.extend(exchange(&mut self.groups, key, is));
        }
        for key in touched.owed {
            let Key::Flow(partition, ..) = key else { continue };
            let members = view.of(partition).set(&key);
            let is = (!members.is_empty()).then(|| members.clone());
            scene.owed.extend(exchange(&mut self.owed, key, is));
        }
        for key in touched.waitpoints {
            let is = waitpoint(view, &key);
            scene.waitpoints.extend(exchange(&mut self.waitpoints, key, is));
        }
        for key in touched.budgets {
            let is = budget(view, &key);
            scene.budgets.extend(exchange(&mut self.budgets, key, is));
        }
        scene
    }

    /// After a loss, what stands there is what there is.
    fn look_again(&mut self, view: &View<'_>) {
        let mut touched = Touched {
            executions: self.executions.keys().cloned().collect(),
            attempts: self.attempts.keys().cloned().collect(),
            groups: self.groups.keys().cloned().collect(),
            owed: self.owed.keys().cloned().collect(),
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

/// Notes what a thing is now; the change, if it is one.
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

/// Things that some keys belong to.
#[derive(Default)]
struct Touched {
    executions: BTreeSet<ExecutionId>,
    attempts: BTreeSet<(ExecutionId, u32)>,
    groups: BTreeSet<Key>,
    owed: BTreeSet<Key>,
    waitpoints: BTreeSet<Key>,
    budgets: BTreeSet<Key>,
}

impl Touched {
    fn add(&mut self, key: &[u8]) {
        if let Some(key) = std::str::from_utf8(key).ok().and_then(|text| text.parse().ok()) {
            self.add_key(key);
        }
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "there are many kinds of keys; those named here are compared"
    )]
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
            Key::Flow(_, _, FlowPart::PendingCancels) => drop(self.owed.insert(key)),
            Key::Budget(_, _, BudgetPart::Record) => drop(self.budgets.insert(key)),
            Key::Waitpoint(partition, id, WaitpointPart::Record | WaitpointPart::Condition) => {
                self.waitpoints.insert(Key::waitpoint(partition, id));
            }
            _ => {}
        }
    }
}

/// What an execution is now.
pub(super) fn look_at(snapshot: &Snapshot, id: &ExecutionId) -> Option<Seen> {
    snapshot.execution(id).map(|execution| seen(snapshot, &execution))
}

fn seen(snapshot: &Snapshot, execution: &Execution<'_>) -> Seen {
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
    Seen {
        vector: execution.vector().ok(),
        fence: ["current_lease_id", "current_lease_epoch", "current_attempt_id"]
            .map(|name| core.text(name).to_owned()),
        epoch: core.number("current_lease_epoch"),
        lease_expires_at: core.number("lease_expires_at"),
        delay_until: core.number("delay_until"),
        completed_at: core.number("completed_at"),
        kept_ms: (core.text("lifecycle_phase") == "terminal")
            .then(|| kept_ms(snapshot, execution.id))
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

/// How long the policy of an execution keeps it after its end, if it says.
pub(super) fn kept_ms(snapshot: &Snapshot, id: &ExecutionId) -> Option<i64> {
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
        owes: group.text("cancel_siblings_pending_flag") == "true",
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
