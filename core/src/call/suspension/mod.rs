//! Suspensions, pending waitpoints and signing secrets.

use super::Signature;

/// The functions of this domain.
pub const SIGNATURES: &[Signature] = &[];
