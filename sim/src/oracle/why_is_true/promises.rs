//! Judges what was to happen by some time.

use selvedge_core::engine::{EngineConfig, ScannerName, scanner_specs};
use selvedge_core::explain::{Reason, UnblockedBy, Wait};
use selvedge_core::id::ExecutionId;
use selvedge_core::key::{Key, LaneIndex};
use selvedge_core::state::{EligibilityState, LifecyclePhase};

use super::{shard_of, time_of};
use crate::oracle::changes::{ExecutionState, execution_state};
use crate::oracle::{Findings, View};
use crate::plan::Config;

/// How long engines may avoid a node after it refused calls, and how long they take to find an
/// execution whose index entry was lost.
const RECOVERY_MS: u64 = 140_000;
/// In a partition with more executions than this, no time is promised.
const EXECUTIONS_MAX: usize = 50;

/// What was to happen by some time, ordered by the time when it is judged.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Promise {
    pub(super) until_ms: u64,
    pub(super) of: ExecutionId,
    reason: Reason,
    scanner: ScannerName,
    /// What was said to be due, by the server's clock.
    by: i64,
    said_ms: u64,
    /// The state of which it was said.
    of_state: String,
    on: String,
    /// How long its scanner may take.
    pass_ms: u64,
}

impl Promise {
    /// The promise in what was said, if there is one.
    pub(super) fn of(
        id: &ExecutionId,
        wait: &Wait,
        ahead_ms: i64,
        engine: &EngineConfig,
        view: &View<'_>,
    ) -> Option<Self> {
        let UnblockedBy::Scanner(scanner) = wait.unblocked_by else { return None };
        let by = time_of(wait.by)?;
        let spec = scanner_specs().find(|spec| spec.name == scanner)?;
        let interval_ms =
            u64::try_from(engine.interval(scanner, spec.interval).as_millis()).ok()?;
        let of_state = state_of(id, wait.reason, &wait.on, view)?;
        let pass_ms = 2 * interval_ms + slack_ms(view.config);
        let until_ms = u64::try_from(by - ahead_ms).unwrap_or(0) + slack_ms(view.config);
        Some(Self {
            until_ms: until_ms.max(view.now_ms),
            of: id.clone(),
            reason: wait.reason,
            scanner,
            by,
            said_ms: view.now_ms,
            of_state,
            on: wait.on.clone(),
            pass_ms,
        })
    }

    /// Whether it has not happened: the execution is still in the state of which it was said.
    pub(super) fn is_open(&self, view: &View<'_>) -> bool {
        state_of(&self.of, self.reason, &self.on, view).as_ref() == Some(&self.of_state)
    }

    /// The same promise at a later time, if the clock of the server was set back, or a fault could
    /// keep engines from it.
    pub(super) fn later(&self, ahead_ms: i64, view: &View<'_>) -> Option<Self> {
        let by_clock = u64::try_from(self.by - ahead_ms).unwrap_or(0) + slack_ms(view.config);
        let shard = shard_of(&self.of, view);
        let hurt_ms = view.disturbed_until_ms.max((view.slow_until)(shard));
        let after_fault =
            if hurt_ms > 0 { hurt_ms.saturating_add(RECOVERY_MS + self.pass_ms) } else { 0 };
        let until_ms = by_clock.max(after_fault);
        (until_ms > view.now_ms).then(|| Self { until_ms, ..self.clone() })
    }

    /// Reports that it was not kept.
    pub(super) fn report(&self, view: &View<'_>, findings: &mut Findings) {
        let partition = self.of.partition();
        let snapshot = view.of(partition);
        let crowd = snapshot.executions().filter(|one| one.id.partition() == partition).count();
        if crowd > EXECUTIONS_MAX || !has_room(view.config) {
            return;
        }
        let what = format!(
            "at {} ms `why` said that {} does by {} what it waits for: {}; at {} ms it has not",
            self.said_ms, self.scanner, self.by, self.on, view.now_ms
        );
        findings.add(view, &self.of, what);
    }
}

