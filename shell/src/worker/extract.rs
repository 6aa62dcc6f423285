//! What a handler takes as arguments: [`FromContext`], [`Json`] and [`State`].

use std::any::{Any, TypeId, type_name};
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::context::Context;
use super::handler::{Done, Failed, IntoDone};

/// An argument of a handler, made from the execution that it runs.
///
/// | argument | is |
/// | --- | --- |
/// | [`Context`] | the execution, and the calls a handler can make on it |
/// | [`Json<T>`](Json) | the payload, read as JSON |
/// | `Vec<u8>` | the payload as it is |
/// | `String` | the payload, as UTF-8 |
/// | [`State<T>`](State) | what [`state`](super::WorkerBuilder::state) gave the worker |
///
/// An argument that cannot be made fails the execution: for good if its payload cannot be read, as
/// no retry would read it.
pub trait FromContext: Sized {
    /// Makes the argument.
    ///
    /// # Errors
    /// The failure of the execution when it cannot be made.
    fn from_context(context: &Context) -> Result<Self, Failed>;

    /// The state that the worker must have; the worker is refused without it.
    #[must_use]
    fn needed_state() -> Option<NeededState> {
        None
    }
}

/// The type of a [`State`] that a handler takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeededState {
    id: TypeId,
    name: &'static str,
}

impl NeededState {
    /// The name of the type.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }
}

impl FromContext for Context {
    fn from_context(context: &Context) -> Result<Self, Failed> {
        Ok(context.clone())
    }
}

impl FromContext for Vec<u8> {
    fn from_context(context: &Context) -> Result<Self, Failed> {
        Ok(context.payload().to_vec())
    }
}

impl FromContext for String {
    fn from_context(context: &Context) -> Result<Self, Failed> {
        Self::from_utf8(context.payload().to_vec())
            .map_err(|error| Failed::permanent(format!("the payload is no text: {error}")))
    }
}

/// A value as JSON: the payload of an execution as an argument of its handler, or its result as the
/// return value.
///
/// ```
/// use selvedge::{Failed, worker::Json};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Deserialize)]
/// struct Order { cents: u64 }
/// #[derive(Serialize)]
/// struct Receipt { charged: u64 }
///
/// async fn charge(Json(order): Json<Order>) -> Result<Json<Receipt>, Failed> {
///     Ok(Json(Receipt { charged: order.cents }))
/// }
/// # let _ = charge;
/// ```
///
/// A payload that is no such value fails the execution permanently, and so does a result that
/// cannot be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Json<T>(pub T);

impl<T: DeserializeOwned> FromContext for Json<T> {
    fn from_context(context: &Context) -> Result<Self, Failed> {
        let read = serde_json::from_slice(context.payload()).map(Self);
        read.map_err(|error| {
            let expected = type_name::<T>();
            Failed::permanent(format!("the payload is not the JSON of {expected}: {error}"))
        })
    }
}

impl<T: Serialize> IntoDone for Json<T> {
    fn into_done(self) -> Result<Done, Failed> {
        let written = serde_json::to_vec(&self.0).map(Done::Completed);
        written.map_err(|error| {
            Failed::permanent(format!("the result cannot be written as JSON: {error}"))
        })
    }
}

/// A value that all handlers of a worker share, such as a pool of connections: a clone of what
/// [`state`](super::WorkerBuilder::state) was given, by type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State<T>(pub T);

impl<T: Clone + Send + Sync + 'static> FromContext for State<T> {
    fn from_context(context: &Context) -> Result<Self, Failed> {
        let state = context.states().get().map(Self);
        state.ok_or_else(|| Failed::permanent(format!("no state of type {}", type_name::<T>())))
    }

    fn needed_state() -> Option<NeededState> {
        Some(NeededState { id: TypeId::of::<T>(), name: type_name::<T>() })
    }
}

/// The values given to a worker, by type.
#[derive(Clone, Default)]
pub(super) struct States(BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl States {
    pub(super) fn add<T: Send + Sync + 'static>(&mut self, value: T) {
        self.0.insert(TypeId::of::<T>(), Arc::new(value));
    }

    pub(super) fn contain(&self, needed: &NeededState) -> bool {
        self.0.contains_key(&needed.id)
    }

    fn get<T: Clone + 'static>(&self) -> Option<T> {
        self.0.get(&TypeId::of::<T>())?.downcast_ref().cloned()
    }
}

#[cfg(all(test, feature = "memory"))]
mod tests {
    use std::time::Duration;

    use serde::Deserialize;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::client::{Client, ClientError, TerminalOutcome};
    use crate::worker::{InvalidWorker, Next, Worker};
    use crate::{Flow, Task};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Order {
        cents: u64,
    }

    async fn charge(
        Json(order): Json<Order>,
        State(fee): State<u64>,
    ) -> Result<Json<Order>, Failed> {
        Ok(Json(Order { cents: order.cents + fee }))
    }

