//! Rates and concurrency.

mod check_admission_and_record;
mod create_quota_policy;
mod holder;
mod reconcile_quota;
mod release_admission;

pub use check_admission_and_record::{Admission, CheckAdmissionAndRecord};
pub use create_quota_policy::{CreateQuotaPolicy, PolicyCreation};
pub use holder::{HOLDER_FIELDS, needs_no_slot};
pub use reconcile_quota::{QuotaReconciliation, QuotaState, ReconcileQuota};
pub use release_admission::ReleaseAdmission;

use super::Signature;

/// The dimension under which executions are admitted.
pub const ADMISSION_DIMENSION: &str = "default";

/// The dimension that a policy is created with; kept in order, though nobody is admitted under it.
pub const CREATION_DIMENSION: &str = "requests_per_window";

/// The functions of this domain.
pub const SIGNATURES: &[Signature] = &[
    Signature::of::<CheckAdmissionAndRecord>(),
    Signature::of::<CreateQuotaPolicy>(),
    Signature::of::<ReconcileQuota>(),
    Signature::of::<ReleaseAdmission>(),
];
