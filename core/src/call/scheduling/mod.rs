//! Grants, priorities, progress, delays and the registry of workers.

use super::Signature;

/// The functions of this domain.
pub const SIGNATURES: &[Signature] = &[];
