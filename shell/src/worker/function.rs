//! [`Handler`]: the functions that can handle executions.

use std::future::Future;
use std::pin::Pin;

use super::context::Context;
use super::extract::{FromContext, NeededState};
use super::handler::{Done, Failed, IntoDone};

/// A running handler.
pub(super) type Running = Pin<Box<dyn Future<Output = Result<Done, Failed>> + Send>>;

/// A function that handles executions: async, with up to eight arguments that are
/// [`FromContext`], returning `Result<_, Failed>` with anything that is [`IntoDone`]. Closures must
/// name the types of their arguments.
///
/// It is implemented for such functions and closures, and for nothing else.
pub trait Handler<Arguments>: Send + Sync + 'static {
    /// Starts it.
    #[doc(hidden)]
    fn start(&self, context: &Context) -> Running;

    /// The states that its arguments need.
    #[doc(hidden)]
    fn needed_states() -> Vec<NeededState>;
}

macro_rules! handler {
    ($($argument:ident),*) => {
        impl<F, R, D, $($argument),*> Handler<($($argument,)*)> for F
        where
            F: Fn($($argument),*) -> R + Send + Sync + 'static,
            R: Future<Output = Result<D, Failed>> + Send + 'static,
            D: IntoDone,
            $($argument: FromContext,)*
        {
            #[expect(clippy::allow_attributes, reason = "without arguments, nothing is unused")]
            #[allow(unused_variables, reason = "a handler without arguments")]
            fn start(&self, context: &Context) -> Running {
                let extracted = || Ok(self($($argument::from_context(context)?),*));
                match extracted() {
                    Ok(running) => Box::pin(async move { running.await?.into_done() }),
                    Err(failed) => Box::pin(async move { Err(failed) }),
                }
            }

            fn needed_states() -> Vec<NeededState> {
                let needed: [Option<NeededState>; _] = [$($argument::needed_state()),*];
                needed.into_iter().flatten().collect()
            }
        }
    };
}

handler!();
handler!(A);
handler!(A, B);
handler!(A, B, C);
handler!(A, B, C, T);
handler!(A, B, C, T, E);
handler!(A, B, C, T, E, G);
handler!(A, B, C, T, E, G, H);
handler!(A, B, C, T, E, G, H, I);
