//! Executions: made, claimed, ended, expired.

use super::Signature;

/// The functions of this domain.
pub const SIGNATURES: &[Signature] = &[];
