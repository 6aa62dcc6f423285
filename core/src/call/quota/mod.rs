//! Quota policies and admission.

use super::Signature;

/// The functions of this domain.
pub const SIGNATURES: &[Signature] = &[];
