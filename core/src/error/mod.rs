//! What can go wrong, sorted by who acts next.
//!
//! [`code`] holds the contract's refusals, [`server`] the classes of a server's own errors. A
//! [`CallError`] is what a call gives instead of its reply.

pub mod code;
pub mod server;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use thiserror::Error;

pub use code::{Code, Retry};
pub use server::{Applied, Class, ServerError};

use crate::value::Value;

/// A word that the wire does not know.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{text}` is no {kind}")]
pub struct UnknownWord {
    /// The enum that lacks it.
    pub kind: &'static str,
    /// What was there.
    pub text: String,
}

/// A text that should be a number and is not, or does not fit.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{text}` is no {kind}")]
pub struct InvalidNumber {
    /// What should have been there.
    pub kind: &'static str,
    /// What was there.
    pub text: String,
}

impl InvalidNumber {
    pub(crate) fn new(kind: &'static str, text: &str) -> Self {
        Self { kind, text: text.into() }
    }
}

/// The contract's "no": a code and its details. Nothing was written, but for what the contract
/// ties to the code.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct Refusal {
    /// Why.
    pub code: Code,
    /// What the code says more; bytes, because it may quote an argument.
    pub details: Vec<Vec<u8>>,
}

impl Refusal {
    /// The detail at `index` as text; "" where there is none, as the contract reads it.
    #[must_use]
    pub fn detail(&self, index: usize) -> String {
        self.details
            .get(index)
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
            .unwrap_or_default()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.code.fmt(f)?;
        for detail in &self.details {
            write!(f, " {}", String::from_utf8_lossy(detail))?;
        }
        Ok(())
    }
}

/// A reply of a shape that nobody expected; the bytes are kept for whoever looks into it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unreadable reply: {expected}, got {got:?}")]
pub struct Broken {
    /// What should have been there.
    pub expected: &'static str,
    /// The reply, or the part of it that did not fit.
    pub got: Value,
}

/// What a call gives when it does not give its reply.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CallError {
    /// The function refused. Who asked decides: the work may be done already, or be impossible.
    #[error("refused: {0}")]
    Refused(#[from] Refusal),
    /// The server itself answered with an error. Its class says whether to wait, reload or report.
    #[error("server: {0}")]
    Server(#[from] ServerError),
    /// The reply makes no sense. A person should look.
    #[error(transparent)]
    Broken(#[from] Broken),
}
