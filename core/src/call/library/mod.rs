//! The library itself, and what tells of or repairs any record: version, signatures, what is due.

mod audit_executions;
mod fix_partition_counts;
mod library_revision;
mod library_signatures;
mod repair_index;
mod scan_partition;
mod set_aside;
mod version;

pub use audit_executions::{AuditExecutions, AuditedPage};
pub use fix_partition_counts::{CountsFixed, FixPartitionCounts};
pub use library_revision::{Edition, LibraryRevision};
pub use library_signatures::{DeclaredSignature, LibrarySignatures};
pub use repair_index::{Repair, RepairIndex};
pub use scan_partition::{Page, PageMode, PageQuery, Pages, ScanPartition};
pub use set_aside::{SetAside, SetAsideReply};
pub use version::Version;

use super::Signature;

/// The functions of this domain.
pub const SIGNATURES: &[Signature] = &[
    Signature::of::<AuditExecutions>(),
    Signature::of::<FixPartitionCounts>(),
    Signature::of::<LibraryRevision>(),
    Signature::of::<LibrarySignatures>(),
    Signature::of::<RepairIndex>(),
    Signature::of::<ScanPartition>(),
    Signature::of::<SetAside>(),
    Signature::of::<Version>(),
];
