//! The test kit: real servers on loopback, and everything that the test suites share.
//!
//! A suite asks for a [`server::Server`] or a [`cluster::Cluster`] and gets a process of its own on
//! a free loopback port, or uses the one that its test binary shares ([`shared_servers`]). A
//! [`connection::Connection`] returns replies exactly as they are on the wire.

pub mod bounded_output;
pub mod cluster;
pub mod conformance;
pub mod connection;
pub mod damage;
pub mod differential;
pub mod fuzz;
pub mod history;
pub mod hostile;
pub mod ledger;
pub mod live;
pub mod lua_header;
pub mod wait;
pub use selvedge_sim::harness;
pub mod command_line;
pub mod proxy;
pub mod server;
pub mod shared_servers;
pub mod spec;

mod process_guard;
mod server_binary;
