//! Budgets, and holding back what they do not allow.

use super::Signature;

/// The functions of this domain.
pub const SIGNATURES: &[Signature] = &[];
