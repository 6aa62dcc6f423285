//! `CadenceKept`: due actions are performed within the interval of their scanner, even if other
//! shards are slow.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_core::id::ExecutionId;
use selvedge_core::partition::Partition;
use selvedge_core::state::{EligibilityState, LifecyclePhase};

use super::changes::{Change, ExecutionState, execution_state};
use super::{Changes, Checker, Class, Findings, Oracle, View};
use crate::event::{Applied, Event, EventKind};
use crate::fault::Fault;

pub(super) const ORACLE: Oracle = Oracle {
    name: "CadenceKept",
    statement: "due actions are performed within the interval of their scanner, even if other shards are slow",
    class: Class::Liveness,
    checker: || Box::<CadenceKept>::default(),
};

/// How long engines may avoid a node after it refused calls.
const RECOVERY_MS: u64 = 40_000;

/// In a partition with more executions than this, no time is guaranteed.
const EXECUTIONS_MAX: usize = 50;

/// An action that a scanner performs at a due time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum TimedAction {
    Promotion,
    LeaseExpiry,
    SuspensionTimeout,
    AttemptTimeout,
    Deadline,
}

impl TimedAction {
    const ALL: [Self; 5] = [
        Self::Promotion,
        Self::LeaseExpiry,
        Self::SuspensionTimeout,
        Self::AttemptTimeout,
        Self::Deadline,
    ];

    /// The longest default pause of its scanner.
    const fn pause_ms(self) -> u64 {
        match self {
            Self::Promotion => 1_500,
            Self::LeaseExpiry => 3_000,
            Self::SuspensionTimeout | Self::AttemptTimeout => 4_000,
            Self::Deadline => 5_000,
        }
    }

    /// When it is due by the server's clock, if ever.
    fn due(self, of: &ExecutionState) -> Option<i64> {
        let vector = of.vector.filter(|vector| !vector.is_terminal())?;
        let (applies, due) = match self {
            Self::Promotion => (
                vector.phase == LifecyclePhase::Runnable
                    && vector.eligibility == EligibilityState::NotEligibleUntilTime,
                of.delay_until,
            ),
            Self::LeaseExpiry => (of.is_leased(), of.lease_expires_at),
            Self::SuspensionTimeout => (vector.phase == LifecyclePhase::Suspended, of.timeout_at),
            Self::AttemptTimeout => (true, of.attempt_timeout),
            Self::Deadline => (true, of.deadline),
        };
        (applies && due > 0).then_some(due)
    }
}

/// A due action, ordered by the time when it must have been performed.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Alarm {
    latest_ms: u64,
    since_ms: u64,
    action: TimedAction,
    of: ExecutionId,
    /// By the server's clock.
    due: i64,
}

#[derive(Default)]
struct CadenceKept {
    alarms: BTreeSet<Alarm>,
    /// Until when the links of a shard were slow.
    slow_until: BTreeMap<usize, u64>,
    /// The offset of the clock of a shard, when it was last seen.
    clocks: BTreeMap<usize, i64>,
}

impl Checker for CadenceKept {
    fn on_event(
        &mut self,
        event: &Event,
        changes: &Changes,
        view: &View<'_>,
        findings: &mut Findings,
    ) {
        while self.alarms.first().is_some_and(|alarm| alarm.latest_ms < event.at_ms) {
            let Some(alarm) = self.alarms.pop_first() else { return };
            match self.postponed(&alarm, view) {
                Some(later) => drop(self.alarms.insert(later)),
                None => self.report(&alarm, view, findings),
            }
        }
        if let EventKind::Applied(applied) = &event.kind {
            let clock_ms = (applied.server_time_us / 1_000).cast_signed();
            if let (false, Some(partition)) = (applied.superseded, partition_of(applied)) {
                let ahead_ms = clock_ms - event.at_ms.cast_signed();
                self.clocks.insert(shard_of(partition, view), ahead_ms);
            }
            for change in &changes.executions {
                self.set_alarms(change, event.at_ms, clock_ms, view);
            }
        }
        if matches!(event.kind, EventKind::Fault { fault: Fault::SlowPartition, .. }) {
            for shard in 0..view.shards.len() {
                let until = self.slow_until.entry(shard).or_default();
                *until = (*until).max((view.slow_until)(shard));
            }
        }
    }
}

impl CadenceKept {
    fn set_alarms(
        &mut self,
        change: &Change<ExecutionId, ExecutionState>,
        now_ms: u64,
        clock_ms: i64,
        view: &View<'_>,
    ) {
        let Some(is) = &change.is else { return };
        for action in TimedAction::ALL {
            let Some(due) = action.due(is) else { continue };
            if change.was.as_ref().and_then(|was| action.due(was)) == Some(due) {
                continue;
            }
            let since_ms = now_ms + u64::try_from(due - clock_ms).unwrap_or(0);
            let latest_ms = since_ms + view.config.pass_ms(action.pause_ms());
            self.alarms.insert(Alarm { latest_ms, since_ms, action, of: change.of.clone(), due });
        }
    }

    /// The same alarm at a later time, if the clock was set back.
    fn postponed(&self, alarm: &Alarm, view: &View<'_>) -> Option<Alarm> {
        let ahead_ms = self.clocks.get(&shard_of(alarm.of.partition(), view))?;
        let since_ms = u64::try_from(alarm.due - ahead_ms).unwrap_or(0);
        let latest_ms = since_ms + view.config.pass_ms(alarm.action.pause_ms());
        let (action, of, due) = (alarm.action, alarm.of.clone(), alarm.due);
        (latest_ms > view.now_ms).then_some(Alarm { latest_ms, since_ms, action, of, due })
    }

    /// Reports an action that was not performed in time, unless its own shard had a fault.
    fn report(&self, alarm: &Alarm, view: &View<'_>, findings: &mut Findings) {
        let Alarm { since_ms, action, of, due, .. } = alarm;
        let partition = of.partition();
        let snapshot = view.of(partition);
        if execution_state(snapshot, of).and_then(|is| action.due(&is)) != Some(*due) {
            return;
        }
        let shard = shard_of(partition, view);
        let slow_until = self.slow_until.get(&shard).copied().unwrap_or(0);
        let hurt_until = slow_until.max(view.disturbed_until_ms);
        let excused = hurt_until > 0 && hurt_until.saturating_add(RECOVERY_MS) > *since_ms;
        let crowd = || snapshot.executions().filter(|one| one.id.partition() == partition).count();
        if excused || !has_room(view) || crowd() > EXECUTIONS_MAX {
            return;
        }
        let waited = view.now_ms - since_ms;
        let what = format!("{action:?} is due for {waited} ms, and its shard has no fault");
        findings.add(view, of, what);
    }
}

fn shard_of(partition: Partition, view: &View<'_>) -> usize {
    if view.shards.len() > 1 { (view.owners)(partition.slot()) } else { 0 }
}

/// The partition of the first key of a call: engines that sleep call about few executions.
fn partition_of(applied: &Applied) -> Option<Partition> {
    let key = str::from_utf8(applied.argv.get(FIRST_KEY_AT)?).ok()?;
    key.get(key.find('{')?..=key.find('}')?)?.parse().ok()
}

/// Where the first key of a function call stands.
const FIRST_KEY_AT: usize = 3;

/// Whether there is room for the batches of all partitions at once: otherwise one without a reply
/// delays the others.
fn has_room(view: &View<'_>) -> bool {
    let config = view.config;
    let partitions = config.flow_partitions + config.budget_partitions + config.quota_partitions;
    config.window >= partitions * config.window_per_slot
}
