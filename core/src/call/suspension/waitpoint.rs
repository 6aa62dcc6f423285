use alloc::string::ToString;
use alloc::vec::Vec;

use crate::call::Fields;
use crate::call::envelope::broken;
use crate::error::CallError;
use crate::id::{WaitpointId, WaitpointKey};
use crate::token::WaitpointToken;
use crate::value::Value;

/// A waitpoint that a suspension creates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewWaitpoint {
    /// Its id.
    pub id: WaitpointId,
    /// The name that conditions refer to.
    pub key: WaitpointKey,
}

/// A waitpoint that exists, with the token that signals it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundWaitpoint {
    /// Its id.
    pub id: WaitpointId,
    /// The name that conditions refer to.
    pub key: WaitpointKey,
    /// The token that a caller must send to signal it.
    pub token: WaitpointToken,
}

impl BoundWaitpoint {
    pub(super) fn read(fields: &mut Fields) -> Result<Self, CallError> {
        let id = fields.parse("a waitpoint id")?;
        let key = WaitpointKey::new(fields.text()?);
        let token = fields.text()?;
        // The refusal does not repeat the text: it may be a credential.
        let token = token.parse().map_err(|_| broken("a waitpoint token", Value::Nil))?;
        Ok(Self { id, key, token })
    }
}

/// Reads `count` and then so many waitpoints.
pub(super) fn read_counted(fields: &mut Fields) -> Result<Vec<BoundWaitpoint>, CallError> {
    let count: u32 = fields.parse("a count of waitpoints")?;
    (0..count).map(|_| BoundWaitpoint::read(fields)).collect()
}

/// The length of a list as ARGV.
pub(super) fn count_arg<T>(items: &[T]) -> Vec<u8> {
    items.len().to_string().into_bytes()
}
