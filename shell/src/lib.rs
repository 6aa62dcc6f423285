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

/// The code of the README, run with the tests of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
