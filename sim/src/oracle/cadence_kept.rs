//! `CadenceKept`

use std::collections::{BTreeMap, BTreeSet};

use selvedge_core::id::ExecutionId;
use selvedge_core::state::{EligibilityState, LifecyclePhase};

use super::call::Call;
use super::scene::{Change, Seen, look_at};
use super::{Class, Findings, Judge, Oracle, Scene, View};
use crate::event::{Event, What};
use crate::fault::Fault;

pub(super) const ORACLE: Oracle = Oracle {
    name: "CadenceKept",
    statement: "what falls due is acted on in its scanner's time, whatever slows down elsewhere",
    class: Class::Liveness,
    judge: || Box::<CadenceKept>::default(),
};

/// Engines stay away from who refused them for as long as this, and some may have been given up on.
const RECOVERY_MS: u64 = 40_000;

/// Nobody promises a time to who stands in a crowd of the same partition.
const CROWD: usize = 50;

/// Something that a scanner does when its time has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Duty {
    Promotion,
    LeaseExpiry,
    SuspensionTimeout,
    AttemptTimeout,
    Deadline,
}

impl Duty {
    const ALL: [Self; 5] = [
        Self::Promotion,
        Self::LeaseExpiry,
        Self::SuspensionTimeout,
        Self::AttemptTimeout,
        Self::Deadline,
    ];

    /// The longest pause of its scanner, unless the world has an interval of its own.
    const fn pause_ms(self) -> u64 {
        match self {
            Self::Promotion => 1_500,
            Self::LeaseExpiry => 3_000,
            Self::SuspensionTimeout | Self::AttemptTimeout => 4_000,
            Self::Deadline => 5_000,
        }
    }

    /// When it is due, by the server's clock, if it is ever.
    fn due(self, of: &Seen) -> Option<i64> {
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

/// Something due, by the time at which it must have been done.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Alarm {
    latest_ms: u64,
    since_ms: u64,
    duty: Duty,
    of: ExecutionId,
    /// By the server's clock.
    due: i64,
}

#[derive(Default)]
struct CadenceKept {
    alarms: BTreeSet<Alarm>,
    /// Until when the links of a shard were slow.
    slow_until: BTreeMap<usize, u64>,
    /// By how much the clock of a shard was ahead of the world when it was last heard.
    clocks: BTreeMap<usize, i64>,
}

impl Judge for CadenceKept {
    fn see(&mut self, event: &Event, scene: &Scene, view: &View<'_>, findings: &mut Findings) {
        while self.alarms.first().is_some_and(|alarm| alarm.latest_ms < event.at_ms) {
            let Some(alarm) = self.alarms.pop_first() else { return };
            match self.put_off(&alarm, view) {
                Some(later) => drop(self.alarms.insert(later)),
                None => self.ring(&alarm, view, findings),
            }
        }
        if let What::Applied(applied) = &event.what {
            let clock_ms = (applied.server_time_us / 1_000).cast_signed();
            if let (false, Some(id)) =
                (applied.stray, Call::of(applied).and_then(|call| call.execution()))
            {
                let ahead_ms = clock_ms - event.at_ms.cast_signed();
                self.clocks.insert(shard_of(&id, view), ahead_ms);
            }
            for change in &scene.executions {
                self.set_alarms(change, event.at_ms, clock_ms, view);
            }
        }
        if matches!(event.what, What::Fault { fault: Fault::SlowPartition, .. }) {
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
        change: &Change<ExecutionId, Seen>,
        now_ms: u64,
        clock_ms: i64,
        view: &View<'_>,
    ) {
        let Some(is) = &change.is else { return };
        for duty in Duty::ALL {
            let Some(due) = duty.due(is) else { continue };
            if change.was.as_ref().and_then(|was| duty.due(was)) == Some(due) {
                continue;
            }
            let since_ms = now_ms + u64::try_from(due - clock_ms).unwrap_or(0);
            let latest_ms = since_ms + view.config.pass_ms(duty.pause_ms());
            self.alarms.insert(Alarm { latest_ms, since_ms, duty, of: change.of.clone(), due });
        }
    }

    /// The same alarm at a later time, where a clock that was set back says that it is not over yet.
    fn put_off(&self, alarm: &Alarm, view: &View<'_>) -> Option<Alarm> {
        let ahead_ms = self.clocks.get(&shard_of(&alarm.of, view))?;
        let since_ms = u64::try_from(alarm.due - ahead_ms).unwrap_or(0);
        let latest_ms = since_ms + view.config.pass_ms(alarm.duty.pause_ms());
        let (duty, of, due) = (alarm.duty, alarm.of.clone(), alarm.due);
        (latest_ms > view.now_ms).then_some(Alarm { latest_ms, since_ms, duty, of, due })
    }

    /// It should have been done by now. If it was not, was there a reason other than what went on
    /// elsewhere?
    fn ring(&self, alarm: &Alarm, view: &View<'_>, findings: &mut Findings) {
        let Alarm { since_ms, duty, of, due, .. } = alarm;
        let partition = of.partition();
        let snapshot = view.of(partition);
        if look_at(snapshot, of).and_then(|is| duty.due(&is)) != Some(*due) {
            return;
        }
        let shard = shard_of(of, view);
        let slow_until = self.slow_until.get(&shard).copied().unwrap_or(0);
        let hurt_until = slow_until.max(view.disturbed_until_ms);
        let excused = hurt_until > 0 && hurt_until.saturating_add(RECOVERY_MS) > *since_ms;
        let crowd = || snapshot.executions().filter(|one| one.id.partition() == partition).count();
        if excused || !has_room(view) || crowd() > CROWD {
            return;
        }
        let waited = view.now_ms - since_ms;
        let what = format!("{duty:?} is due for {waited} ms, and nothing hurts its shard");
        findings.add(view, of, what);
    }
}

fn shard_of(id: &ExecutionId, view: &View<'_>) -> usize {
    if view.shards.len() > 1 { (view.owners)(id.partition().slot()) } else { 0 }
}

/// Whether the batches of every partition can be under way at once: with less room, one that gets
/// no answer does hold up the others.
fn has_room(view: &View<'_>) -> bool {
    let config = view.config;
    let partitions = config.flow_partitions + config.budget_partitions + config.quota_partitions;
    config.window >= partitions * config.window_per_slot
}
