//! Leases: renewed, lapsed, revoked.

use super::Signature;

/// The functions of this domain.
pub const SIGNATURES: &[Signature] = &[];
