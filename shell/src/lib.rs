//! Durable execution on Valkey.
//!
//! | room | what is in it |
//! | --- | --- |
//! | [`client`] | submit flows, look at them, steer them, wait for them |
//! | [`worker`] | claim executions and run their handlers |
//! | [`store`] | one handle for whatever holds the data: this process, a server, a cluster |
//! | [`flow_file`] | flows as files |
//! | [`inspect`] | lanes, workers, graphs, why something waits, whether the data is sound |
//! | [`engine`] | the background work of a deployment, and how it is doing |
//! | [`deployment`] | what everybody agrees on before anybody works |
//! | [`secret`] | the secrets that sign waitpoint tokens |
//! | [`config`] | what the environment says |
//! | [`observe`] | log lines and metrics |
//! | [`serve`] | an engine as a daemon, with metrics and health over HTTP |
//! | [`demo`] | sample work, to see it run |
//!
//! Ids and times are those of [`selvedge_core`], which is to be had from here as well: whoever keeps
//! an id in a record of its own, or reads one from a text, needs no other crate.
//!
//! ```
//! use selvedge::id::{ExecutionId, FlowId};
//!
//! struct Order {
//!     flow: FlowId,
//!     payment: ExecutionId,
//! }
//!
//! let flow = "2f1b7c1e-8f0a-4c55-9a68-0b6d6c1d7a11".parse()?;
//! let payment = "{fp:7}:0d9f3c52-6a6e-4a1c-8a3c-5f9f0f0c2b11".parse()?;
//! let order = Order { flow, payment };
//! # let _ = (order.flow, order.payment);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod client;
mod clock;
pub mod config;
pub mod demo;
pub mod deployment;
pub mod engine;
pub mod flow_file;
pub mod inspect;
pub mod observe;
pub mod secret;
mod secret_text;
pub mod serve;
pub mod store;
pub mod worker;

pub use secret_text::SecretText;
/// The pure half of the engine, whose types the signatures in here are made of.
pub use selvedge_core;
pub use selvedge_core::{id, time};

/// The code of the README, run with the tests of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
