//! The shell on real stores: one binary for all its suites, so that they share servers.

mod kit;
mod stores;