    async fn total(context: Context, _: Vec<u8>, _: String) -> Result<Json<u64>, Failed> {
        let order: Order = context.result_as("charge").await?.ok_or("nothing was charged")?;
        Ok(Json(order.cents))
    }

    async fn nothing() -> Result<(), Failed> {
        Ok(())
    }

    /// Runs `test` beside a worker that has these handlers.
    async fn beside_worker<F: Future<Output = ()>>(test: impl FnOnce(Client) -> F) {
        let client = Client::connect("memory://").await.expect("memory:// needs no server");
        let stop = CancellationToken::new();
        let worker = Worker::builder(client.clone())
            .state(5_u64)
            .handler("charge", charge)
            .handler("total", total)
            .handler("nothing", nothing)
            .handler("reads", |context: Context| async move {
                let order: Order = context.json()?;
                Ok(Json(order))
            });
        let worker = tokio::spawn(worker.run_until(stop.clone().cancelled_owned()));
        test(client).await;
        stop.cancel();
        worker.await.expect("it does not panic").expect("it starts and ends");
    }

    #[tokio::test]
    async fn payloads_and_results_are_typed_from_submission_to_wait() {
        beside_worker(|client| async move {
            let flow = Flow::new("typed")
                .task(Task::new("charge", "charge").json(&Order { cents: 95 }))
                .task(Task::new("total", "total").after(["charge"]));
            let flow = client.submit(flow).await.unwrap();
            let charged: Order = client.wait_as(&flow["charge"]).await.unwrap();
            assert_eq!(charged, Order { cents: 100 });
            assert_eq!(client.wait_as::<u64>(&flow["total"]).await.unwrap(), 100);
            let other = client.wait_as::<Order>(&flow["total"]).await;
            assert!(matches!(other, Err(ClientError::NotJson { what: "result", .. })), "{other:?}");
            let nothing = client.start(Task::new("n", "nothing")).await.unwrap();
            assert!(client.wait(&nothing).await.unwrap().result.is_empty());
        })
        .await;
    }

    #[tokio::test]
    async fn a_payload_that_cannot_be_read_fails_for_good_and_says_why() {
        beside_worker(|client| async move {
            for kind in ["charge", "reads"] {
                let bad = Task::new("a", kind).payload("{\"cents\":").retries(3, Duration::ZERO);
                let id = client.start(bad).await.unwrap();
                let ended = client.wait_as::<Order>(&id).await;
                let Err(ClientError::NoSuccess(ended)) = ended else { panic!("{ended:?}") };
                assert_eq!(ended.outcome, TerminalOutcome::Failed);
                assert!(ended.reason.contains("payload"), "{}", ended.reason);
                assert!(ended.reason.contains("EOF"), "{}", ended.reason);
                assert_eq!(client.execution(&id).await.unwrap().retries, 0, "{kind}");
            }
        })
        .await;
    }

    #[tokio::test]
    async fn a_value_that_json_cannot_hold_is_refused_before_it_is_sent() {
        let client = Client::connect("memory://").await.unwrap();
        let keys_are_lists: BTreeMap<Vec<u8>, u8> = [(vec![1], 1)].into();
        let task = Task::new("a", "k").json(&keys_are_lists);
        let refused = client.start(task.clone()).await.unwrap_err();
        assert!(refused.to_string().contains("payload of task `a`"), "{refused}");
        client.start(task.payload("text")).await.unwrap();
    }

    #[tokio::test]
    async fn a_worker_without_a_state_that_a_handler_takes_is_refused() {
        let client = Client::connect("memory://").await.unwrap();
        let worker = Worker::builder(client).handler("charge", charge);
        let refused = worker.build().unwrap_err();
        assert_eq!(refused, InvalidWorker::NoState { kind: "charge".into(), state: "u64" });
        assert!(refused.to_string().contains("State<u64>"), "{refused}");
    }

    #[tokio::test]
    async fn middleware_runs_around_the_handlers_added_before_it() {
        let client = Client::connect("memory://").await.unwrap();
        let stop = CancellationToken::new();
        let around = |name: &'static str| {
            move |context: Context, next: Next| async move {
                match next.run(context).await? {
                    Done::Completed(result) => {
                        let inner = String::from_utf8(result)?;
                        Ok(Done::from(format!("{name}({inner})")))
                    }
                    other @ (Done::Suspended | Done::Later(_)) => Ok(other),
                }
            }
        };
        let worker = Worker::builder(client.clone())
            .handler("wrapped", || async { Ok("handler") })
            .wrap(around("inner"))
            .wrap(around("outer"))
            .handler("bare", || async { Ok("handler") });
        let worker = tokio::spawn(worker.run_until(stop.clone().cancelled_owned()));
        for (kind, result) in [("wrapped", "outer(inner(handler))"), ("bare", "handler")] {
            let id = client.start(Task::new("a", kind)).await.unwrap();
            assert_eq!(client.wait(&id).await.unwrap().result, result.as_bytes());
        }
        stop.cancel();
        worker.await.unwrap().unwrap();
    }
}
