//! The test kit: real servers on loopback, and what the end-to-end suites share.
//!
//! A suite asks for a [`server::Server`] (or a [`cluster::Cluster`]) and gets a process of its own
//! on a free loopback port, or takes the one that its test binary shares ([`shared`]). It talks to
//! it through a [`connection::Connection`], which shows replies exactly as they were on the wire.

pub mod cluster;
pub mod conformance;
pub mod connection;
pub mod differential;
pub mod draws;
pub mod fuzz;
pub mod header;
pub mod history;
pub mod hostile;
pub mod live;
pub mod patience;
pub mod planted;
pub use selvedge_sim::rig;
pub mod server;
pub mod shared;
pub mod spec;
pub mod words;

mod binary;
mod keeper;
