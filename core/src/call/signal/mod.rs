//! Signals, and the claim after a resume.

use super::Signature;

/// The functions of this domain.
pub const SIGNATURES: &[Signature] = &[];
