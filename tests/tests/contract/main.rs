//! The wire contract: every spec case on every store, and the signatures of all functions.

mod costs;
mod guarantees;
mod large_groups;
mod signatures;
mod spec_cases;
mod write_marker;
