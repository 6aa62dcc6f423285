//! `OneHome`: an execution sits in exactly the indexes that its record demands, at the score that
//! its record demands, and its flow is listed until all members have ended.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{Execution, Findings, Moment, Oracle, Reach, Snapshot, Subject};
use crate::id::{ExecutionId, FlowId};
use crate::key::{IndexPart, Key, LaneIndex, PartitionIndex};
use crate::partition::Partition;
use crate::state::{EligibilityState, LifecyclePhase, OwnershipState, StateVector};

pub(super) const ORACLE: Oracle = Oracle {
    name: "OneHome",
    statement: "an execution sits in exactly the indexes that its record demands, at the score \
                that its record demands, and its flow is listed until all members have ended",
    moment: Moment::Always,
    reach: Reach::Partition,
    look,
};

/// Without a timeout, a suspended execution stands at the end of its index.
const NEVER: f64 = 9_999_999_999_999.0;

fn look(snapshot: &Snapshot, subject: &Subject, findings: &mut Findings) {
    if let Subject::Flow(partition, id) = subject {
        return flow_index(snapshot, *partition, *id, findings);
    }
    let Subject::Execution(id) = subject else { return };
    let Some(execution) = snapshot.execution(id) else { return strays(snapshot, id, findings) };
    // A vector that cannot be read demands nothing that could be compared: VectorWhole speaks.
    let Ok(vector) = execution.vector() else { return };
    lanes(snapshot, &execution, &vector, findings);
    partition_indexes(snapshot, &execution, &vector, findings);
    worker_sets(snapshot, &execution, &vector, findings);
    if let Ok(flow) = execution.core.text("flow_id").parse::<FlowId>() {
        let members = Key::flow(execution.partition(), flow).members();
        if snapshot.set(&members).contains(id.as_str()) {
            listed_for(snapshot, flow, &execution, findings);
        }
    }
}

/// Nobody looks after a flow that the index does not list: it stays there until all have ended.
fn flow_index(snapshot: &Snapshot, partition: Partition, id: FlowId, findings: &mut Findings) {
    if snapshot.index_set(partition, PartitionIndex::FlowIndex).contains(&id.to_string()) {
        return;
    }
    for member in snapshot.set(&Key::flow(partition, id).members()) {
        let Ok(member) = member.parse() else { continue };
        if let Some(member) = snapshot.execution(&member) {
            listed_for(snapshot, id, &member, findings);
        }
    }
}

fn listed_for(snapshot: &Snapshot, flow: FlowId, member: &Execution<'_>, findings: &mut Findings) {
    let id = flow.to_string();
    let ended = member.vector().is_ok_and(|vector| vector.is_terminal());
    let listed = snapshot.index_set(member.partition(), PartitionIndex::FlowIndex).contains(&id);
    if ended || listed || member.core.text("flow_id") != id {
        return;
    }
    findings.expect(!snapshot.holds(&Key::flow(member.partition(), flow).core()), id, || {
        String::from("is not in flow_index, and a member has not ended")
    });
}

/// Exactly one lane index, that of its own lane.
fn lanes(
    snapshot: &Snapshot,
    execution: &Execution<'_>,
    vector: &StateVector,
    findings: &mut Findings,
) {
    let found: Vec<(&str, LaneIndex, f64)> = snapshot
        .indexes_listing(execution.id.as_str())
        .filter_map(|key| match key {
            Key::Index(_, IndexPart::Lane(lane, index)) => {
                Some((lane.as_str(), *index, *snapshot.zset(key).get(execution.id.as_str())?))
            }
            _ => None,
        })
        .collect();
    let lane = execution.core.text("lane_id");
    // A hold by the lane's own state has no index of its own and shares that of the operator.
    let home = match vector.eligibility {
        EligibilityState::BlockedByLaneState => Some(LaneIndex::BlockedOperator),
        _ => vector.home(),
    };
    let [(in_lane, index, score)] = found[..] else {
        let places = found.iter().map(|(lane, index, _)| format!("{index} of {lane}"));
        let places: Vec<String> = places.collect();
        let found = if places.is_empty() { "no index".into() } else { places.join(" and ") };
        let what = format!("in {found}, belongs in {} of {lane} only", named(home));
        return findings.add(execution.id, what);
    };
    findings.expect(in_lane == lane && Some(index) == home, execution.id, || {
        format!("in {index} of {in_lane}, belongs in {} of {lane}", named(home))
    });
    if let Some(demanded) = score_in(snapshot, execution, index) {
        findings.expect(score == demanded, execution.id, || {
            format!("stands at {score} in {index}, belongs at {demanded}")
        });
    }
}

