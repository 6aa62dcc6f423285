//! `WorkComesBack`: every execution that lost its lease was requeued or ended.

use alloc::format;

use super::{Findings, Moment, Oracle, Reach, Snapshot, Subject};
use crate::state::{LifecyclePhase, OwnershipState};

pub(super) const ORACLE: Oracle = Oracle {
    name: "WorkComesBack",
    statement: "every execution that lost its lease was requeued or ended",
    moment: Moment::Rest,
    reach: Reach::Partition,
    look,
};

fn look(snapshot: &Snapshot, subject: &Subject, findings: &mut Findings) {
    let Some(execution) = subject.execution_in(snapshot) else { return };
    let Ok(vector) = execution.vector() else { return };
    if vector.phase != LifecyclePhase::Active {
        return;
    }
    let lost_at = match vector.ownership {
        OwnershipState::Leased | OwnershipState::LeaseExpiredReclaimable => "lease_expires_at",
        OwnershipState::LeaseRevoked => "lease_revoked_at",
        OwnershipState::Unowned => return,
    };
    let at = execution.core.number(lost_at);
    findings.expect(!snapshot.is_overdue(at), execution.id, || {
        format!("is {} since {at} and was not requeued", vector.ownership)
    });
}