/// What of the state of an execution is to change, as text; none if that is the case, or if it is
/// in no index, so that engines have to find it first.
#[expect(clippy::wildcard_enum_match_arm, reason = "nothing is promised about the others")]
fn state_of(id: &ExecutionId, reason: Reason, on: &str, view: &View<'_>) -> Option<String> {
    let snapshot = view.of(id.partition());
    let is = execution_state(snapshot, id)?;
    let vector = is.vector.filter(|vector| !vector.is_terminal())?;
    let runnable = |eligibility: EligibilityState| {
        vector.phase == LifecyclePhase::Runnable && vector.eligibility == eligibility
    };
    let lane = is.lane.parse().ok()?;
    let index = |index| snapshot.zset(&Key::index(id.partition()).lane(&lane, index));
    let listed =
        |home: Option<LaneIndex>| home.is_some_and(|home| index(home).contains_key(id.as_str()));
    if !listed(vector.home()) {
        return None;
    }
    match reason {
        Reason::Delay => runnable(EligibilityState::NotEligibleUntilTime)
            .then(|| format!("delayed until {}", is.delay_until)),
        Reason::LeaseEnd | Reason::LostLease => (vector.phase == LifecyclePhase::Active)
            .then(|| format!("lease {} until {}", is.fence.join("/"), is.lease_expires_at)),
        Reason::SuspensionTimeout => (vector.phase == LifecyclePhase::Suspended
            && is.timeout_at > 0)
            .then(|| format!("suspended until {}", is.timeout_at)),
        Reason::AttemptTimeout => at(is.attempt_timeout),
        Reason::Deadline => at(is.deadline),
        Reason::Cancellation => super::asking::is_cancelled(id, view).then(|| "listed".to_owned()),
        Reason::Dispatch | Reason::Release if runnable(EligibilityState::BlockedByDependencies) => {
            let named = |upstream: &str| reason == Reason::Release || on.contains(upstream);
            Some(open_edges(&is, named, view))
        }
        Reason::Budget | Reason::Release if runnable(EligibilityState::BlockedByBudget) => {
            Some(budgets(id, view))
        }
        _ => None,
    }
}

fn at(time: i64) -> Option<String> {
    (time > 0).then(|| time.to_string())
}

/// Some open edges of an execution whose upstreams have ended, or have no record, with their runs.
fn open_edges(is: &ExecutionState, of: impl Fn(&str) -> bool, view: &View<'_>) -> String {
    let open = is.edges.iter().filter(|(_, edge)| edge.state == "unsatisfied");
    let ended = open.filter_map(|(id, edge)| {
        let upstream: ExecutionId = edge.upstream.parse().ok().filter(|_| of(&edge.upstream))?;
        match execution_state(view.of(upstream.partition()), &upstream) {
            None => Some(format!("{id} of none")),
            Some(state) => state.is_terminal().then(|| format!("{id} at {}", state.completed_at)),
        }
    });
    ended.collect::<Vec<_>>().join(", ")
}

/// The limits and the usage of the budgets of an execution.
fn budgets(id: &ExecutionId, view: &View<'_>) -> String {
    let snapshot = view.of(id.partition());
    let list = snapshot.execution(id).map_or("", |one| one.core.text("budget_ids"));
    let counts = crate::world::engines::partition_counts(view.config);
    let of = selvedge_core::admission::budget_ids(list).map(|id| {
        let partition = counts.of_budget(id);
        let usage = view.of(partition).hash(&Key::budget(partition, id).usage());
        let usage = usage.map(|usage| {
            usage
                .iter()
                .map(|(name, used)| format!("{name}={}", String::from_utf8_lossy(used)))
                .collect()
        });
        usage.unwrap_or_default()
    });
    of.map(|all: Vec<String>| all.join(",")).collect::<Vec<_>>().join(" ")
}

/// Round trips, and pauses between repeats.
fn slack_ms(config: &Config) -> u64 {
    config.pass_ms(0).saturating_sub(2 * config.interval.0)
}

/// Whether there is room for the batches of all partitions at once: otherwise one without a reply
/// delays the others.
fn has_room(config: &Config) -> bool {
    let partitions = config.flow_partitions + config.budget_partitions + config.quota_partitions;
    config.window >= partitions * config.window_per_slot
}
