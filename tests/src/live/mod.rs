//! The truth outside: real engines and workers as processes, on real servers, under fire.
//!
//! A seed makes a [`plan::Plan`]: which servers, who plays, and which [`plan::Fault`] strikes when.
//! While the faults strike, a [`load`] submits flows and remembers what it was told. Then everything
//! heals, all work has to come to its end, and the [`judge`] reads the whole keyspace: the state
//! oracles of [`selvedge_core::audit`] must be content, and nobody may have been told what is not so.

pub mod crash;
pub mod judge;
pub mod load;
pub mod plan;
pub mod process;
pub mod proxy;
pub mod roles;
pub mod run;
pub mod runs;
mod said;
pub mod site;
pub mod view;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time of day that all processes of a schedule share, in milliseconds.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "processes compare what they saw by the clock")]
pub fn clock_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
