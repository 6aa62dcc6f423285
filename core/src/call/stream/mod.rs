//! Output streams and summaries.

use super::Signature;

/// The functions of this domain.
pub const SIGNATURES: &[Signature] = &[];
