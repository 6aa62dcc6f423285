//! The guide: how Selvedge works and how to use it, in seven chapters.
//!
//! | chapter | what it explains |
//! | --- | --- |
//! | [`concepts`] | flows, executions, attempts, leases, lanes, partitions, and the parts of a deployment |
//! | [`workers`] | handlers, results, failures, retries, timeouts, progress, draining |
//! | [`flows`] | tasks, dependencies, joins, delays, idempotency, cancellation, replay |
//! | [`limits`] | budgets and quotas |
//! | [`signals`] | suspending an execution until somebody sends it a signal |
//! | [`operations`] | running engines, health, metrics, settings, repair |
//! | [`guarantees`] | what is guaranteed, under which failures, and what is not |
//!
//! The code in these chapters is compiled and run with the tests, on the in-memory store.

#[doc = include_str!("guide/concepts.md")]
pub mod concepts {}

#[doc = include_str!("guide/workers.md")]
pub mod workers {}

#[doc = include_str!("guide/flows.md")]
#[doc = "\n```text\n"]
#[doc = include_str!("flow_file/reference.txt")]
#[doc = "\n```"]
pub mod flows {}

#[doc = include_str!("guide/limits.md")]
pub mod limits {}

#[doc = include_str!("guide/signals.md")]
pub mod signals {}

#[doc = include_str!("guide/operations.md")]
pub mod operations {}

#[doc = include_str!("guide/guarantees.md")]
pub mod guarantees {}
