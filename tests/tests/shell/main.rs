//! The shell on real stores: one binary for all its suites, so that they share servers.

mod crash;
mod faults;
mod kit;
mod lifecycle;
mod stores;
