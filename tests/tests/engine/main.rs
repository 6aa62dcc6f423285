//! The engine against the real library, in virtual time: stories with readable traces.

#![expect(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a story that meets something else than it tells of has failed, and says so"
)]

mod cancels;
mod cost;
mod crash;
mod dispatch;
mod due;
mod flow_rows;
mod flows;
mod hand;
mod held;
mod kit;
mod large;
mod machine;
mod projector;
mod reconcile;
mod rows;
mod siblings;
mod snapshot;
mod stories;
mod trouble;
mod weak_due;
mod weak_listed;
