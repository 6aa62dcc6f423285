//! Leases: renewed, lapsed, revoked, and the work behind a lost one brought back.

mod mark_lease_expired_if_due;
mod renew_lease;
mod requeue_lost_lease;
mod revoke_lease;

pub use mark_lease_expired_if_due::{LeaseMark, MarkLeaseExpiredIfDue};
pub use renew_lease::RenewLease;
pub use requeue_lost_lease::{Requeue, RequeueLostLease};
pub use revoke_lease::{Revocation, RevokeLease};

use super::Signature;

/// The functions of this domain.
pub const SIGNATURES: &[Signature] = &[
    Signature::of::<MarkLeaseExpiredIfDue>(),
    Signature::of::<RenewLease>(),
    Signature::of::<RequeueLostLease>(),
    Signature::of::<RevokeLease>(),
];
