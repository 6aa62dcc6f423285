//! The library itself: its version and what it declares.

mod library_signatures;
mod version;

pub use library_signatures::{DeclaredSignature, LibrarySignatures};
pub use version::Version;

use super::Signature;

/// The functions of this domain.
pub const SIGNATURES: &[Signature] =
    &[Signature::of::<LibrarySignatures>(), Signature::of::<Version>()];
