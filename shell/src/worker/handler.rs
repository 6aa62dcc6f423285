//! Handlers by kind, and what a handler returns: [`Done`] or [`Failed`].

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::context::Context;
use super::extract::{NeededState, States};
use super::function::{Handler, Running};
use super::middleware::{Handle, Next};
use crate::client::ClientError;

/// The outcome of a handler that did not fail.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Done {
    /// The execution succeeded, with this result: any bytes, at most
    /// [`PAYLOAD_BYTES_MAX`](crate::client::PAYLOAD_BYTES_MAX). A larger result fails the execution
    /// permanently.
    Completed(Vec<u8>),
    /// The handler has suspended the execution with [`Context::suspend`]. A signal resumes it.
    Suspended,
    /// Run the handler again after this delay, as the same attempt, on any worker. A delay of more
    /// than [`DURATION_MAX`](crate::client::DURATION_MAX) fails the execution permanently.
    Later(Duration),
}

impl From<()> for Done {
    fn from((): ()) -> Self {
        Self::Completed(Vec::new())
    }
}

impl From<Vec<u8>> for Done {
    fn from(result: Vec<u8>) -> Self {
        Self::Completed(result)
    }
}

impl From<String> for Done {
    fn from(result: String) -> Self {
        Self::Completed(result.into_bytes())
    }
}

impl From<&str> for Done {
    fn from(result: &str) -> Self {
        Self::Completed(result.as_bytes().to_vec())
    }
}

/// What a handler returns when it does not fail: anything that is `Into<Done>`, and
/// [`Json`](super::Json).
pub trait IntoDone {
    /// The outcome.
    ///
    /// # Errors
    /// The failure of the execution when the value cannot be a result.
    fn into_done(self) -> Result<Done, Failed>;
}

impl<T: Into<Done>> IntoDone for T {
    fn into_done(self) -> Result<Done, Failed> {
        Ok(self.into())
    }
}

/// Why a handler failed. The execution's retry policy decides whether it is retried. Reasons longer
/// than 8 KiB are truncated.
///
/// `?` turns any error into a transient failure: those of the standard library, of `anyhow`, and
/// texts. Its reason names the sources of the error too. Only a payload or result that is not the
/// JSON that was asked for ([`ClientError::NotJson`]) fails permanently.
#[derive(Clone, PartialEq, Eq)]
pub struct Failed {
    category: String,
    reason: String,
}

impl Failed {
    /// The category of failures that a retry may fix.
    pub const TRANSIENT: &'static str = "transient";
    /// The category of failures that are never retried, whatever the retry policy says.
    pub const PERMANENT: &'static str = selvedge_core::worker::PERMANENT;
    /// The category of panics in handlers.
    pub const PANIC: &'static str = selvedge_core::worker::PANIC;
    /// The category of executions of a kind that the worker has no handler for. It claims none, as
    /// long as the store has the library of this version.
    pub const NO_HANDLER: &'static str = "no_handler";

    /// A failure of any category. Retry policies may list the categories to retry.
    #[must_use]
    pub fn new(category: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { category: category.into(), reason: reason.into() }
    }

    /// A failure that a retry may fix.
    #[must_use]
    pub fn transient(reason: impl Into<String>) -> Self {
        Self::new(Self::TRANSIENT, reason)
    }

    /// A failure that is never retried.
    #[must_use]
    pub fn permanent(reason: impl Into<String>) -> Self {
        Self::new(Self::PERMANENT, reason)
    }

    /// Its category.
    #[must_use]
    pub fn category(&self) -> &str {
        &self.category
    }

    /// What went wrong.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Debug for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.category, self.reason)
    }
}

/// `Failed` does not implement `Error`, so that every error can be converted to it.
impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for Failed {
    fn from(error: E) -> Self {
        let error = error.into();
        let reason = with_sources(error.as_ref());
        if matches!(error.downcast_ref(), Some(ClientError::NotJson { .. })) {
            return Self::permanent(reason);
        }
        Self::transient(reason)
    }
}

/// The text of an error and of its sources, but for those that repeat what was said.
fn with_sources(error: &dyn Error) -> String {
    let mut told = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        if !told.contains(&text) {
            told.push_str(": ");
            told.push_str(&text);
        }
        source = cause.source();
    }
    told
}

/// The handlers of a worker, by kind.
#[derive(Clone, Default)]
pub(super) struct Handlers {
    by_kind: BTreeMap<String, Handle>,
    needed: Vec<(String, NeededState)>,
}

impl Handlers {
    pub(super) fn add<Arguments, H: Handler<Arguments>>(&mut self, kind: String, handler: H) {
        self.needed.retain(|(of, _)| *of != kind);
        self.needed.extend(H::needed_states().into_iter().map(|state| (kind.clone(), state)));
        self.by_kind.insert(kind, Arc::new(move |context| handler.start(&context)));
    }

    /// Wraps all handlers.
    pub(super) fn wrap<F, R>(&mut self, middleware: F)
    where
        F: Fn(Context, Next) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Done, Failed>> + Send + 'static,
    {
        let middleware = Arc::new(middleware);
        for handle in self.by_kind.values_mut() {
            let (middleware, inner) = (middleware.clone(), handle.clone());
            *handle = Arc::new(move |context| -> Running {
                Box::pin(middleware(context, Next(inner.clone())))
            });
        }
    }

    /// A kind whose handler needs a state that is not there, and the state.
    pub(super) fn lacks_state(&self, states: &States) -> Option<&(String, NeededState)> {
        self.needed.iter().find(|(_, needed)| !states.contain(needed))
    }

    pub(super) fn kinds(&self) -> impl Iterator<Item = &str> {
        self.by_kind.keys().map(String::as_str)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_kind.is_empty()
    }

    /// Starts the handler of this kind. Without one, the future fails with
    /// [`Failed::NO_HANDLER`].
    pub(super) fn start(&self, kind: &str, context: Context) -> Running {
        match self.by_kind.get(kind) {
            Some(handler) => handler(context),
            None => {
                let known: Vec<&str> = self.by_kind.keys().map(String::as_str).collect();
                let reason =
                    format!("no handler for `{kind}`; this worker has: {}", known.join(", "));
                Box::pin(async move { Err(Failed::new(Failed::NO_HANDLER, reason)) })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_any_error_name_its_sources_once() {
        fn read() -> Result<(), Failed> {
            Err(anyhow::anyhow!("connection refused").context("no answer from the bank"))?
        }
        let failed = read().unwrap_err();
        assert_eq!(failed.category(), Failed::TRANSIENT);
        assert_eq!(failed.reason(), "no answer from the bank: connection refused");
        let failed = Failed::from(std::io::Error::other("disk full"));
        assert_eq!(failed.reason(), "disk full", "the source of this error says the same");
        assert_eq!(Failed::from("out of paper").reason(), "out of paper");
    }
}
