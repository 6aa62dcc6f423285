//! Durable execution on Valkey.
//!
//! | room | what is in it |
//! | --- | --- |
//! | [`client`] | submit flows, look at them, steer them, wait for them |
//! | [`worker`] | claim executions and run their handlers |
//! | [`store`] | one handle for whatever holds the data: this process, a server, a cluster |
//! | [`flow_file`] | flows as files |
//! | [`inspect`] | lanes, workers, graphs, why something waits, whether the data is sound |
//! | [`demo`] | sample work, to see it run |

pub mod client;
mod clock;
pub mod demo;
pub mod embedded;
pub mod flow_file;
pub mod inspect;
mod secret_text;
pub mod store;
pub mod worker;

pub use secret_text::SecretText;
