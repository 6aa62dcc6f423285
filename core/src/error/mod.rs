//! Errors, by who acts next.
//!
//! [`code`] holds the codes of the contract's error tuples, [`server`] the classes of the server's
//! own errors. A [`CallError`] is what a call returns instead of its reply.

pub mod code;
pub mod server;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use thiserror::Error;

pub use code::{Code, RetryClass};
pub use server::{Applied, Cause, Class, ServerError};

use crate::value::Value;

/// A text that is none of the fixed texts of a wire enum.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{text}` is not a valid {}", in_words(.kind))]
#[non_exhaustive]
pub struct UnknownWord {
    /// The name of the enum.
    pub kind: &'static str,
    /// The text.
    pub text: String,
}

/// The name of a type as people write it: `PublicState` is a public state.
fn in_words(name: &str) -> String {
    let mut words = String::with_capacity(name.len() + 2);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.push(letter.to_ascii_lowercase());
    }
    words
}

/// A text that is not a number, or not one in range.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{text}` is not a valid {kind}")]
#[non_exhaustive]
pub struct InvalidNumber {
    /// What it should be.
    pub kind: &'static str,
    /// The text.
    pub text: String,
}

impl InvalidNumber {
    pub(crate) fn new(kind: &'static str, text: &str) -> Self {
        Self { kind, text: text.into() }
    }
}

/// A function refused a call: the code and its details. Nothing was written, except what the
/// contract ties to the code.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub struct Refusal {
    /// The error code.
    pub code: Code,
    /// Further elements of the error tuple. Bytes, because they may quote an argument.
    pub details: Vec<Vec<u8>>,
}

impl Refusal {
    /// A refusal with this code and these details.
    #[must_use]
    pub const fn new(code: Code, details: Vec<Vec<u8>>) -> Self {
        Self { code, details }
    }

    /// The detail at `index` as text; empty if there is none.
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

/// A reply of an unexpected shape. It is kept, for diagnosis.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unreadable reply: expected {expected}, got {got}")]
#[non_exhaustive]
pub struct Broken {
    /// What was expected.
    pub expected: &'static str,
    /// The reply, or the unexpected part of it.
    pub got: Value,
}

impl Broken {
    /// A reply that is not what was expected.
    #[must_use]
    pub const fn new(expected: &'static str, got: Value) -> Self {
        Self { expected, got }
    }
}

/// Why a call has no reply. There is no fourth way.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CallError {
    /// The function refused. The caller decides: the work may be done already, or be impossible.
    #[error("refused: {0}")]
    Refused(#[from] Refusal),
    /// The server answered with an error, or not at all. Its class says what to do.
    #[error("server: {0}")]
    Server(#[from] ServerError),
    /// The reply cannot be read: a bug, or another version of the library.
    #[error(transparent)]
    Broken(#[from] Broken),
}

impl CallError {
    /// The error of the server, if that is what it is.
    #[must_use]
    pub const fn server(&self) -> Option<&ServerError> {
        match self {
            Self::Server(error) => Some(error),
            Self::Refused(_) | Self::Broken(_) => None,
        }
    }
}
