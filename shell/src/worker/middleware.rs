//! [`Next`]: what a middleware wraps.

use std::sync::Arc;

use super::context::Context;
use super::function::Running;
use super::handler::{Done, Failed};

/// What handles an execution.
pub(super) type Handle = Arc<dyn Fn(Context) -> Running + Send + Sync>;

/// The handler that a middleware wraps, with the middleware inside of it: see
/// [`wrap`](super::WorkerBuilder::wrap).
#[derive(Clone)]
pub struct Next(pub(super) Handle);

impl Next {
    /// Runs it.
    ///
    /// # Errors
    /// The failure of the handler.
    pub async fn run(self, context: Context) -> Result<Done, Failed> {
        (self.0)(context).await
    }
}

impl std::fmt::Debug for Next {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Next")
    }
}
