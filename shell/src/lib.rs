//! Durable execution on Valkey.
//!
//! | room | what is in it |
//! | --- | --- |
//! | [`store`] | one handle for whatever holds the data: this process, a server, a cluster |
//! | [`client`] | submit flows, look at them, steer them, wait for them |
//! | [`worker`] | claim executions and run their handlers |
//! | [`demo`] | sample work, to see it run |

pub mod client;
mod clock;
pub mod demo;
pub mod embedded;
mod secret_text;
pub mod store;
pub mod worker;

pub use secret_text::SecretText;
