//! Durable execution on Valkey: flows of executions that survive crashes, lost replies and
//! failovers.
//!
//! A [`Client`] submits flows and waits for them, a [`Worker`] runs their handlers, and an
//! [`Engine`] does the background work: it brings back the work of dead workers, moves what is due
//! and resolves dependencies. All three share a [`Store`], and each may run in another process.
//!
//! ```
//! use std::time::Duration;
//! use selvedge::{Client, Context, Engine, Failed, Flow, Task, Worker};
//! use tokio::sync::oneshot;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let client = Client::connect("memory://").await?;
//! let engine = Engine::builder(client.store().clone()).start().await?;
//!
//! let (stop, stopped) = oneshot::channel::<()>();
//! let worker = Worker::builder(client.clone())
//!     .handler("fetch", |_: Context| async { Ok::<_, Failed>("42") })
//!     .handler("double", |context: Context| async move {
//!         let fetched = context.result_of("fetch").await?.unwrap_or_default();
//!         let number: u64 = String::from_utf8(fetched)?.parse()?;
//!         Ok((2 * number).to_string())
//!     })
//!     .build()?;
//! let worker = tokio::spawn(worker.run_until(async move { drop(stopped.await) }));
//!
//! let flow = Flow::new("example")
//!     .task(Task::new("fetch", "fetch"))
//!     .task(Task::new("double", "double").after(["fetch"]));
//! let flow = client.submit(flow).await?;
//! assert_eq!(client.wait(&flow["double"]).await?.result, b"84");
//!
//! drop(stop);
//! worker.await??;
//! engine.shutdown(Duration::from_secs(5)).await?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The [`guide`] explains concepts, workers, flows, limits, signals, operations and guarantees.
//!
//! # Modules
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`guide`] | the guide for users and operators |
//! | [`client`] | submit flows, read them, steer them, wait for them |
//! | [`worker`] | claim executions and run their handlers |
//! | [`engine`] | the background work of a deployment, and its health |
//! | [`store`] | one handle for the store: in this process, a server, a cluster |
//! | [`low_level`] | single commands, keys and calls of store functions, for tools |
//! | [`deployment`] | what all programs of a deployment agree on: partition counts, lanes, secrets |
//! | [`secret`] | the secrets that sign waitpoint tokens |
//! | [`observe`] | log lines and metrics |
//! | `flow_file` | flows as TOML and JSON files (feature `flow-file`) |
//! | `inspect` | lanes, workers, graphs, what an execution waits for, checks of the data (feature `inspect`) |
//!
//! Ids, times, errors, partitions, policies and states are those of the crate `selvedge-core`,
//! re-exported here: [`id`], [`time`], [`error`], [`partition`], [`policy`] and [`state`].
//!
//! # Features
//!
//! | feature | brings |
//! | --- | --- |
//! | `memory` (default) | the store at `memory://`: a Lua VM and a keyspace in this process |
//! | `tls` | `valkeys://` and `rediss://` |
//! | `metrics` | counters, gauges and histograms for the recorder that the program installs with the crate `metrics` |
//! | `flow-file` | the module `flow_file` |
//! | `inspect` | the module `inspect`, and `memory` with it: a dry run works on a copy in memory |
//!
//! Opening a URL whose feature is off is a [`StoreError::FeatureDisabled`](store::StoreError) that
//! names the feature. The crate logs with `tracing`, and installs neither a subscriber nor a
//! recorder.

pub mod client;
#[cfg(feature = "memory")]
mod clock;
pub mod deployment;
pub mod engine;
#[cfg(feature = "flow-file")]
pub mod flow_file;
pub mod guide;
#[cfg(feature = "inspect")]
pub mod inspect;
pub mod observe;
mod retry;
pub mod secret;
mod secret_text;
pub mod store;
pub mod worker;

pub use client::{Client, ClientError, Flow, Task};
pub use engine::Engine;
pub use secret_text::SecretText;
pub use selvedge_core::{error, id, partition, policy};
pub use store::Store;
pub use worker::{Context, Done, Failed, Worker};

/// The states of an execution, and of a flow.
pub mod state {
    pub use selvedge_core::state::{
        AttemptState, BlockingReason, EligibilityState, FlowState, LifecyclePhase, MemberCounts,
        OwnershipState, PublicState, StateVector, TerminalOutcome,
    };
}

/// Times by the clock of the store.
pub mod time {
    pub use selvedge_core::time::{DURATION_MAX, ServerTime};
}

/// Single commands, keys and calls of store functions, for [`Store::call`] and [`Store::command`]:
/// for tools that read or change records directly. Everything else is easier and safer with a
/// [`Client`].
pub mod low_level {
    pub use selvedge_core::capability::{Capabilities, InvalidCapabilities};
    pub use selvedge_core::retry::{Idempotency, Retry};
    pub use selvedge_core::{call, command, key, value};
}

/// What only the fuzz targets of this workspace need. Not part of the API.
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing {
    use selvedge_core::value::Value;

    /// Parses the bytes of a reply as a connection does.
    #[must_use]
    pub fn read_wire(bytes: &[u8]) -> Option<Value> {
        crate::store::read_wire(bytes)
    }
}

/// The code of the README, run with the tests of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
