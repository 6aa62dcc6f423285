//! Explains executions that a worker holds.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;

use super::{DueBy, Explainer, Reason, UnblockedBy};
use crate::engine::ScannerName;
use crate::state::OwnershipState;
use crate::time::ServerTime;

impl Explainer<'_> {
    pub(super) fn active(&mut self, ownership: OwnershipState) -> String {
        let core = self.execution.core;
        let holder = match core.text("current_worker_instance_id") {
            "" => core.text("current_worker_id"),
            instance => instance,
        };
        let ends = ServerTime(core.number("lease_expires_at"));
        let scanner = UnblockedBy::Scanner(ScannerName::LeaseExpiry);
        // It ends the attempt also when the lease is lost and nobody has noticed.
        self.attempt_timeout();
        match ownership {
            OwnershipState::Leased if ends >= self.snapshot.now() => {
                let worker = UnblockedBy::Worker(holder.to_owned());
                self.wait(Reason::Handler, "its worker to finish", worker, DueBy::Unknown);
                let back = self.after(ends, ScannerName::LeaseExpiry);
                let on = "the end of its lease, unless it is renewed";
                self.limit(Reason::LeaseEnd, on, scanner, back);
                format!("worker {holder} runs it under a lease until {ends}")
            }
            OwnershipState::Leased => {
                let by = self.after(ends, ScannerName::LeaseExpiry);
                self.wait(Reason::LostLease, "its expired lease to be detected", scanner, by);
                format!("the lease of worker {holder} expired at {ends}")
            }
            OwnershipState::LeaseExpiredReclaimable | OwnershipState::LeaseRevoked => {
                let lost = ServerTime(core.number("last_transition_at"));
                let by = self.after(lost, ScannerName::LeaseExpiry);
                self.wait(Reason::LostLease, "to be requeued", scanner, by);
                format!("worker {holder} lost its lease ({ownership})")
            }
            OwnershipState::Unowned => {
                self.damaged();
                "it is active but no worker owns it".to_owned()
            }
        }
    }
}
