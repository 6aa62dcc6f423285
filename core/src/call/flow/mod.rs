//! Flows, their members, edges, groups and cancels.

mod ack_cancel_member;

pub use ack_cancel_member::AckCancelMember;

use super::Signature;

/// The functions of this domain.
pub const SIGNATURES: &[Signature] = &[Signature::of::<AckCancelMember>()];
