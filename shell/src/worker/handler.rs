//! What a handler gets done, or fails to.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::context::Context;

/// How a handler leaves its execution when nothing went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// It is done, with this result: any bytes, at most
    /// [`PAYLOAD_BYTES_MAX`](crate::client::PAYLOAD_BYTES_MAX) of them. A larger result is a final
    /// failure.
    Completed(Vec<u8>),
    /// It has suspended itself, by [`Context::suspend`]; whoever signals it lets it go on.
    Suspended,
    /// It goes on after a pause, as the same attempt, on whichever worker.
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

/// Why a handler failed. The execution's retry policy decides what comes next. Of a very long reason
/// the first 8 KiB are kept.
///
/// Any error becomes a transient failure by `?`.
#[derive(Clone, PartialEq, Eq)]
pub struct Failed {
    category: String,
    reason: String,
}

impl Failed {
    /// The category of failures that trying again may mend.
    pub const TRANSIENT: &'static str = "transient";
    /// The category of failures that are final, whatever the retry policy says.
    pub const PERMANENT: &'static str = "permanent";
    /// The category of handlers that panicked.
    pub const PANIC: &'static str = "panic";
    /// The category of work that no handler is there for.
    pub const NO_HANDLER: &'static str = "no_handler";

    /// A failure of a category of your own; retry policies may list it.
    #[must_use]
    pub fn new(category: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { category: category.into(), reason: reason.into() }
    }

    /// A failure that trying again may mend.
    #[must_use]
    pub fn transient(reason: impl Into<String>) -> Self {
        Self::new(Self::TRANSIENT, reason)
    }

    /// A failure that is final.
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

/// `Failed` is no error itself, so that every error can become one.
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

    pub(super) fn is_empty(&self) -> bool {
        self.by_kind.is_empty()
    }

    /// Starts the handler of this kind, or says which ones there are.
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
