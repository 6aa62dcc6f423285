//! The library itself, and what tells of or repairs any record: version, signatures, what is due.

mod due;
mod library_signatures;
mod repair_index;
mod version;

pub use due::{Due, DueIndex, DueNow};
pub use library_signatures::{DeclaredSignature, LibrarySignatures};
pub use repair_index::{Repair, RepairIndex};
pub use version::Version;

use super::Signature;

/// The functions of this domain.
pub const SIGNATURES: &[Signature] = &[
    Signature::of::<Due>(),
    Signature::of::<LibrarySignatures>(),
    Signature::of::<RepairIndex>(),
    Signature::of::<Version>(),
];
