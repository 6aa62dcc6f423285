//! The library on real stores.

#![expect(clippy::unwrap_used, reason = "a test that meets an error has failed, and says so")]

mod access;
mod damage;
mod deadlines;
mod killed_processes;
mod kit;
mod lanes;
mod lifecycle;
mod long_calls;
mod migration;
mod paused_node;
mod quota;
mod replay;
mod server_faults;
mod stores;
mod why;
mod work_filter;