/// The score that a record demands in its lane index; none where it is a mere time of entry.
fn score_in(snapshot: &Snapshot, execution: &Execution<'_>, index: LaneIndex) -> Option<f64> {
    let core = execution.core;
    match index {
        LaneIndex::Eligible => Some(execution.eligible_score()),
        LaneIndex::Delayed => Some(time(core.number("delay_until"))),
        LaneIndex::BlockedDependencies => Some(time(core.number("created_at"))),
        LaneIndex::Suspended => Some(timeout_of(snapshot, execution.id).unwrap_or(NEVER)),
        LaneIndex::Terminal => Some(time(core.number("completed_at"))),
        LaneIndex::Active
        | LaneIndex::BlockedBudget
        | LaneIndex::BlockedQuota
        | LaneIndex::BlockedRoute
        | LaneIndex::BlockedOperator => None,
    }
}

/// When the current suspension times out, if ever.
fn timeout_of(snapshot: &Snapshot, id: &ExecutionId) -> Option<f64> {
    let suspension = snapshot.hash(&Key::execution(id).suspension())?;
    let at = suspension.number("timeout_at");
    (at > 0).then(|| time(at))
}

fn partition_indexes(
    snapshot: &Snapshot,
    execution: &Execution<'_>,
    vector: &StateVector,
    findings: &mut Findings,
) {
    let mut demanded = BTreeMap::new();
    if is_held(vector) {
        let until = time(execution.core.number("lease_expires_at"));
        demanded.insert(PartitionIndex::LeaseExpiry, until);
    }
    if vector.phase == LifecyclePhase::Suspended
        && let Some(at) = timeout_of(snapshot, execution.id)
    {
        demanded.insert(PartitionIndex::SuspensionTimeout, at);
    }
    for index in [PartitionIndex::LeaseExpiry, PartitionIndex::SuspensionTimeout] {
        let score = snapshot.index(execution.partition(), index).get(execution.id.as_str());
        findings.expect(score == demanded.get(&index), execution.id, || {
            let [stands, belongs] = [score, demanded.get(&index)].map(|at| match at {
                Some(at) => format!("at {at}"),
                None => "nowhere".into(),
            });
            format!("stands {stands} in {index}, belongs {belongs}")
        });
    }
    // Not the record but the policy or a caller asks for these; a record can only forbid them.
    for (index, allowed) in [
        (PartitionIndex::AttemptTimeout, vector.phase == LifecyclePhase::Active),
        (PartitionIndex::ExecutionDeadline, !vector.is_terminal()),
    ] {
        let found =
            snapshot.index(execution.partition(), index).contains_key(execution.id.as_str());
        findings.expect(allowed || !found, execution.id, || format!("must not be in {index}"));
    }
    let all = snapshot.index_set(execution.partition(), PartitionIndex::AllExecutions);
    findings.expect(all.contains(execution.id.as_str()), execution.id, || {
        String::from("is not in all_executions")
    });
}

/// Held by a worker, be it that its lease ran out: until it is taken from it.
fn is_held(vector: &StateVector) -> bool {
    matches!(vector.ownership, OwnershipState::Leased | OwnershipState::LeaseExpiredReclaimable)
}

fn worker_sets(
    snapshot: &Snapshot,
    execution: &Execution<'_>,
    vector: &StateVector,
    findings: &mut Findings,
) {
    let holder = execution.core.text("current_worker_instance_id");
    let mut in_its_holders = false;
    for key in snapshot.indexes_listing(execution.id.as_str()) {
        let Key::Index(partition, IndexPart::WorkerLeases(worker)) = key else { continue };
        let rightly =
            is_held(vector) && worker.as_str() == holder && *partition == execution.partition();
        in_its_holders |= rightly;
        findings.expect(rightly, execution.id, || format!("{worker} does not hold it"));
    }
    findings.expect(in_its_holders || !is_held(vector), execution.id, || {
        format!("is missing among the leases of {holder}")
    });
}

/// Entries of what has no record.
fn strays(snapshot: &Snapshot, id: &ExecutionId, findings: &mut Findings) {
    for key in snapshot.indexes_listing(id.as_str()) {
        findings.add(key, format!("{id} has no record"));
    }
}

/// A lane index for people to read.
fn named(index: Option<LaneIndex>) -> String {
    index.map_or_else(|| "no index".into(), |index| index.to_string())
}

#[expect(clippy::cast_precision_loss, reason = "scores are doubles, and times have 13 digits")]
fn time(ms: i64) -> f64 {
    ms as f64
}
