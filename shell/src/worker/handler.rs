//! Handlers by kind, and what a handler returns: [`Done`] or [`Failed`].

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::context::Context;

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

/// Why a handler failed. The execution's retry policy decides whether it is retried. Reasons longer
/// than 8 KiB are truncated.
///
/// `?` turns any error into a transient failure.
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
    /// The category of executions of a kind that the worker has no handler for.
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
impl<E: std::error::Error> From<E> for Failed {
    fn from(error: E) -> Self {
        Self::transient(error.to_string())
    }
}

type Running = Pin<Box<dyn Future<Output = Result<Done, Failed>> + Send>>;
type Handler = Arc<dyn Fn(Context) -> Running + Send + Sync>;

/// The handlers of a worker, by kind.
#[derive(Clone, Default)]
pub(super) struct Handlers {
    by_kind: BTreeMap<String, Handler>,
}

impl Handlers {
    pub(super) fn add<F, R, D>(&mut self, kind: String, handler: F)
    where
        F: Fn(Context) -> R + Send + Sync + 'static,
        R: Future<Output = Result<D, Failed>> + Send + 'static,
        D: Into<Done>,
    {
        let run = move |context| -> Running {
            let running = handler(context);
            Box::pin(async move { running.await.map(Into::into) })
        };
        self.by_kind.insert(kind, Arc::new(run));
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
