//! `OneHolder`: at most one current lease, and it is the one that the record names.

use alloc::format;
use alloc::string::String;

use super::{Findings, Moment, Oracle, Reach, Snapshot, Subject};
use crate::id::ExecutionId;
use crate::key::Key;
use crate::state::{LifecyclePhase, OwnershipState};

pub(super) const ORACLE: Oracle = Oracle {
    name: "OneHolder",
    statement: "at most one current lease, and it is the one that the record names",
    moment: Moment::Always,
    reach: Reach::Deployment,
    look,
};

/// Fields of the lease with the fields of the record that must say the same.
const SHARED: [(&str, &str); 5] = [
    ("lease_id", "current_lease_id"),
    ("lease_epoch", "current_lease_epoch"),
    ("attempt_id", "current_attempt_id"),
    ("worker_id", "current_worker_id"),
    ("worker_instance_id", "current_worker_instance_id"),
];

fn look(snapshot: &Snapshot, subject: &Subject, findings: &mut Findings) {
    let Some(execution) = subject.execution_in(snapshot) else { return };
    let Ok(vector) = execution.vector() else { return };
    let core = execution.core;
    let lease = snapshot.hash(&Key::execution(execution.id).lease());
    let leased = vector.ownership == OwnershipState::Leased;
    let stands = leased && core.number("lease_expires_at") > snapshot.now().0;
    if stands {
        look_at_id(snapshot, execution.id, core.text("current_lease_id"), findings);
    }
    let Some(lease) = lease else {
        // A worker's claim leaves this record, and most often the time, to the first renewal.
        let renewed = !core.text("lease_last_renewed_at").is_empty()
            && core.number("lease_last_renewed_at") != core.number("lease_acquired_at");
        return findings.expect(!(stands && renewed), execution.id, || {
            String::from("has renewed its lease without a record of it")
        });
    };
    let held = leased || vector.ownership == OwnershipState::LeaseExpiredReclaimable;
    findings.expect(held && vector.phase == LifecyclePhase::Active, execution.id, || {
        format!("has a lease, but is {} and {}", vector.phase, vector.ownership)
    });
    for (of_lease, of_core) in SHARED {
        let (lease, core) = (lease.text(of_lease), core.text(of_core));
        findings.expect(lease == core, execution.id, || {
            format!("its lease says {of_lease} `{lease}`, its record `{core}`")
        });
    }
    if !stands {
        look_at_id(snapshot, execution.id, lease.text("lease_id"), findings);
    }
}

/// Whether a lease has an id, and nobody else has the same.
fn look_at_id(snapshot: &Snapshot, id: &ExecutionId, lease: &str, findings: &mut Findings) {
    findings.expect(!lease.is_empty(), id, || String::from("is leased without a lease"));
    if let Some(other) = snapshot.holders_of(lease).find(|other| *other != id) {
        findings.add(id, format!("shares its lease with {other}"));
    }
}
